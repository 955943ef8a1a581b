"""What a conformance case is, and the registry that the model files fill.

A case names an eager model, its calibration and evaluation batches, the QConfigMapping and the engines it may run on.
Cases with `known_difference` are those where Python FX and tsq differ on purpose; the text starts with a row id of the
conformance list and says how tsq is right.
"""

import re
import zlib
from dataclasses import dataclass, field
from typing import Callable, NamedTuple, Optional, Tuple, Union

import torch
from torch import nn
from torch.ao.quantization import get_default_qconfig_mapping

from comparison import FLOOR, SATURATED_FLOOR, has_vnni

ENGINES = ("x86", "fbgemm", "qnnpack", "onednn")

Batch = Tuple[torch.Tensor, ...]
# (generator, scale, shift) -> one argument of forward
Argument = Callable[[torch.Generator, float, float], torch.Tensor]

# Calibration batches grow and move, so that running ranges and histogram merging are exercised; the second evaluation
# batch leaves the calibrated range, so that clipping is.
CALIBRATION_RANGES = ((1.0, 0.0), (0.6, 0.3), (1.7, -0.2))
EVALUATION_RANGES = ((1.0, 0.0), (2.5, 0.4))


def normal(*shape: int) -> Argument:
    return lambda generator, scale, shift: torch.randn(shape, generator=generator) * scale + shift


def uniform(*shape: int) -> Argument:
    """Values that are never negative: images, outputs of a ReLU."""
    return lambda generator, scale, shift: torch.rand(shape, generator=generator) * scale


def integers(high: int, *shape: int) -> Argument:
    return lambda generator, scale, shift: torch.randint(high, shape, generator=generator)


def booleans(*shape: int) -> Argument:
    return lambda generator, scale, shift: torch.rand(shape, generator=generator) < 0.3


def constant(value: float, *shape: int) -> Argument:
    return lambda generator, scale, shift: torch.full(shape, value)


class Excused(NamedTuple):
    """Less than what is asked of every case, and why."""

    value: float
    reason: str


def without_vnni(decibels: float, reason: str) -> Union[float, Excused]:
    """What is asked where pair sums saturate, as they do on processors without VNNI; elsewhere what is asked of every case."""
    return FLOOR if has_vnni() else Excused(decibels, reason)


# One for all engines, or by engine.
Excuse = Union[Excused, dict]

LAYERS_WITH_WEIGHTS = (nn.Linear, nn.modules.conv._ConvNd, nn.Embedding, nn.EmbeddingBag, nn.RNNBase, nn.RNNCellBase)


