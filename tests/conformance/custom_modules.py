"""Custom observed and quantized modules (E-08, E-10, E-15), beside Python FX: prepared, reference and lowered models return the same bits.

    tests/conformance/custom_modules.py --tsq build/release/bin/tsq

FX gets Python classes with from_float and from_observed, tsq the same classes as TorchScript files.
"""

import argparse
import contextlib
import copy
import json
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.ao.quantization import (
    MinMaxObserver,
    QConfig,
    QConfigMapping,
    default_dynamic_qconfig,
    default_weight_observer,
    get_default_qconfig_mapping,
)
from torch.ao.quantization.fx.custom_config import ConvertCustomConfig, PrepareCustomConfig
from torch.ao.quantization.quant_type import QuantType
from torch.ao.quantization.quantize_fx import convert_fx, convert_to_reference_fx, prepare_fx

from configuration_json import mapping_to_json, type_name
from dropped_operators import forget_dropped_operators

forget_dropped_operators()
FEATURES = 6
QCONFIG = QConfig(activation=MinMaxObserver.with_args(reduce_range=True), weight=default_weight_observer)


class Scaled(nn.Module):
    """A linear layer, whose result is scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(FEATURES, FEATURES))
        self.factor = 0.7

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(nn.functional.linear(x, self.weight) * self.factor)


class ScaledSum(Scaled):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(nn.functional.linear(x, self.weight) * self.factor + y)


class Observed(nn.Module):
    """With an observer of its own, in front of the activation."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(FEATURES, FEATURES))
        self.factor = 0.0
        self.inside = MinMaxObserver()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.inside(nn.functional.linear(x, self.weight) * self.factor))

    @classmethod
    def from_float(cls, module: nn.Module) -> nn.Module:
        observed = cls()
        observed.weight, observed.factor, observed.qconfig = module.weight, module.factor, module.qconfig
        return observed


class ObservedSum(Observed):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(self.inside(nn.functional.linear(x, self.weight) * self.factor + y))


