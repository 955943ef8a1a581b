"""Standalone modules (E-01 … E-05), quantized graph outputs (E-12) and QConfigMappings given at convert (K-02)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import QConfigMapping, get_default_qconfig, get_default_qconfig_mapping
from torch.ao.quantization.fx.custom_config import PrepareCustomConfig

from case import Excused, case, normal

IMAGE = normal(2, 3, 12, 12)
ROWS = normal(4, 16)


class Inner(nn.Module):
    def __init__(self, channels: int = 8):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self.relu(self.conv(x)))


class Surrounded(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.Conv2d(3, 8, 1)
        self.inner = Inner()
        self.after = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.inner(self.before(x)))


def by_name(name: str, inputs=(), outputs=(), mapping=None):
    """Each engine -> a PrepareCustomConfig with one standalone module."""

    def make(engine: str) -> PrepareCustomConfig:
        inside = PrepareCustomConfig().set_input_quantized_indexes(list(inputs)).set_output_quantized_indexes(list(outputs))
        own = mapping(engine) if mapping else None
        return PrepareCustomConfig().set_standalone_module_name(name, own, (torch.zeros(1),), inside, None)

    return make


def by_class(cls: type, inputs=(), outputs=()):
    def make(engine: str) -> PrepareCustomConfig:
        inside = PrepareCustomConfig().set_input_quantized_indexes(list(inputs)).set_output_quantized_indexes(list(outputs))
        return PrepareCustomConfig().set_standalone_module_class(cls, None, (torch.zeros(1),), inside, None)

    return make


@case(IMAGE, prepare_custom=by_name("inner"))
class StandaloneWithFloatBoundary(Surrounded):
    pass


@case(IMAGE, prepare_custom=by_name("inner", [0], [0]))
class StandaloneWithQuantizedBoundary(Surrounded):
    pass


@case(IMAGE, prepare_custom=by_name("inner", [0]))
class StandaloneWithQuantizedInput(Surrounded):
    pass


@case(IMAGE, prepare_custom=by_name("inner", [], [0]))
class StandaloneWithQuantizedOutput(Surrounded):
    pass


@case(IMAGE, prepare_custom=by_class(Inner, [0], [0]))
class StandaloneByClass(Surrounded):
    pass


@case(IMAGE, prepare_custom=by_name("inner", mapping=lambda engine: QConfigMapping().set_object_type(nn.Conv2d, get_default_qconfig(engine))),
      float_layers=Excused(1, "a standalone module with a float output: FX observes no such value, and what reads it stays float"))
class StandaloneWithItsOwnMapping(Surrounded):
    pass


@case(IMAGE, prepare_custom=by_name("inner", mapping=lambda engine: QConfigMapping()))
class StandaloneLeftFloat(Surrounded):
    pass


@case(IMAGE, prepare_custom=by_name("inner", [0], [0]), mapping=lambda engine: get_default_qconfig_mapping(engine).set_module_name("inner", None))
class StandaloneWithoutQConfig(Surrounded):
    pass


@case(IMAGE, prepare_custom=by_name("after", [0], [0]))
class StandaloneConvolution(Surrounded):
    pass


@case(IMAGE, prepare_custom=by_class(Inner, [0], [0]))
class StandaloneBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.Conv2d(3, 8, 1)
        self.left = Inner()
        self.right = Inner()
        self.after = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x)
        return self.after(torch.cat([self.left(x), self.right(x)], 2))


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner(3)
        self.fc = nn.Linear(3 * 36, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.flatten(self.inner(x), 1))


@case(IMAGE, prepare_custom=by_name("body.inner", [0], [0]))
class StandaloneDeepInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Nested()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x))


# ---- quantized outputs


def outputs_quantized(*indexes: int):
    return lambda engine: PrepareCustomConfig().set_output_quantized_indexes(list(indexes))


@case(IMAGE, prepare_custom=outputs_quantized(0))
class QuantizedOutput(Nested):
    pass


@case(IMAGE, prepare_custom=outputs_quantized(1))
class QuantizedSecondOutput(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 1)
        self.b = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor):
        y = self.a(x)
        return y, self.b(y), y + 1.0


@case(IMAGE, prepare_custom=outputs_quantized(0))
class QuantizedDictOutput(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 1)
        self.b = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor):
        y = self.a(x)
        return {"low": y, "high": self.b(y)}


# ---- a mapping at convert


def default_with(*names: str):
    """The default mapping with null for some modules."""

    def make(engine: str) -> QConfigMapping:
        mapping = get_default_qconfig_mapping(engine)
        for name in names:
            mapping.set_module_name(name, None)
        return mapping

    return make


class Three(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 16)
        self.b = nn.Linear(16, 16)
        self.c = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self.b(self.a(x)))


@case(ROWS, convert_mapping=default_with("b"))
class FloatAtConvertInTheMiddle(Three):
    pass


@case(ROWS, convert_mapping=default_with("a", "b"))
class FloatAtConvertTwoInARow(Three):
    pass


@case(ROWS, convert_mapping=default_with("a", "b", "c"))
class FloatAtConvertEverywhere(Three):
    pass


@case(ROWS, convert_mapping=lambda engine: get_default_qconfig_mapping(engine).set_object_type(F.linear, None))
class FunctionalFloatAtConvert(Three):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.c(F.linear(self.a(x), self.b.weight, self.b.bias)))
