"""The processes of peers: one that quantizes, and what it cost; one that answers requests until it is told to end."""
from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from case import Folder
from columns.column import Column

WORKER, COST = (str(Path(__file__).resolve().parent / name) for name in ('worker.py', 'cost.py'))
# glibc keeps freed memory, as docs/benchmarking.md advises for LibTorch. All columns have it, so that none has it before another.
KEPT_MEMORY = 'glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184'


class Failed(Exception):
    """A step that a peer could not do: one sentence."""


@dataclass(frozen=True)
class Cost:
    seconds: float  # of processor, user and system, of the whole process and what it started
    megabytes: float  # most resident at once
    remark: str  # of the peer, on how it read the network and on its result


def surroundings(folder: Folder, threads: int | None) -> dict[str, str]:
    """Environment variables. While it quantizes (threads is None) a peer takes the threads that it likes."""
    common = {**os.environ, 'TORCHINDUCTOR_CACHE_DIR': str(folder.path / 'inductor')}
    if threads is None:
        return common
    number = str(threads)
    return {**common, 'OMP_NUM_THREADS': number, 'MKL_NUM_THREADS': number, 'KMP_BLOCKTIME': '0', 'GLIBC_TUNABLES': KEPT_MEMORY}


def kill(process: subprocess.Popen) -> None:
    """With what it started, which is in its process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def quantize(column: Column, tsq: str, folder: Folder, file: Path, patience: float) -> Cost:
    if column.needs_source and not folder.source.exists():
        raise Failed(f'{column.name} needs the source of the model, which a TorchScript file does not have')
    if column.command:
        command = column.command(tsq, folder, file)
    else:
        command = [sys.executable, WORKER, 'quantize', column.key, str(folder.path), str(file)]
    log, cost = folder.path / f'{column.key}.quantize.log', folder.path / f'{column.key}.cost.json'
    command = [sys.executable, '-S', COST, str(cost), *command]
    with log.open('w') as errors, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                                                   env=surroundings(folder, None), cwd=folder.path, start_new_session=True) as process:
        try:
            printed, _ = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            kill(process)
            raise Failed(f'quantizing took longer than {patience:g} s') from None
        except BaseException:
            kill(process)
            raise
    if not cost.exists():
        raise Failed(reason(printed, log, process.returncode))
    found = json.loads(cost.read_text())
    if found['status'] != 0:
        raise Failed(reason('' if column.command else printed, log, found['status']))
    remark = column.remark(printed) if column.remark else last_answer(printed).get('remark')
    return Cost(found['seconds'], found['megabytes'], remark or '')


def last_answer(printed: str) -> dict:
    """A worker's: one JSON value on a line."""
    lines = printed.splitlines()
    return json.loads(lines[-1]) if lines and lines[-1].startswith('{') else {}


def reason(printed: str, log: Path, code: int) -> str:
    """What the process said last."""
    error = last_answer(printed).get('error')
    if error:
        return error
    said = [line.strip() for line in log.read_text(errors='replace').splitlines() if line.strip()]
    how = f'signal {signal.Signals(-code).name}' if code < 0 else f'exit code {code}'
    return said[-1] if said and code > 0 else f'the process ended with {how}' + (f'; it said last: {said[-1]}' if said else '')


class Worker:
    """A process that serves a column, and blocks on its pipe while it has no turn."""

    def __init__(self, column: Column, folder: Folder, file: Path, threads: int, patience: float) -> None:
        self.column, self.patience = column, patience
        self.log = folder.path / f'{column.key}.serve.log'
        self.errors: IO = self.log.open('w')
        command = [sys.executable, WORKER, 'serve', column.key, str(folder.path), str(file), str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env=surroundings(folder, threads), cwd=folder.path, start_new_session=True)
        try:
            loaded = self.answer()
            self.load_seconds, self.megabytes = loaded['seconds'], loaded['megabytes']
        except BaseException:
            self.end()
            raise

    def ask(self, **request: object) -> dict:
        try:
            self.process.stdin.write(json.dumps(request) + '\n')
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the reason is read below
        return self.answer()

    def answer(self) -> dict:
        ready, _, _ = select.select([self.process.stdout], [], [], self.patience)
        if not ready:
            kill(self.process)
            raise Failed(f'no answer within {self.patience:g} s')
        line = self.process.stdout.readline()
        if not line:
            raise Failed(reason('', self.log, self.process.wait()))
        answer = json.loads(line)
        if 'error' in answer:
            raise Failed(answer['error'])
        return answer

    def end(self) -> None:
        """Nothing that it holds is worth a clean ending."""
        kill(self.process)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
