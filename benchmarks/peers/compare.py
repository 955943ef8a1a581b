"""tsq beside its peers, in one run: the program that `run` starts, in the environment of the peers.

  compare.py                                              the networks of the benchmark
  compare.py model.pt --data data.pt --test test.pt       a TorchScript file of yours

`run --help` explains the options.
"""
from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

warnings.filterwarnings('ignore')

import torch  # noqa: E402

import case  # noqa: E402
import machine  # noqa: E402
import measures  # noqa: E402
import options  # noqa: E402
import results  # noqa: E402
import table  # noqa: E402
import turns  # noqa: E402
from case import Case, Folder  # noqa: E402
from columns import COLUMNS  # noqa: E402
from columns.column import Column  # noqa: E402
from processes import Failed, Worker, quantize  # noqa: E402
from results import ColumnResult, NetworkResult, Report  # noqa: E402
from samples import Unusable  # noqa: E402

SETTINGS = [
    'Every column is a process of its own, which blocks on a pipe until it has a turn. Each round has another order and the next batch.',
    "Threads: OMP_NUM_THREADS, torch.set_num_threads, ONNX Runtime's intra_op threads, OpenVINO's INFERENCE_NUM_THREADS.",
    'OpenVINO has the hint LATENCY and one stream.',
    'No thread spins in the turn of another column: session.force_spinning_stop (ONNX Runtime), KMP_BLOCKTIME=0, and 5 ms after each turn.',
    'All columns: freed memory stays in the process (GLIBC_TUNABLES of docs/benchmarking.md).',
    'ONNX Runtime, OpenVINO and Inductor are compiled for each shape that is timed.',
    'Quantize: processor seconds of a process that begins with the file (FX and PT2E: with the source) and ends with the int8 file;',
    "  export and tsq's trial are included.",
    'Load *: wall time to load and to call each batch size once, with what is compiled then; at the first number of threads.',
    'Memory *: resident after one call of the least batch size, less what was resident before the model and after its libraries were loaded.',
    "÷ tsq: median over rounds of the time divided by that of tsq's fastest column in the same round, with a 95 % bootstrap interval.",
]


def say(text: str) -> None:
    print(f'peers: {text}', file=sys.stderr, flush=True)


def cases(chosen) -> Iterator[Callable[[], Case]]:
    if chosen.model:
        yield lambda: case.from_file(chosen.model, chosen.data, chosen.test)
        return
    import networks  # needs torchvision, which a file of the user's does not

    yield from (networks.MAKERS[name] for name in dict.fromkeys(chosen.network or options.NETWORKS))


def megabytes(column: Column, file: Path) -> float:
    files = [file] + ([file.with_name(column.companion)] if column.companion else [])
    return sum(part.stat().st_size for part in files) / 1e6


def attempted(result: ColumnResult, step: str, work: Callable[[], object]) -> bool:
    try:
        work()
    except (Failed, measures.Different) as failure:
        result.errors[step] = str(failure)
        say(f'{result.name}, {step}: {failure}')
    return step not in result.errors


def quantized(column: Column, result: ColumnResult, folder: Folder, chosen) -> Path | None:
    """The file to run; None where the peer could not make one."""
    file = folder.path / column.file if column.file else folder.model

    def work() -> None:
        cost = quantize(column, chosen.tsq, folder, file, chosen.patience)
        result.quantize_seconds, result.quantize_megabytes, result.remark = cost.seconds, cost.megabytes, cost.remark

    if column.file and not attempted(result, 'quantize', work):
        return None
    result.megabytes = megabytes(column, file)
    return file


def judge(worker: Worker, result: ColumnResult, folder: Folder) -> None:
    worker.ask(do='outputs')
    wanted, got = torch.load(folder.outputs('float')), torch.load(folder.outputs(result.key))
    measures.check(wanted, got)
    result.sqnr, result.agreement = measures.sqnr(wanted, got), measures.agreement(wanted, got)


