"""The files of a random model: built, with statistics as after training, as a scripted and a traced file, with samples that it runs on."""

import copy
import importlib.util
import math
import sys
import warnings
from pathlib import Path
from typing import Dict, List

import torch
from torch import nn

from generate import Input, Model
from program import seeded

DTYPES = {"float": torch.float32, "half": torch.float16, "bfloat16": torch.bfloat16, "double": torch.float64}
# Of what one file returns beside another, in dB.
ALIKE = 30
# A model whose output moves by more than its input was disturbed, times this, amplifies any rounding.
DISTURBANCE_DB, AMPLIFIED_DB = 60, 20


class Unfit(Exception):
    """Not a model that anybody has: it does not run in float, is not finite, or returns nothing."""


def build(model: Model, folder: Path, seed: str) -> nn.Module:
    file = folder / "model.py"
    file.write_text(model.text)
    found = importlib.util.spec_from_file_location("random_model", file)
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # where TorchScript looks for the source of interfaces
    found.loader.exec_module(module)
    torch.manual_seed(seeded(seed).getrandbits(31))
    return module.Model()


def spread_weights(net: nn.Module) -> None:
    """PyTorch's initial weights shrink what goes through, and have channels of one size; those of trained models do neither."""
    with torch.no_grad():
        for layer in net.modules():
            weight = getattr(layer, "_parameters", {}).get("weight")
            if isinstance(layer, (nn.Linear, nn.Conv1d, nn.Conv2d)) and weight is not None:
                rows = [weight.shape[0]] + [1] * (weight.dim() - 1)
                weight.mul_(1.6 * torch.exp(0.3 * torch.randn(rows)))


def find_statistics(net: nn.Module, samples: List[tuple]) -> None:
    """What batch norms know after training."""
    net.train()
    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                layer.momentum = 0.4
                if layer.affine:
                    layer.weight.uniform_(0.5, 1.5), layer.bias.normal_(0, 0.3)
        for sample in samples:
            net(*copy.deepcopy(sample))
    net.eval()


def tensor(given: Input, model: Model, batch: int, more: int) -> torch.Tensor:
    sizes = tuple(size + more for size in given.sizes)
    lead = (batch,) if given.batch else ()
    if given.kind == "tokens":
        return torch.randint(0, 100, lead + sizes)
    shape = lead + (sizes + (given.channels,) if given.kind in ("sequence", "vector") else (given.channels,) + sizes)
    if model.distribution == "uniform":
        return torch.rand(shape) - (0.5 if torch.rand(()) < 0.5 else 0.4)
    x = torch.randn(shape) + 0.2 * (torch.rand(()) - 0.5)
    if model.distribution == "relu":
        return x.relu()
    if model.distribution == "wide":  # channels of many sizes
        rows = given.channels if given.kind in ("sequence", "vector") else [given.channels] + [1] * len(sizes)
        return x * torch.exp(torch.randn(rows, generator=torch.Generator().manual_seed(given.channels)))
    return x


def sample(model: Model, batch: int, more: int = 0, precision: str = "") -> tuple:
    dtype = DTYPES[precision or model.precision]
    tensors = [tensor(each, model, batch, more) for each in model.inputs]
    return tuple(each.to(dtype) if each.is_floating_point() else each for each in tensors)


def run(net, one: tuple):
    with torch.no_grad():
        return net(*copy.deepcopy(one))


def leaves(result) -> list:
    """Tensors and numbers of a result, in order, with where they are."""
    if isinstance(result, dict):
        return [leaf for key in result for leaf in leaves(result[key])]
    if isinstance(result, (list, tuple)):
        return [leaf for each in result for leaf in leaves(each)]
    return [result]


def structure(result):
    if isinstance(result, dict):
        return {key: structure(value) for key, value in result.items()}
    if isinstance(result, (list, tuple)):
        return [type(result).__name__] + [structure(each) for each in result]
    return (str(result.dtype), list(result.shape)) if isinstance(result, torch.Tensor) else type(result).__name__