@dataclass(frozen=True)
class Case:
    name: str
    model: Callable[[], nn.Module]
    inputs: Tuple[Argument, ...]
    mapping: Callable = get_default_qconfig_mapping  # engine -> QConfigMapping
    engines: Tuple[str, ...] = ENGINES
    # Reason text by engine for engines that are left out; printed with the skip.
    skip: dict = field(default_factory=dict)
    pass_qconfig: bool = True  # False: `--qconfig` is left out, the command's own default must be the same mapping
    settle: int = 0  # train-mode passes over random data, for batch norm statistics of deep networks
    known_difference: str = ""
    # FX's reference model alone is wrong, or its lowered model alone: tsq's need not equal that one, but must be near
    # float; the other one is compared bit for bit. A text, or texts by engine.
    reference_difference: Union[str, dict] = ""
    lowered_difference: Union[str, dict] = ""
    # The equal model that FX handles soundly: tsq on `model` must equal FX on `fx_model`.
    fx_model: Optional[Callable[[], nn.Module]] = None
    fx_names: dict = field(default_factory=dict)  # a parameter of `fx_model` -> that of `model`, where they have other names
    # `fx_model` is one way through the model: tsq has the operators of the others too.
    fx_model_is_one_way: bool = False
    # FX on the model as written is sound too (it only quantizes less): either result passes.
    accept_plain_fx: bool = False
    # Each engine -> an object of PyTorch, which tsq reads as JSON in the keys of its to_dict: the table, the options of prepare,
    # and the QConfigMapping that convert gets (K-02).
    backend: Optional[Callable] = None
    prepare_custom: Optional[Callable] = None
    convert_mapping: Optional[Callable] = None
    equalization: Optional[Callable] = None  # a QConfigMapping of EqualizationQConfigs: prepare_fx's _equalization_config
    # Where there is no result of FX to equal, each output must be near float by so many decibels: a number above the floor that
    # is asked of every case, or one below it with the reason.
    min_sqnr: Union[float, Excuse] = FLOOR
    # A layer reads a value of a fixed range (tanh's, sigmoid's), which has all 8 bits on every engine.
    layer_reads_fixed_range: bool = False
    float_layers: Excuse = field(default_factory=dict)  # layers with weights that stay float there
    refusal: str = ""  # words of the sentence with which tsq refuses what FX fails at
    calibration_ranges: tuple = CALIBRATION_RANGES
    source: str = ""  # file that defines the case

    def __post_init__(self) -> None:
        if isinstance(self.min_sqnr, (int, float)) and self.min_sqnr < FLOOR:
            raise ValueError(f"case {self.name!r} asks for {self.min_sqnr} dB without a reason")

    def build(self) -> nn.Module:
        torch.manual_seed(self._seed())
        return self._settled(self.model())

    def build_for_fx(self) -> Optional[nn.Module]:
        """`fx_model` with the parameters of `model`; a `name_copy` there takes those of `name`, one of `fx_names` those that it says."""
        if self.fx_model is None:
            return None
        source, rewritten = self.build().state_dict(), self.fx_model()
        state = {name: source[self.fx_names.get(name, re.sub(r"_copy\d*\b", "", name))] for name in rewritten.state_dict()}
        rewritten.load_state_dict(state)
        return rewritten.eval()

    def one_sided_difference(self, side: str, engine: str) -> str:
        """What is wrong in FX's `side` ("reference" or "lowered") alone; empty when nothing is."""
        texts = self.reference_difference if side == "reference" else self.lowered_difference
        return texts.get(engine, "") if isinstance(texts, dict) else texts

    def floor(self, engine: str) -> float:
        """Decibels of each output."""
        allowed = _allowed(self.min_sqnr, engine, FLOOR)
        saturates = (engine == "onednn" or self.layer_reads_fixed_range) and not has_vnni()
        return min(allowed, SATURATED_FLOOR) if saturates else allowed

    def float_layers_on(self, engine: str) -> int:
        return int(_allowed(self.float_layers, engine, 0))

    def layers_with_weights(self) -> int:
        """Those that the float model calls."""
        called, model = set(), self.build()
        for name, module in model.named_modules():
            if isinstance(module, LAYERS_WITH_WEIGHTS):
                module.register_forward_hook(lambda *_, name=name: called.add(name))
        with torch.no_grad():
            model(*self.calibration_batches()[0])
        return len(called)

    def calibration_batches(self):
        return self._batches(1, self.calibration_ranges)

    def second_calibration_batches(self):
        """What is evaluated, so that nothing of it is cut off."""
        return self.evaluation_batches()

    def evaluation_batches(self):
        return self._batches(2, EVALUATION_RANGES)

    def _batches(self, salt: int, ranges):
        generator = torch.Generator().manual_seed(self._seed() + salt)
        return [tuple(make(generator, scale, shift) for make in self.inputs) for scale, shift in ranges]

    def _seed(self) -> int:
        return zlib.crc32(self.name.encode())

    def _settled(self, model: nn.Module) -> nn.Module:
        with torch.no_grad():
            for module in model.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    if module.affine:
                        module.weight.uniform_(0.6, 1.4)
                        module.bias.normal_(0.0, 0.2)
                    if module.track_running_stats:
                        module.running_mean.normal_(0.0, 0.2)
                        module.running_var.uniform_(0.5, 1.5)
                elif isinstance(module, (nn.LayerNorm, nn.GroupNorm)) and module.weight is not None:
                    module.weight.uniform_(0.6, 1.4)
                    module.bias.normal_(0.0, 0.2)
            if self.settle:
                model.train()
                generator = torch.Generator().manual_seed(self._seed())
                for module in model.modules():
                    if isinstance(module, nn.modules.batchnorm._BatchNorm):
                        module.momentum = 0.5
                for _ in range(self.settle):
                    model(*(make(generator, 1.0, 0.0) for make in self.inputs))
        return model.eval()


def _allowed(given, engine: str, default: float) -> float:
    given = given.get(engine, default) if isinstance(given, dict) else given
    return given.value if isinstance(given, Excused) else given


_cases: dict = {}


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def add_case(name: str, model: Callable[[], nn.Module], *inputs: Argument, **options) -> None:
    if name in _cases:
        raise ValueError(f"two cases are named {name!r}")
    source = options.pop("source", None) or getattr(model, "__code__", None) and model.__code__.co_filename
    if source is None:
        import sys

        source = sys.modules[model.__module__].__file__
    _cases[name] = Case(name=name, model=model, inputs=inputs, source=source, **options)


def case(*inputs: Argument, **options):
    """Registers an nn.Module class under its name in snake_case."""

    def register(cls):
        add_case(options.pop("name", None) or snake_case(cls.__name__), cls, *inputs, **options)
        return cls

    return register


def sequential(name: str, inputs, *layers: Callable[[], nn.Module], **options) -> None:
    """A case of an nn.Sequential; `layers` are factories."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    add_case(name, lambda: nn.Sequential(*[make() for make in layers]), *inputs, source=layers[0].__code__.co_filename, **options)


def all_cases():
    return list(_cases.values())
