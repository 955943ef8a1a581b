"""The Python environment of the peers: made once for each set of pinned versions, below ~/.cache/tsq-benchmarks/peers."""
from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
STEPS = [['-r', str(HERE / 'requirements.txt')], ['--no-deps', '-r', str(HERE / 'requirements_alone.txt')]]


def folder() -> Path:
    """Of another name for other versions, so that an old environment is never taken for a new one."""
    texts = [(HERE / name).read_bytes() for name in ('requirements.txt', 'requirements_alone.txt', 'constraints.txt')]
    pinned = hashlib.sha1(b''.join(texts) + sys.version.encode()).hexdigest()[:12]
    return Path.home() / '.cache' / 'tsq-benchmarks' / 'peers' / pinned


def installed() -> Path:
    """The interpreter of the environment, which is made where it is not there."""
    place = folder()
    python, finished = place / 'bin' / 'python', place / 'finished'
    if finished.exists():
        return python
    print(f'peers: installing the peers into {place}, once: 1 to 5 minutes', file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    create(place)
    for step in STEPS:
        install(python, step)
    finished.touch()
    return python


def create(place: Path) -> None:
    made = subprocess.run([sys.executable, '-m', 'venv', str(place)], capture_output=True, text=True)
    if made.returncode != 0:
        fail(f'{sys.executable} could not make an environment in {place}: install its venv module (Debian: python3-venv)')


def install(python: Path, what: list[str]) -> None:
    command = [str(python), '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-c', str(HERE / 'constraints.txt'), *what]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return
    if any(name in done.stderr for name in ('triton', 'cuda-', 'nvidia-')):
        fail('the package index offers a torch built for CUDA: name an index with the CPU build in PIP_EXTRA_INDEX_URL')
    errors = [line.removeprefix('ERROR: ') for line in done.stderr.splitlines() if line.startswith('ERROR')]
    fail(f'pip could not install {what[-1]}: {(errors or ["no reason given"])[-1]}; is the package index reachable?')


def fail(sentence: str) -> None:
    sys.exit(f'peers: error: {sentence}')