class Quantized(nn.Module):
    """Reads a quantized tensor, returns one, and rounds where the observer inside was."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(FEATURES, FEATURES))
        self.factor = 0.0
        self.inside = MinMaxObserver()
        self.inside_scale = 1.0
        self.inside_zero_point = 0
        self.weight_scale = torch.ones(1)
        self.weight_zero_point = torch.zeros(1, dtype=torch.int64)
        self.output_scale = 1.0
        self.output_zero_point = 0

    def scaled(self, x: Tensor) -> Tensor:
        weight = torch.quantize_per_tensor(self.weight, float(self.weight_scale), int(self.weight_zero_point), torch.qint8)
        return nn.functional.linear(x.dequantize(), weight.dequantize()) * self.factor

    def rounded(self, y: Tensor) -> Tensor:
        y = torch.quantize_per_tensor(y, self.inside_scale, self.inside_zero_point, torch.quint8)
        return torch.quantize_per_tensor(torch.relu(y.dequantize()), self.output_scale, self.output_zero_point, torch.quint8)

    def forward(self, x: Tensor) -> Tensor:
        return self.rounded(self.scaled(x))

    @torch.jit.export
    def from_observed(self) -> None:
        scale, zero_point = self.inside.calculate_qparams()
        self.inside_scale, self.inside_zero_point = float(scale), int(zero_point)


class QuantizedSum(Quantized):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        # FX quantizes the first argument alone, and wherever it is read.
        y = y.dequantize() if y.is_quantized else y
        return self.rounded(self.scaled(x) + y)


def for_fx(quantized: type) -> type:
    """The class with from_observed as FX calls it."""

    def from_observed(cls: type, observed: nn.Module) -> nn.Module:
        made = cls()
        made.weight, made.factor, made.inside = observed.weight, observed.factor, observed.inside
        weight_observer = observed.qconfig.weight()
        weight_observer(observed.weight)
        made.weight_scale, made.weight_zero_point = weight_observer.calculate_qparams()
        scale, zero_point = observed.activation_post_process.calculate_qparams()
        made.output_scale, made.output_zero_point = float(scale), int(zero_point)
        quantized.from_observed(made)
        return made

    return type(quantized.__name__, (quantized,), {"from_observed": classmethod(from_observed)})


CLASSES = ((Scaled, Observed, Quantized), (ScaledSum, ObservedSum, QuantizedSum))
LSTM_CLASSES = (nn.LSTM, nn.quantizable.LSTM, nn.quantized.LSTM)


class Network(nn.Module):
    """Layers with names of their own, and a forward that is written in place."""

    def __init__(self, forward: str) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES)
        self.custom, self.other, self.sum = Scaled(), Scaled(), ScaledSum()
        names: dict = {"torch": torch}
        exec(f"def forward(self, x):\n  return {forward}", names)  # noqa: S102: the tests' own expressions
        self.run = names["forward"]

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


class Recurrent(nn.Module):
    """An LSTM, whose states are given, between linear layers."""

    def __init__(self, **form) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES * (1 + form.get("bidirectional", False)), 2)
        self.lstm = nn.LSTM(FEATURES, FEATURES, **form)

    def forward(self, x: Tensor, h: Tensor, c: Tensor):
        output, states = self.lstm(self.before(x), (h, c))
        return self.after(output), states[0], states[1]


class RecurrentStates(Recurrent):
    """What comes out goes into another one."""

    def __init__(self) -> None:
        super().__init__()
        self.second = nn.LSTM(FEATURES, FEATURES)

    def forward(self, x: Tensor, h: Tensor, c: Tensor):
        output, (h, c) = self.lstm(x, (h, c))
        output, (h, _) = self.second(output, (h, c))
        return torch.relu(h), self.after(output)


def globally(qconfig: QConfig | None) -> QConfigMapping:
    return QConfigMapping().set_global(qconfig)


# Each forward with its mapping. What FX cannot do is not here: a module that is called twice, or first on an int8 input.
CASES: list[tuple[str, QConfigMapping]] = [
    ("self.after(self.custom(self.before(x)))", globally(QCONFIG)),
    ("self.custom(x)", globally(QCONFIG)),
    ("self.custom(self.other(x))", globally(QCONFIG)),
    ("(lambda y: torch.relu(self.custom(y)) + self.after(y))(self.before(x))", globally(QCONFIG)),
    ("(lambda y: self.sum(y, y))(self.before(x))", globally(QCONFIG)),
    ("self.sum(self.before(x), self.after(x))", globally(QCONFIG)),
    ("self.custom(torch.flatten(self.before(x), 1)).reshape(-1, 6)", globally(QCONFIG)),
    ("self.after(self.custom(self.before(x)))", globally(QCONFIG).set_module_name("custom", None)),
    ("self.after(self.custom(self.before(x)))", globally(QCONFIG).set_object_type(Scaled, None)),
    ("self.custom(self.before(x))", globally(None).set_module_name("custom", QCONFIG)),
    ("self.after(self.custom(self.before(x)))", globally(QCONFIG).set_module_name("custom", default_dynamic_qconfig)),
]


def states(layers: int = 1) -> list[tuple[Tensor, ...]]:
    """Samples of a sequence, and the states in front of it."""
    shapes = ((3, 3, FEATURES), (layers, 3, FEATURES), (layers, 3, FEATURES))
    return [tuple(factor * torch.randn(shape) for shape in shapes) for factor in (1.0, 0.6)]


# Models with PyTorch's own custom module, and their samples.
RECURRENT: list[tuple[Callable[[], nn.Module], int]] = [
    (Recurrent, 1),
    (lambda: Recurrent(num_layers=2, bias=False), 2),
    (lambda: Recurrent(bidirectional=True, num_layers=2), 4),
    (lambda: Recurrent(batch_first=True), 1),
    (RecurrentStates, 1),
]


class Commands:
    def __init__(self, tsq: str, folder: Path) -> None:
        self.tsq, self.folder = tsq, folder

    def __call__(self, *arguments: str) -> None:
        done = subprocess.run([self.tsq, *arguments], cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"tsq {' '.join(arguments)}: {done.stderr}")

    def write(self, name: str, content: dict) -> str:
        (self.folder / name).write_text(json.dumps(content))
        return name


def write_classes(run: Commands, folder: str) -> tuple[str, str]:
    """The modules of the classes, and the two configurations that name them."""
    (run.folder / folder).mkdir()
    custom, observed_class, quantized_class = (f"torch.{name}.LSTM" for name in ("nn", "ao.nn.quantizable", "ao.nn.quantized"))
    observed, quantized = {custom: observed_class}, {observed_class: quantized_class}
    for custom, observed_class, quantized_class in CLASSES:
        for made in (observed_class, quantized_class):
            torch.jit.script(made()).save(str(run.folder / folder / f"{made.__name__}.pt"))
        name = type_name(observed_class)
        observed[type_name(custom)] = {"file": f"{observed_class.__name__}.pt", "name": name}
        quantized[name] = {"file": f"{quantized_class.__name__}.pt"}
    return (
        run.write(f"{folder}/prepare.json", {"float_to_observed_custom_module_class": {"static": observed}}),
        run.write(f"{folder}/convert.json", {"observed_to_quantized_custom_module_class": {"static": quantized}}),
    )


Batches = list[tuple[Tensor, ...]]


def fx_configurations() -> tuple[PrepareCustomConfig, ConvertCustomConfig]:
    prepare, convert = PrepareCustomConfig(), ConvertCustomConfig()
    prepare.set_non_traceable_module_classes([custom for custom, *_ in CLASSES])
    for custom, observed, quantized in CLASSES:
        prepare.set_float_to_observed_mapping(custom, observed, QuantType.STATIC)
        convert.set_observed_to_quantized_mapping(observed, for_fx(quantized), QuantType.STATIC)
    custom, observed, quantized = LSTM_CLASSES
    prepare.set_float_to_observed_mapping(custom, observed, QuantType.STATIC)
    convert.set_observed_to_quantized_mapping(observed, quantized, QuantType.STATIC)
    return prepare, convert


def by_fx(model: nn.Module, mapping: QConfigMapping, batches: Batches) -> dict[str, Callable]:
    prepare, convert = fx_configurations()
    prepared = prepare_fx(copy.deepcopy(model), mapping, batches[0], prepare_custom_config=prepare)
    for batch in batches:
        prepared(*batch)
    return {
        "calibrated": copy.deepcopy(prepared),
        "reference": convert_to_reference_fx(copy.deepcopy(prepared), convert_custom_config=convert),
        "lowered": convert_fx(copy.deepcopy(prepared), convert_custom_config=convert),
    }


def by_tsq(run: Commands, model: nn.Module, mapping: QConfigMapping, batches: Batches, classes: str) -> dict[str, Callable]:
    torch.jit.script(model).save(str(run.folder / "model.pt"))
    torch.save(batches, run.folder / "data.pt")
    prepare, convert = write_classes(run, classes)
    qconfig = run.write("qconfig.json", mapping_to_json(mapping))
    run("prepare", "model.pt", "--qconfig", qconfig, "--recipe", "fx", "--prepare-custom-config", prepare, "--output", "prepared.pt")
    for _, observed, _ in CLASSES:
        (run.folder / classes / f"{observed.__name__}.pt").unlink()  # prepared files hold them
    run("calibrate", "prepared.pt", "--calib", "data.pt", "--output", "calibrated.pt")
    run("convert", "calibrated.pt", "--convert-custom-config", convert, "--output", "reference.pt")
    for _, _, quantized in CLASSES:
        (run.folder / classes / f"{quantized.__name__}.pt").unlink()
    run("lower", "reference.pt", "--output", "lowered.pt")
    return {stage: torch.jit.load(run.folder / f"{stage}.pt") for stage in ("calibrated", "reference", "lowered")}


class Leaves(torch.fx.Tracer):
    def is_leaf_module(self, module: nn.Module, path: str) -> bool:
        return isinstance(module, Scaled) or super().is_leaf_module(module, path)


def scriptable(model: nn.Module) -> nn.Module:
    """The text of the expression, as a module that can be scripted."""
    return torch.fx.GraphModule(model, Leaves().trace(model)).eval()


class WithoutStates(Recurrent):
    def forward(self, x: Tensor):
        return self.after(self.lstm(self.before(x))[0])


def states_of_zero(run: Commands) -> None:
    """FX raises without states; tsq begins with zeros, as the float layer does."""
    model, batches = WithoutStates().eval(), [batch[:1] for batch in states()]
    ours = by_tsq(run, model, get_default_qconfig_mapping("x86"), batches, "without_states")
    wanted, got = model(*batches[0]), ours["lowered"](*batches[0])
    if not (wanted - got).norm() < 0.1 * wanted.norm():
        raise AssertionError("an LSTM without states is far from float")


def compare(name: str, fx: dict[str, Callable], ours: dict[str, Callable], batches: Batches) -> None:
    for stage, theirs in fx.items():
        for batch in (*batches, tuple(3 * each for each in batches[0])):
            wanted, got = theirs(*batch), ours[stage](*batch)
            pairs = [(wanted, got)] if isinstance(wanted, Tensor) else zip(wanted, got, strict=True)
            if not all(torch.equal(one, other) for one, other in pairs):
                raise AssertionError(f"{name}: the {stage} models differ")


@contextlib.contextmanager
def commands(description: str) -> Iterator[Commands]:
    """The command that is named on the command line, in a folder of its own; both sides compute on one thread for x86."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tsq", required=True, type=Path, help="the built command")
    options = parser.parse_args()
    torch.backends.quantized.engine = "x86"
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        yield Commands(str(options.tsq.resolve()), Path(folder))


def main() -> None:
    with commands(__doc__) as run:
        for index, (forward, mapping) in enumerate(CASES):
            torch.manual_seed(index)
            model = Network(forward).eval()
            batches = [(torch.randn(5, FEATURES),), (2 * torch.randn(5, FEATURES) + 0.5,)]
            compare(f"'{forward}' (case {index})", by_fx(model, mapping, batches), by_tsq(run, scriptable(model), mapping, batches, f"classes{index}"), batches)
        for index, (make, layers) in enumerate(RECURRENT):
            torch.manual_seed(index)
            model, batches, mapping = make().eval(), states(layers), get_default_qconfig_mapping("x86")
            compare(f"LSTM {index}", by_fx(model, mapping, batches), by_tsq(run, model, mapping, batches, f"lstm{index}"), batches)
        states_of_zero(run)
    print(f"{len(CASES)} models with custom modules and {len(RECURRENT)} with LSTMs are equal to FX's")


if __name__ == "__main__":
    with torch.no_grad():
        main()
