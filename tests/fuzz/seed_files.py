"""Small files of every kind that a command reads, made by PyTorch and by tsq itself."""

import json
import os
import subprocess
from pathlib import Path
from typing import Dict, List

import numpy
import torch
from torch import nn


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, groups=8)
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = nn.functional.max_pool2d(x + 0.5 * x, 2)
        x = torch.relu(self.second(x))
        return torch.softmax(self.last(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1)), 1)


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(4, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        found, _ = self.cells(x)
        total = self.last(found[0])
        for i in range(x.size(0)):
            if bool(x.sum() > 1000.0):
                total = total - 1
            total = total + found[i].sum()
        return {"last": total, "all": found}


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(10, 32, mode="sum", include_last_offset=True)
        self.last = nn.Linear(32, 32)

    def forward(self, words, offsets):
        return self.last(self.table(words, offsets))


def scripted(model: nn.Module, path: Path) -> None:
    torch.jit.save(torch.jit.script(model.eval()), str(path))


def write_models(folder: Path) -> None:
    torch.manual_seed(0)
    pictures = Pictures().eval()
    scripted(pictures, folder / "pictures.pt")
    traced = torch.jit.trace(pictures, torch.randn(1, 3, 8, 8))
    torch.jit.save(traced, str(folder / "traced.pt"))
    torch.jit.save(torch.jit.freeze(torch.jit.script(pictures)), str(folder / "frozen.pt"))
    scripted(Steps(), folder / "steps.pt")
    scripted(Words(), folder / "words.pt")


def write_data(folder: Path) -> None:
    torch.manual_seed(1)
    torch.save([torch.randn(1, 3, 8, 8) for _ in range(3)], folder / "pictures_data.pt")
    torch.save([(torch.randn(1, 3, 8, 8),), {"x": torch.randn(1, 3, 8, 8)}], folder / "named_data.pt")
    torch.save(torch.quantize_per_tensor(torch.randn(1, 3, 8, 8), 0.1, 3, torch.quint8), folder / "quantized_data.pt")
    torch.save([torch.randn(8, 8, 3, 1).permute(3, 2, 0, 1), torch.randn(1, 3, 8, 1).expand(1, 3, 8, 8)], folder / "strided_data.pt")
    torch.save([torch.randn(1, 3, 8, 8).double(), 7, "a", None, {"x": [True]}], folder / "mixed_data.pt")
    torch.save([torch.randn(3, 1, 4) for _ in range(2)], folder / "steps_data.pt")
    torch.save([(torch.tensor([1, 2, 3]), torch.tensor([0, 2, 3]))], folder / "words_data.pt")
    numpy.save(folder / "pictures.npy", numpy.random.default_rng(0).normal(size=(3, 3, 8, 8)).astype("float32"))
    numpy.savez(folder / "stored.npz", x=numpy.load(folder / "pictures.npy"))
    numpy.savez_compressed(folder / "packed.npz", x=numpy.load(folder / "pictures.npy"))


class Maker:
    """Runs tsq, whose files the others are."""

    def __init__(self, tsq: str, folder: Path):
        self.tsq, self.folder = tsq, folder

    def run(self, *arguments: str) -> str:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        made = subprocess.run([self.tsq, *arguments, "--quiet"], cwd=self.folder, capture_output=True, text=True, env=environment)
        if made.returncode != 0:
            raise SystemExit(f"{' '.join(made.args)}: {made.stderr}")
        return made.stdout

    def shown(self, *arguments: str) -> str:
        return subprocess.run([self.tsq, *arguments], capture_output=True, text=True, check=True).stdout


def write_steps(maker: Maker) -> None:
    """The files after each step, for each engine and for fused programs, and those of one run."""
    for backend in ["x86", "fbgemm", "qnnpack", "onednn"]:
        maker.run("quantize", "pictures.pt", "--calib", "pictures_data.pt", "--backend", backend, "--recipe", "fx", "--no-check", "--force",
                  "--output", f"int8_{backend}.pt")
    maker.run("prepare", "pictures.pt", "--recipe", "fx", "--output", "prepared.pt")
    maker.run("prepare", "pictures.pt", "--output", "prepared_best.pt")
    for name in ["", "_best"]:
        maker.run("calibrate", f"prepared{name}.pt", "--calib", "pictures_data.pt", "--output", f"calibrated{name}.pt")
        maker.run("convert", f"calibrated{name}.pt", "--output", f"reference{name}.pt")
    maker.run("prepare", "--qat", "pictures.pt", "--recipe", "fx", "--output", "training.pt")
    maker.run("quantize", "pictures.pt", "--calib", "pictures_data.pt", "--target", "fused", "--no-check", "--force", "--output", "fused.pt")
    maker.run("quantize", "steps.pt", "--mode", "dynamic", "--no-check", "--force", "--output", "dynamic.pt")
    maker.run("quantize", "steps.pt", "--calib", "steps_data.pt", "--target", "fused", "--no-check", "--force", "--output", "fused_steps.pt")
    maker.run("quantize", "words.pt", "--mode", "weight_only", "--bits", "4", "--no-check", "--force", "--output", "weight_only.pt")


def shortened(table: str) -> str:
    """A table with few of its rows: what stands in many of them need not be read again."""
    value = json.loads(table)
    value["configs"] = value["configs"][::12]
    return json.dumps(value)


def write_json(maker: Maker) -> None:
    folder = maker.folder
    (folder / "table.json").write_text(shortened(maker.shown("backend-config", "show", "x86")))
    (folder / "mapping.json").write_text(maker.shown("qconfig", "show", "x86"))
    (folder / "best_mapping.json").write_text(maker.shown("qconfig", "show", "best_x86"))
    (folder / "equalization.json").write_text(json.dumps(EQUALIZATION))
    (folder / "prepare_custom.json").write_text(json.dumps(PREPARE_CUSTOM))
    (folder / "convert_custom.json").write_text(json.dumps(CONVERT_CUSTOM))
    maker.run("bench", str(folder / "pictures.pt"), "--data", "pictures_data.pt", "--rounds", "2", "--launches", "1", "--warmup", "1", "--threads", "1",
              "--output", "bench.json")


BOTH_SIDES = {"input_activation": {"observer": "_InputEqualizationObserver", "dtype": "quint8", "qscheme": "per_tensor_symmetric"},
              "weight": {"observer": "_WeightEqualizationObserver", "dtype": "qint8", "qscheme": "per_channel_symmetric"}}
EQUALIZATION = {"": "default_equalization_qconfig", "module_name": [["last", None]], "object_type": [["torch.nn.Conv2d", BOTH_SIDES]]}
SOURCE = """class Own(Module):
  __parameters__ = ["weight", "bias", ]
  weight : Tensor
  bias : Tensor
  def forward(self, x: Tensor) -> Tensor:
    return torch.linear(x, self.weight, self.bias)
  def %s(self) -> NoneType:
    return None
"""
PREPARE_CUSTOM = {"non_traceable_module_name": ["norm"], "non_traceable_module_class": ["__torch__.seed_files.Missing"],
                  "standalone_module_name": [["second", None, None, {"input_quantized_idxs": [0]}, None]],
                  "standalone_module_class": [["my.Block", {"": None}, None, None, None]],
                  "float_to_observed_custom_module_class": {"static": {"torch.nn.Linear": {"source": SOURCE % "from_float"}}},
                  "preserved_attributes": ["training"], "input_quantized_idxs": [0], "output_quantized_idxs": [0]}
CONVERT_CUSTOM = {"preserved_attributes": ["training"],
                  "observed_to_quantized_custom_module_class": {"static": {"torch.nn.Linear": {"source": SOURCE % "from_observed"}}}}


def kinds(folder: Path) -> Dict[str, List[Path]]:
    """The files of each kind."""
    names = {"float": ["pictures.pt", "traced.pt", "frozen.pt", "steps.pt", "words.pt"],
             "prepared": ["prepared.pt", "prepared_best.pt", "training.pt"],
             "calibrated": ["calibrated.pt", "calibrated_best.pt"],
             "reference": ["reference.pt", "reference_best.pt"],
             "int8": [f"int8_{backend}.pt" for backend in ["x86", "fbgemm", "qnnpack", "onednn"]] + ["dynamic.pt", "weight_only.pt"],
             "fused": ["fused.pt", "fused_steps.pt"],
             "pt_data": ["pictures_data.pt", "named_data.pt", "quantized_data.pt", "strided_data.pt", "mixed_data.pt"],
             "npy": ["pictures.npy"], "npz": ["stored.npz", "packed.npz"], "table": ["table.json"], "mapping": ["mapping.json", "best_mapping.json"],
             "equalization": ["equalization.json"], "prepare_custom": ["prepare_custom.json"], "convert_custom": ["convert_custom.json"],
             "bench": ["bench.json"]}
    return {kind: [folder / name for name in files] for kind, files in names.items()}


def write_all(tsq: str, folder: Path) -> Dict[str, List[Path]]:
    """Written anew when tsq is another one."""
    stamp = folder / "made_by"
    made_by = f"{tsq} {os.stat(tsq).st_mtime_ns}"
    if not stamp.exists() or stamp.read_text() != made_by:
        folder.mkdir(parents=True, exist_ok=True)
        write_models(folder)
        write_data(folder)
        maker = Maker(tsq, folder)
        write_steps(maker)
        write_json(maker)
        stamp.write_text(made_by)
    return kinds(folder)