class Workers:
    """One for each column that has a file, on so many threads; those that fail on the way are told and left out."""

    def __init__(self) -> None:
        self.found: dict[str, Worker] = {}

    def load(self, network: NetworkResult, folder: Folder, files: dict[str, Path], threads: int, patience: float) -> None:
        for result in network.columns:
            if result.key in files and 'outputs' not in result.errors:
                step = f'load with {table.threads_text(threads)}'
                attempted(result, step, lambda: self.start(result, folder, files[result.key], threads, patience))

    def start(self, result: ColumnResult, folder: Folder, file: Path, threads: int, patience: float) -> None:
        worker = Worker(COLUMNS[result.key], folder, file, threads, patience)
        self.found[result.key] = worker
        result.load_seconds[threads], result.model_megabytes[threads] = worker.load_seconds, worker.megabytes

    def judge(self, network: NetworkResult, folder: Folder) -> None:
        """What cannot compute the test samples is not timed either."""
        for result in network.columns:
            worker = self.found.get(result.key)
            if worker and not attempted(result, 'outputs', lambda: judge(worker, result, folder)):
                self.found.pop(result.key).end()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.found.values():
            worker.end()


def measured(network: NetworkResult, folder: Folder, files: dict[str, Path], chosen) -> None:
    batches = {size: len(made) for size, made in torch.load(folder.batches).items()}
    seconds = chosen.seconds / (len(chosen.threads) * max(1, len(batches)))
    for threads in chosen.threads:
        with Workers() as workers:
            workers.load(network, folder, files, threads, chosen.patience)
            if threads == chosen.threads[0]:
                say(f'{network.name}: running the test samples')
                workers.judge(network, folder)
            for size, count in batches.items():
                place = f'{network.name}: {table.threads_text(threads)}, batch {size}'
                say(f'{place}: warming {len(workers.found)} columns, then {seconds:.0f} s in turns')
                taken = turns.take(workers.found, threads, size, count, seconds, chosen.seed)
                network.turns.append(taken)
                results.latencies(network.columns, taken, chosen.seed)


def compared(network_case: Case, columns: list[Column], chosen) -> NetworkResult:
    with tempfile.TemporaryDirectory(prefix='tsq-peers-') as name:
        folder, refused = case.write(network_case, list(dict.fromkeys(chosen.batch)), Path(name))
        network = NetworkResult(network_case.name, network_case.note, len(network_case.calibration), len(network_case.test),
                                [ColumnResult(column.key, column.peer, column.name) for column in columns], refused)
        files = {}
        for column, result in zip(columns, network.columns):
            say(f'{network.name}: {column.name}' + (': quantizing' if column.file else ''))
            file = quantized(column, result, folder, chosen)
            if file:
                files[column.key] = file
        measured(network, folder, files, chosen)
    return network


def plain(value: object) -> object:
    """For JSON, which has no infinities."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_whole(file: str, write: Callable[[Path], object]) -> None:
    unfinished = Path(f'{file}.unfinished')
    try:
        write(unfinished)
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)


def check_places(chosen) -> None:
    """Before an hour of work, not after it."""
    for file in filter(None, (chosen.json, chosen.plot)):
        if not Path(file).resolve().parent.is_dir():
            raise Unusable(f"'{file}' cannot be written: there is no folder '{Path(file).parent}'")
    if 'tsq' in chosen.peers and not os.access(chosen.tsq, os.X_OK):
        raise Unusable(f"there is no program '{chosen.tsq}': build it (cmake --build --preset release) or name it with --tsq")


def run(chosen) -> None:
    check_places(chosen)
    report = Report(time.strftime('%Y-%m-%d %H:%M:%S %z'), sys.argv, machine.describe(), machine.versions(chosen.tsq), SETTINGS)
    columns = [column for column in COLUMNS.values() if column.peer in chosen.peers]
    for make in cases(chosen):
        report.networks.append(compared(make(), columns, chosen))
        print(table.of_network(report.networks[-1]), end='\n\n', flush=True)
    report.means = table.means(report.networks)
    if len(report.networks) > 1:
        print(table.means_table(report), end='\n\n')
    print(table.machine(report))
    if chosen.json:
        write_whole(chosen.json, lambda file: file.write_text(json.dumps(plain(report), indent=1, allow_nan=False) + '\n'))
    if chosen.plot:
        import plot  # needs matplotlib

        write_whole(chosen.plot, lambda file: plot.save(report.networks, file))


def main() -> None:
    chosen = options.parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('peers: ended by SIGTERM'))  # processes and files that were begun are taken away
    try:
        run(chosen)
    except Unusable as fault:
        sys.exit(f'peers: error: {fault}')
    except KeyboardInterrupt:
        sys.exit('peers: interrupted')


if __name__ == '__main__':
    main()
