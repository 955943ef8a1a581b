"""Prepared and reference files of recipe fx beside Python FX's models: keys and values of state_dict, loaded from one into the other.

    tests/conformance/state_dict.py --tsq build/release/bin/tsq

FX's reference modules put two things that are no tensors into their state_dict, weight_qscheme and weight_dtype; TorchScript has tensors alone.
"""

import argparse
import copy
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_to_reference_fx, prepare_fx
from torch.nn import functional as F

from dropped_operators import forget_dropped_operators

forget_dropped_operators()
BACKEND = "x86"


class ConvBnReLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.bn = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(self.bn(self.conv(x)))


class Images(nn.Module):
    """Fused layers, sums, functions with weights, norms, fixed ranges."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(ConvBnReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.act = nn.Hardswish()
        self.fc = nn.Linear(8, 4)
        self.norm = nn.LayerNorm(4)
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.bias = nn.Parameter(torch.randn(4))
        self.factor = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        y = self.act(y + F.relu(y)).mean([2, 3])
        y = F.linear(self.norm(self.fc(y)), self.weight, self.bias)
        return torch.sigmoid(torch.cat([y, y * self.factor], 1))


class Signals(nn.Module):
    """A layer that is called twice, operators that share observers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.second = nn.Linear(4, 4)
        self.widen = nn.Linear(4, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.first(x))
        y = y + self.second(y)
        return self.widen(y.unsqueeze(-1).repeat(1, 1, 4))


class Norms(nn.Module):
    """A batch norm that is not folded, a concatenation of values that share ranges."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.conv = nn.Conv2d(3, 4, 1)
        self.act = nn.PReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.max_pool2d(self.conv(self.norm(x)), 2)
        return torch.cat([self.act(y), y, y.flatten(2).reshape(y.shape)], 1)


MODELS = {Images: (2, 3, 8, 8), Signals: (2, 4), Norms: (2, 3, 4, 4)}


def tensors(state: dict) -> dict:
    return {key: value for key, value in state.items() if isinstance(value, torch.Tensor)}


def differences(ours: dict, theirs: dict) -> list[str]:
    found = [f"lacks {key}" for key in theirs if key not in ours] + [f"has {key}, which FX has not" for key in ours if key not in theirs]
    for key in ours.keys() & theirs.keys():
        if ours[key].shape != theirs[key].shape or not torch.equal(ours[key].double(), theirs[key].double()):
            found.append(f"has another value of {key}")
    return found


class Case:
    def __init__(self, tsq: str, folder: Path, kind: type, shape: tuple) -> None:
        torch.manual_seed(0)
        self.tsq, self.folder = tsq, folder
        self.model = kind().eval()
        self.inputs = [torch.randn(shape), 2 * torch.randn(shape)]

    def command(self, *arguments: str) -> None:
        done = subprocess.run([self.tsq, *arguments, "--quiet"], cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)

    def files(self, data: torch.Tensor) -> tuple:
        torch.jit.script(self.model).save(str(self.folder / "model.pt"))
        torch.save([data], self.folder / "data.pt")
        self.command("prepare", "model.pt", "--recipe", "fx", "--backend", BACKEND, "--output", "prepared.pt")
        self.command("calibrate", "prepared.pt", "--calib", "data.pt", "--output", "calibrated.pt")
        self.command("convert", "calibrated.pt", "--output", "reference.pt")
        return torch.jit.load(self.folder / "calibrated.pt"), torch.jit.load(self.folder / "reference.pt")

    def by_fx(self, data: torch.Tensor) -> tuple:
        prepared = prepare_fx(copy.deepcopy(self.model), get_default_qconfig_mapping(BACKEND), (data,))
        prepared(data)
        return prepared, convert_to_reference_fx(copy.deepcopy(prepared))

    def faults(self) -> list[str]:
        ours, theirs = self.files(self.inputs[0]), self.by_fx(self.inputs[0])
        found = []
        for stage, our, their in zip(("prepared", "reference"), ours, theirs):
            found += [f"{stage} model {fault}" for fault in differences(our.state_dict(), tensors(their.state_dict()))]
        return found or self.faults_of_loading(ours[1])

    def faults_of_loading(self, ours: torch.jit.ScriptModule) -> list[str]:
        """What FX has found on other data, loaded into the file's module, and back."""
        theirs = self.by_fx(self.inputs[1])[1]
        back = self.by_fx(self.inputs[0])[1]
        ours.load_state_dict(tensors(theirs.state_dict()))
        back.load_state_dict({**back.state_dict(), **ours.state_dict()})
        wanted = theirs(self.inputs[0])
        return [
            f"{what} returns something else than FX's model with the same state"
            for what, model in (("the loaded file", ours), ("FX's model", back))
            if not torch.equal(model(self.inputs[0]), wanted)
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tsq", required=True, help="the command")
    tsq = str(Path(parser.parse_args().tsq).resolve())
    warnings.filterwarnings("ignore")
    failed = 0
    for kind, shape in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            for fault in Case(tsq, Path(folder), kind, shape).faults():
                print(f"{kind.__name__}: {fault}")
                failed += 1
    print(f"{len(MODELS)} models, {failed} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
