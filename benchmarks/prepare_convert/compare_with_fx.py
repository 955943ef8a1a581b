"""Times prepare, calibrate and convert of Python FX against `tsq quantize`, in interleaved rounds of one run.

The networks are those of tests/conformance/networks.py; both sides use the engine's BackendConfig and default mapping
(histogram observers, so convert includes the search for each range) and the same batches.

  python compare_with_fx.py --tsq build/release/bin/tsq
  python compare_with_fx.py --tsq build/release/bin/tsq --network resnet50 --rounds 7 --batches 16
"""

import argparse
import copy
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, convert_to_reference_fx, prepare_fx

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "conformance"))
import networks  # noqa: E402
import oracle  # noqa: E402
from case import Case, normal  # noqa: E402

# name -> (image size) -> network
NETWORKS = {
    "resnet50": lambda size: networks.resnet50(),
    "mobilenet_v2": lambda size: networks.MobileNetV2(),
    "efficientnet_lite": lambda size: networks.EfficientNetLite(size),
}
ROWS = ("prepare", "calibrate", "convert", "prepare + convert")


def seconds_of(work):
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def fx_round(model, engine: str, batches) -> dict:
    """convert is convert_fx; the reference model alone is timed beside it."""
    backend = oracle.BACKEND_CONFIGS[engine]()
    model, mapping = copy.deepcopy(model), get_default_qconfig_mapping(engine)

    def calibrate(prepared):
        with torch.no_grad():
            for batch in batches:
                prepared(*batch)

    prepared, prepare = seconds_of(lambda: prepare_fx(model, mapping, batches[0], backend_config=backend))
    _, calibration = seconds_of(lambda: calibrate(prepared))
    for_reference = copy.deepcopy(prepared)
    _, reference = seconds_of(lambda: convert_to_reference_fx(for_reference, backend_config=backend))
    _, convert = seconds_of(lambda: convert_fx(prepared, backend_config=backend))
    return {"prepare": prepare, "calibrate": calibration, "convert": convert, "prepare + convert": prepare + convert, "reference alone": reference}


def tsq_round(tsq: str, engine: str, folder: Path, threads: int) -> dict:
    """tsq's own clock: reading and writing files is in neither side's numbers."""
    command = [tsq, "quantize", "--no-check", str(folder / "model.pt"), "--calib", str(folder / "calibration.pt"), "--backend", engine]
    command += ["--recipe", "fx", "--output", str(folder / "out.pt"), "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    if finished.returncode != 0:
        raise SystemExit(f"tsq quantize exited with {finished.returncode}: {finished.stderr.strip()}")
    steps = {entry["step"]: entry["seconds"] for entry in json.loads(finished.stdout)["steps"]}
    convert = steps["convert"] + steps["lower"]
    return {
        "prepare": steps["prepare"],
        "calibrate": steps["calibrate"],
        "convert": convert,
        "prepare + convert": steps["prepare"] + convert,
        "reference alone": steps["convert"],
    }


def compare(name: str, options) -> dict:
    case = Case(name, lambda: NETWORKS[name](options.size), (normal(options.batch_size, 3, options.size, options.size),), settle=2)
    model = case.build()
    batches = case.calibration_batches()[:1]
    generator = torch.Generator().manual_seed(1)
    while len(batches) < options.batches:
        batches.append((torch.randn(batches[0][0].shape, generator=generator) * (0.5 + len(batches) / options.batches),))
    rounds: dict = {"fx": [], "tsq": []}
    with tempfile.TemporaryDirectory() as folder:
        torch.jit.script(model).save(os.path.join(folder, "model.pt"))
        torch.save(batches, os.path.join(folder, "calibration.pt"))
        for number in range(options.rounds):
            print(f"{name}: round {number + 1} of {options.rounds}", file=sys.stderr)
            rounds["fx"].append(fx_round(model, options.engine, batches))
            rounds["tsq"].append(tsq_round(options.tsq, options.engine, Path(folder), options.threads))
    return rounds


def print_table(results: dict) -> None:
    print("| network | step | FX min / median (s) | tsq min / median (s) | FX ÷ tsq, of minima |")
    print("|---|---|---|---|---|")
    for name, rounds in results.items():
        for row in ROWS + ("reference alone",):
            fx, tsq = ([entry[row] for entry in rounds[side]] for side in ("fx", "tsq"))
            cells = [f"{min(values):.3f} / {statistics.median(values):.3f}" for values in (fx, tsq)]
            print(f"| {name} | {row} | {cells[0]} | {cells[1]} | {min(fx) / min(tsq):.1f} |")


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tsq", required=True, help="the built command")
    parser.add_argument("--network", action="append", choices=sorted(NETWORKS), help="may be given more than once (default: all)")
    parser.add_argument("--engine", default="x86", choices=sorted(oracle.BACKEND_CONFIGS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=8, help="calibration batches (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--size", type=int, default=224, help="height and width of the images (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write all rounds to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    torch.backends.quantized.engine = options.engine
    oracle.import_fx_fully()
    results = {name: compare(name, options) for name in options.network or NETWORKS}
    print(
        f"engine {options.engine}, {options.threads} thread(s), {options.batches} batches of {options.batch_size} images of "
        f"{options.size}x{options.size}, {options.rounds} rounds, torch {torch.__version__}, {cpu_name()}\n"
    )
    print_table(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
