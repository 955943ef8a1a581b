#!/usr/bin/env python3
"""Writes the profiles of processors that are part of the library, on a machine that has AVX-512 with VNNI.

measure_profiles.py build/release/bin/tsq [avx512-vnni] [avx2] [amx]     (default: all three)

avx512-vnni  is measured as the machine is, each engine in a process of its own: calls of one that has computed for four take up to 1.5 times as long.
avx2         is measured with instruction sets limited. LibTorch's engine x86 asks the processor, not the limits: what it takes without VNNI are
             fbgemm's kernels, and those are measured in its place. onednn and qnnpack are left out.
amx          is estimated from avx512-vnni. oneDNN multiplies bytes on tiles there, 1,024 multiply-accumulates a cycle in place of 128 (Intel 64 and
             IA-32 Architectures Optimization Reference Manual, "Intel AMX"). Half of that is taken as reached, for tiles have to be loaded: such
             products cost a quarter. All else stays as it is.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROFILES = pathlib.Path(__file__).resolve().parent.parent / "backends" / "profiles"
# LibTorch's own kernels, oneDNN's, fbgemm's and MKL's.
LIMITS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}
PRODUCTS_OF_AMX = 1 / 4
OF_ONEDNN = ("x86 quantized::", "onednn quantized::", "onednn::", "fused int8 ")
LAYERS = ("conv", "linear", "matmul", "attention")


def path_of(name: str) -> pathlib.Path:
    return PROFILES / f"{name}.json"


def read(name: str) -> dict:
    return json.loads(path_of(name).read_text())


def write(profile: dict) -> None:
    path_of(profile["name"]).write_text(json.dumps(profile, indent=1, sort_keys=True) + "\n")


def measure(tsq: str, name: str, engine: str, limits: dict, options: tuple = ()) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "machine.json"
        command = [tsq, "tune", "--name", name, "--engines", engine, "--output", str(path), *options]
        subprocess.run(command, check=True, env={**os.environ, **limits})
        return json.loads(path.read_text())


def avx512_vnni(tsq: str) -> None:
    profile = measure(tsq, "avx512-vnni", "x86", {})
    for engine in ("fbgemm", "onednn", "qnnpack"):
        for threads, kernels in measure(tsq, "avx512-vnni", engine, {})["threads"].items():
            own = {kind: times for kind, times in kernels.items() if kind.startswith(f"{engine} ")}
            profile["threads"][threads].update(own)
    write(profile)


def avx2(tsq: str) -> None:
    # Fbgemm's kernels for odd groups take milliseconds.
    profile = measure(tsq, "avx2", "fbgemm", LIMITS, ("--effort", "0.6"))
    profile["processor"] += ", limited to AVX2"
    for kernels in profile["threads"].values():
        for kind in [kind for kind in kernels if kind.startswith("fbgemm ")]:
            kernels[kind.replace("fbgemm ", "x86 ", 1)] = kernels[kind]
    write(profile)


def multiplies_bytes(kind: str) -> bool:
    others = ("depthwise", "fp16")
    return kind.startswith(OF_ONEDNN) and any(word in kind for word in LAYERS) and not any(word in kind for word in others)


def amx(_tsq: str) -> None:
    profile = read("avx512-vnni")
    profile.update(name="amx", processor=f"{profile['processor']}, with products on tiles", estimated=True)
    for kernels in profile["threads"].values():
        for kind, times in kernels.items():
            for feature in ("products", "plain_products"):
                if multiplies_bytes(kind) and feature in times:
                    times[feature] = float(f"{times[feature] * PRODUCTS_OF_AMX:.4g}")
    write(profile)


def main() -> None:
    makers = {"avx512-vnni": avx512_vnni, "avx2": avx2, "amx": amx}
    tsq, *names = sys.argv[1:]
    for name in names or makers:
        makers[name](tsq)


if __name__ == "__main__":
    main()
