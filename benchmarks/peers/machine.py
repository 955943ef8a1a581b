"""The machine and the versions that a result was measured with."""
from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

PACKAGES = ['torch', 'torchao', 'onnx', 'onnxruntime', 'openvino', 'nncf', 'torchvision', 'numpy']
# The best kind of a processor's 8-bit products, by its flags in /proc/cpuinfo.
KINDS = [('amx_int8', 'AMX'), ('avx512_vnni', 'AVX-512 VNNI'), ('avx_vnni', 'AVX-VNNI'), ('avx512f', 'AVX-512 without VNNI'),
         ('avx2', 'AVX2 without VNNI')]


def processor() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo; nothing where there is no such file."""
    file = Path('/proc/cpuinfo')
    first = file.read_text().split('\n\n')[0] if file.exists() else ''
    return {name.strip(): value.strip() for name, _, value in (line.partition(':') for line in first.splitlines())}


def describe() -> dict:
    known = processor()
    flags = set(known.get('flags', '').split())
    return {'processor': known.get('model name', platform.machine()),
            'kind': next((kind for flag, kind in KINDS if flag in flags), 'unknown'),
            'cores': len(os.sched_getaffinity(0)),
            'load_before': round(os.getloadavg()[0], 2),
            'system': f'{platform.system()} {platform.release()}'}


def versions(tsq: str) -> dict[str, str]:
    found = {'python': platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    said = subprocess.run([tsq, '--version'], capture_output=True, text=True)
    return {'tsq': said.stdout.strip().removeprefix('tsq ') or 'unknown', **found}
