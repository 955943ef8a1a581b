"""Times prepare, convert and lower of `tsq` over the number of layers: the time of a layer must not grow with the graph.

The network is a chain of convolutions with batch norm and ReLU, scripted: LibTorch takes minutes to load a trace of thousands of layers,
each with classes of its own. Ranges are those of one batch. Each step is a command of its own, whose report of time leaves out start, load
and save. Convert and lower try what they made by saving it and loading it again. That is LibTorch's time, which grows with the square of the
number of children of a module: it has a column of its own.

  python over_size.py --tsq build/release/bin/tsq
  python over_size.py --tsq build/release/bin/tsq --layers 50 800 12800 --recipe fx --rounds 3
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

STEPS = ("prepare", "convert", "lower")
RELOADS = "reloads"  # of the results of convert and lower, by LibTorch


class Chain(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU()) for _ in range(layers)
        )

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def run(arguments: list) -> dict:
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"over_size: error: {' '.join(arguments)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def seconds_of(tsq: str, recipe: str, folder: Path) -> dict:
    model, data, prepared, calibrated, reference, output = (
        str(folder / name) for name in ("model.pt", "data.pt", "prepared.pt", "calibrated.pt", "reference.pt", "int8.pt")
    )
    steps = {
        "prepare": [tsq, "prepare", model, "--recipe", recipe, "-o", prepared],
        "calibrate": [tsq, "calibrate", prepared, "--calib", data, "-o", calibrated],
        "convert": [tsq, "convert", calibrated, "-o", reference],
        "lower": [tsq, "lower", reference, "-o", output],
    }
    answers = {step: run(arguments + ["--json"]) for step, arguments in steps.items()}
    reloads = {step: answers[step].get("reload_seconds", 0) for step in STEPS}
    seconds = {step: sum(part["seconds"] for part in answers[step]["steps"] if part["step"] == step) - reloads[step] for step in STEPS}
    return seconds | {RELOADS: sum(reloads.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tsq", required=True)
    parser.add_argument("--layers", type=int, nargs="+", default=[50, 200, 800, 3200, 12800])
    parser.add_argument("--recipe", choices=("fx", "best"), default="best")
    parser.add_argument("--rounds", type=int, default=1, help="the least time of so many counts")
    options = parser.parse_args()
    print(f"{'layers':>8}" + "".join(f"{step + ', s':>12}{'ms a layer':>12}" for step in (*STEPS, RELOADS)))
    for layers in options.layers:
        torch.manual_seed(1)
        sample = torch.randn(1, 4, 2, 2)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            torch.jit.save(torch.jit.script(Chain(layers).eval()), str(folder / "model.pt"))
            torch.save([sample], folder / "data.pt")
            rounds = [seconds_of(options.tsq, options.recipe, folder) for _ in range(options.rounds)]
        least = {step: min(times[step] for times in rounds) for step in (*STEPS, RELOADS)}
        print(f"{layers:>8}" + "".join(f"{least[step]:>12.2f}{least[step] / layers * 1000:>12.3f}" for step in least), flush=True)


if __name__ == "__main__":
    main()
