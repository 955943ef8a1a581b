"""docs/training.md: its Python runs as it is printed, and its C++ is in the example that the tests compile and run.

  training_page.py ROOT PREPARED.pt DATA.pt
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import torch


def blocks(page: str, language: str) -> list:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def run_loop(code: str, prepared: Path, data: list) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(prepared, f"{folder}/prepared.pt")
        os.chdir(folder)
        exec(code, {"torch": torch, "loss": torch.nn.functional.cross_entropy, "batches": data[:3]})
        trained = torch.jit.load("trained.pt")
        assert not trained.training, "the trained file is in training mode"
        assert not torch.equal(trained.classify.weight, torch.jit.load("prepared.pt").classify.weight), "nothing was trained"


def load_state(code: str, prepared: Path) -> None:
    """A module around the network has trained; the network itself takes its state."""
    around = torch.nn.Module()
    around.network = torch.jit.load(prepared)
    with torch.no_grad():
        around.network.classify.weight.add_(1)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(prepared, f"{folder}/to_train.pt")
        os.chdir(folder)
        names = {"torch": torch, "around": around}
        exec(code, names)
        assert torch.equal(names["model"].classify.weight, around.network.classify.weight), "the state was not loaded"


def check_lines(code: str, example: str) -> None:
    for line in filter(None, map(str.strip, code.splitlines())):
        assert line in example, f"docs/training.md shows a line that the example does not have: {line}"


def main(root: Path, prepared: Path, data: Path) -> None:
    page = (root / "docs/training.md").read_text()
    (loop, state), (code,) = blocks(page, "python"), blocks(page, "cpp")
    check_lines(code, (root / "examples/train_quantized/train_quantized.cpp").read_text())
    run_loop(loop, prepared, torch.load(data))
    load_state(state, prepared)
    print("the page's Python runs, and its C++ is the example's")


if __name__ == "__main__":
    main(*(Path(argument).resolve() for argument in sys.argv[1:]))
