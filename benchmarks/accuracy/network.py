"""What the benchmark knows about a real network: its modules, its data and what a right answer is."""
from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'scripts'))
from wheel_contents import Wheels  # noqa: E402

WHEELS = Wheels(Path.home() / '.cache' / 'tsq-benchmarks', program='accuracy')


@dataclass
class Result:
    score: float  # what the network is for, 0 to 1: accuracy, recall …
    outputs: Tensor  # [samples, values]
    decisions: Tensor  # [samples]: what a user would act on


@dataclass
class Network:
    score_name: str
    calibration: list[tuple]
    evaluate: Callable[[Callable], Result]
    latency_inputs: tuple  # one call, timed
    module: nn.Module | None = None  # for FX; None where the package ships TorchScript only
    script: torch.jit.ScriptModule | None = None  # what tsq reads; scripted from `module` when None
    recurrent: bool = field(default=False)  # dynamic quantization is measured as well

    def scripted(self) -> torch.jit.ScriptModule:
        return self.script if self.script is not None else torch.jit.script(self.module)


def in_batches(model: Callable, x: Tensor, size: int) -> Tensor:
    with torch.no_grad():
        return torch.cat([model(x[i:i + size]) for i in range(0, len(x), size)])