def floats(result) -> list:
    return [leaf.detach().double().flatten() for leaf in leaves(result) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def decibels(expected: list, got: list) -> float:
    """Over all floating-point values of several results."""
    a = torch.cat([each for one in expected for each in floats(one)])
    b = torch.cat([each for one in got for each in floats(one)])
    counts = torch.isfinite(a)
    power, error = float((a[counts] ** 2).sum()), float(((a - b)[counts] ** 2).sum())
    if error == 0:
        return math.inf
    return 10 * math.log10(power / error) if power > 0 and math.isfinite(error) else -math.inf


def is_fit(results: list) -> bool:
    values = torch.cat([each for one in results for each in floats(one)])
    largest = float(values.abs().max())
    # Scores have values that are left out; all else is finite, and says something.
    return bool(torch.isfinite(values).all()) and 1e-6 < largest < 1e4 and float(values.std()) > 1e-3 * largest


def amplifies(net, samples: List[tuple]) -> bool:
    def disturbed(x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn(x.shape) * x.pow(2).mean().sqrt() * 10 ** (-DISTURBANCE_DB / 20) if x.is_floating_point() else x

    if not any(x.is_floating_point() for x in samples[0]):
        return False
    results, others = [run(net, one) for one in samples], [run(net, tuple(map(disturbed, one))) for one in samples]
    return decibels(results, others) < DISTURBANCE_DB - AMPLIFIED_DB


class Files:
    """The files of a random model, and what its float form returns."""

    def __init__(self, model: Model, folder: Path, seed: str) -> None:
        self.model, self.folder = model, folder
        self.forms: Dict[str, Path] = {}
        self.calibration, self.tests, self.results = [], [], []
        warnings.simplefilter("ignore")
        try:
            self._make(seed)
        except Unfit:
            raise
        except Exception as error:
            text = [line for line in str(error).splitlines() if line.strip()] or [""]
            raise Unfit(f"{type(error).__name__}: {' | '.join(text[:1] + text[-3:])}"[:500])

    def _make(self, seed: str) -> None:
        model = self.model
        net = build(model, self.folder, seed)
        spread_weights(net)
        plain = [sample(model, 8, precision="float") for _ in range(4)]
        find_statistics(net, plain)
        self.amplifies = amplifies(net, plain)
        net = net.to(DTYPES[model.precision]).eval()
        # The documentation asks for a hundred inputs like those of real use: as many are in the batches, or there are more samples.
        more = [0, 0, 0, 0, 0, 0, 4, 8] if model.free_sizes else [0] * 8
        batched = any(each.batch for each in model.inputs)
        shapes = list(zip((8, 5, 16, 12, 3, 15, 12, 12), more)) if batched else [(1, each) for each in 4 * more]
        self.calibration = self._runnable(net, [sample(model, *each) for each in shapes], at_least=6)
        self.tests = self._runnable(net, [sample(model, *each) for each in zip((8, 3, 5, 1, 4, 6), more[2:])], at_least=2)
        self.results = [run(net, one) for one in self.tests]
        if not is_fit(self.results):
            raise Unfit("its values are not finite, enormous, or all alike")
        if model.scripts:
            self._save("scripted", torch.jit.script(net))
        # PyTorch's tracer ends the process where a forked module has an attribute of an interface.
        if "torch.jit.fork" in model.text and "@torch.jit.interface" in model.text:
            if not model.scripts:
                raise Unfit("neither PyTorch's compiler nor its tracer takes it")
            return
        try:
            with torch.no_grad():
                self._save("traced", torch.jit.trace(net, copy.deepcopy(self.tests[0]), check_trace=False, strict=False))
        except Exception:
            if not model.scripts:
                raise

    @staticmethod
    def _runnable(net, samples: List[tuple], at_least: int) -> List[tuple]:
        """Samples of other sizes that the model takes; those of its own size it must take."""
        found = samples[:at_least]
        for one in found:
            run(net, one)
        for one in samples[at_least:]:
            try:
                run(net, one)
            except Exception:
                continue
            found.append(one)
        return found

    def _save(self, form: str, module: torch.jit.ScriptModule) -> None:
        """With the samples that this form takes: a trace may have the sizes of its example."""
        file = self.folder / f"{form}.pt"
        module.save(str(file))
        torch.save(self._runnable(torch.jit.load(str(file)), self.calibration, at_least=1), self.folder / f"{form}.calibration.pt")
        self.forms[form] = file

    def results_of(self, form: str) -> Dict[int, object]:
        """What the file of a form returns, by sample. A trace has the sizes of its example, its way through branches, and numbers that are tensors
        or constants there: it is a model of its own."""
        module = torch.jit.load(str(self.forms[form]))
        found = {}
        for index, one in enumerate(self.tests):
            try:
                found[index] = run(module, one)
            except Exception:  # modules of PyTorch refuse shapes in TorchScript of which they only warn in Python
                continue
        if not found:
            raise Unfit(f"the {form} file takes none of the samples")
        with torch.jit.optimized_execution(False):
            as_written = torch.jit.load(str(self.forms[form]))
            if any(decibels([run(as_written, self.tests[index])], [result]) < ALIKE for index, result in found.items()):
                raise Unfit(f"LibTorch's optimizer changes what the {form} file computes")
        return found

    def is_as_written(self, index: int, result) -> bool:
        """Whether a file returns what the module returns that it was made of."""
        enough = ALIKE if self.model.precision in ("half", "bfloat16") else 80
        return structure(result) == structure(self.results[index]) and decibels([self.results[index]], [result]) > enough
