"""Mappings and custom configurations as PyTorch's own suite has them."""

import operator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import (
    HistogramObserver,
    QConfig,
    QConfigMapping,
    default_dynamic_qconfig,
    default_per_channel_weight_observer,
    default_qconfig,
    default_reuse_input_qconfig,
    default_weight_observer,
    float16_dynamic_qconfig,
    get_default_qconfig,
    get_default_qconfig_mapping,
)
from torch.ao.quantization.fx.custom_config import PrepareCustomConfig
from torch.ao.quantization.qconfig_mapping import _get_symmetric_qnnpack_qconfig_mapping

from case import Excused, add_case, case, normal

IMAGE = normal(2, 4, 8, 8)
ROWS = normal(4, 8)


def named(names: dict, default=default_qconfig):
    """QConfigs by module name above a global one."""

    def mapping(engine):
        result = QConfigMapping().set_global(default)
        for name, qconfig in names.items():
            result.set_module_name(name, qconfig)
        return result

    return mapping


# ---- the mapping


class TransposingBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(2, 3)
        x = self.conv(x)
        return x.transpose(2, 3)


class AroundABlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.sub = TransposingBlock()
        self.conv1 = nn.Conv2d(4, 4, 1)
        self.conv2 = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        x = self.sub(x)
        x = self.conv2(x)
        return x.transpose(2, 3)


add_case("methods_in_a_float_block", AroundABlock, IMAGE, mapping=named({"sub": None}), source=__file__)
add_case("methods_in_the_only_quantized_block", AroundABlock, IMAGE, mapping=named({"sub": default_qconfig}, None), source=__file__)
add_case("methods_after_a_float_layer", AroundABlock, IMAGE, mapping=named({"conv1": None}), source=__file__)


class FunctionalLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.randn(8, 8) * 0.3
        self.b = torch.zeros(8)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.w, self.b)


class ThreeFunctionalLinears(nn.Module):
    def __init__(self):
        super().__init__()
        self.mods1 = nn.Sequential(FunctionalLinear(), FunctionalLinear())
        self.mods2 = FunctionalLinear()
        self.mods3 = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.mods1(x)
        x = torch.add(x, 4)
        x = self.mods2(x)
        y = torch.add(x, 2)
        z = torch.mul(x, 5)
        return self.mods3(y) + z


def three(name: str, mapping, **options) -> None:
    add_case(f"three_functional_linears_{name}", ThreeFunctionalLinears, ROWS, mapping=mapping, source=__file__, **options)


BY_TYPE = (F.linear, torch.add, nn.Linear)


def by_type(engine, **changes):
    result = QConfigMapping()
    for kind in BY_TYPE:
        result.set_object_type(kind, get_default_qconfig(engine))
    return result


three("quantized", named({}))
three("one_left_float", named({"mods2": None}))
three("first_left_float", named({"mods1.0": None}))
three("by_type", by_type)
three("by_type_functional_only", lambda engine: QConfigMapping().set_object_type(F.linear, default_qconfig))
three("left_float_at_convert_by_name", by_type, convert_mapping=lambda engine: by_type(engine).set_module_name("mods1.0", None))
three("left_float_at_convert_by_type", by_type, convert_mapping=lambda engine: by_type(engine).set_object_type(nn.Linear, None))


class Leaf(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 8)
        self.fc2 = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc2(self.fc1(x))
        x = torch.add(x, x)
        return torch.add(x, x)


class Middle(Leaf):
    def __init__(self):
        super().__init__()
        self.m1 = Leaf()

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc2(self.fc1(x))
        x = torch.add(x, x)
        x = torch.add(x, x)
        return self.m1(x)


class Outer(Leaf):
    def __init__(self):
        super().__init__()
        self.m2 = Middle()

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc2(self.fc1(x))
        x = torch.add(x, x)
        x = torch.add(x, x)
        return self.m2(x)


def in_order(*entries, default=None):
    def mapping(engine):
        result = QConfigMapping().set_global(default)
        for name, kind, index, qconfig in entries:
            result.set_module_name_object_type_order(name, kind, index, qconfig)
        return result

    return mapping


add_case(
    "order_at_three_depths",
    Outer,
    ROWS,
    mapping=in_order(
        ("", nn.Linear, 0, default_qconfig),
        ("", torch.add, 0, default_qconfig),
        ("m2", nn.Linear, 1, default_qconfig),
        ("m2", torch.add, 1, default_qconfig),
        ("m2.m1", nn.Linear, 0, default_qconfig),
        ("m2.m1", torch.add, 0, default_qconfig),
    ),
    source=__file__,
)
add_case(
    "order_none_over_global",
    Leaf,
    ROWS,
    mapping=in_order(("", nn.Linear, 1, None), ("", torch.add, 1, None), default=default_qconfig),
    source=__file__,
)


class FourLevels(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.conv = nn.Conv2d(4, 4, 1)
        self.module_conv1 = nn.Conv2d(4, 4, 1)
        self.module_conv2 = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.module_conv2(self.module_conv1(self.conv(self.linear(x))))


add_case(
    "four_levels_of_other_modes",
    FourLevels,
    IMAGE,
    mapping=lambda engine: QConfigMapping()
    .set_global(default_qconfig)
    .set_object_type(nn.Conv2d, default_dynamic_qconfig)
    .set_module_name_regex("module_conv*", float16_dynamic_qconfig)
    .set_module_name("module_conv2", get_default_qconfig(engine)),
    source=__file__,
)
add_case("regex_with_a_star", FourLevels, IMAGE, mapping=lambda engine: QConfigMapping().set_module_name_regex("conv*", default_qconfig), source=__file__)
add_case("types_of_one_fusion_only", lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh()), ROWS, mapping=lambda engine: QConfigMapping().set_object_type(nn.Linear, get_default_qconfig(engine)).set_object_type(nn.ReLU, get_default_qconfig(engine)).set_object_type(F.relu, get_default_qconfig(engine)), source=__file__)


@case(normal(2, 4, 4, 4), normal(2, 4, 4, 4), mapping=lambda engine: QConfigMapping().set_object_type(operator.add, default_qconfig))
class OnlyAdditions(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.conv(x + y) + torch.add(x, y)


@case(IMAGE, mapping=lambda engine: QConfigMapping().set_global(default_reuse_input_qconfig))
class ReuseOfAFloatInput(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x).reshape(2, -1)


SIGNED = QConfig(
    activation=HistogramObserver.with_args(qscheme=torch.per_tensor_symmetric, dtype=torch.qint8),
    weight=default_per_channel_weight_observer,
)
SYMMETRIC_UNSIGNED = QConfig(
    activation=HistogramObserver.with_args(qscheme=torch.per_tensor_symmetric, dtype=torch.quint8), weight=default_weight_observer
)


class ConvFlattenLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 2, 2, 2)
        self.linear = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(torch.flatten(self.conv(x), 1))


add_case("signed_activations_in_the_default_table", ConvFlattenLinear, IMAGE, mapping=lambda engine: QConfigMapping().set_global(SIGNED), source=__file__)
add_case("symmetric_unsigned_beside_fixed_ranges", lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.Sigmoid(), nn.Tanh()), IMAGE, mapping=lambda engine: get_default_qconfig_mapping(engine).set_global(SYMMETRIC_UNSIGNED), source=__file__)
add_case("symmetric_qnnpack_mapping", ConvFlattenLinear, IMAGE, mapping=lambda engine: _get_symmetric_qnnpack_qconfig_mapping(), source=__file__,
         float_layers={"qnnpack": Excused(2, "qnnpack's kernels take inputs of quint8 alone; XNNPACK's take qint8, which this LibTorch is built without")})
add_case("fixed_ranges_under_one_global_qconfig", lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.Sigmoid(), nn.Hardsigmoid(), nn.Tanh()), IMAGE, mapping=named({}), source=__file__)


# ---- options of prepare


class TwoConvs(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 1)
        self.conv2 = nn.Conv2d(4, 4, 1)
        self.preserved = 3
        self.words = "some text"

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(self.conv1(x))


def quantized(inputs, outputs):
    return lambda engine: PrepareCustomConfig().set_input_quantized_indexes(inputs).set_output_quantized_indexes(outputs)


for inputs, outputs in (([0], [0]), ([], [0]), ([0], [])):
    name = f"{'quantized' if inputs else 'float'}_input_{'quantized' if outputs else 'float'}_output"
    add_case(name, TwoConvs, IMAGE, prepare_custom=quantized(inputs, outputs), source=__file__)
add_case("quantized_input_of_a_pool", lambda: nn.Sequential(nn.AvgPool2d(3)), IMAGE, prepare_custom=quantized([0], []), source=__file__)
add_case("quantized_input_and_output_of_a_pool", lambda: nn.Sequential(nn.MaxPool2d(3)), IMAGE, prepare_custom=quantized([0], [0]), source=__file__)
add_case("quantized_output_of_identity", lambda: nn.Sequential(nn.Identity()), IMAGE, prepare_custom=quantized([], [0]), source=__file__)
add_case("quantized_input_of_float_layers", lambda: nn.Sequential(nn.GELU(), nn.Conv2d(4, 4, 1)), IMAGE, prepare_custom=quantized([0], []), source=__file__)
add_case(
    "preserved_attributes",
    TwoConvs,
    IMAGE,
    prepare_custom=lambda engine: PrepareCustomConfig().set_preserved_attributes(["preserved", "words"]),
    source=__file__,
)


@case(IMAGE, normal(2, 4, 8, 8), prepare_custom=quantized([1], []))
class SecondInputQuantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.conv(x) + y


@case(ROWS, prepare_custom=quantized([0], []))
class QuantizedInputOfScalarAdd(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_func = torch.ao.nn.quantized.FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        return self.add_func.add_scalar(x, 0.5)


class DataDependent(nn.Module):
    """Not traceable: the loop's length is a tensor's."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        for row in x:
            if bool(row.sum() > 1e6):
                x = x * 0.5
        return self.fc(x)


class WithDataDependentParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.m1 = DataDependent()
        self.second = nn.Linear(8, 8)
        self.m2 = DataDependent()

    def forward(self, x: Tensor) -> Tensor:
        return self.m2(self.second(self.m1(self.first(x))))


add_case("non_traceable_by_name", WithDataDependentParts, ROWS, prepare_custom=lambda engine: PrepareCustomConfig().set_non_traceable_module_names(["m1", "m2"]), source=__file__)
add_case("non_traceable_by_class", WithDataDependentParts, ROWS, prepare_custom=lambda engine: PrepareCustomConfig().set_non_traceable_module_classes([DataDependent]), source=__file__)
add_case("non_traceable_by_name_and_class", WithDataDependentParts, ROWS, prepare_custom=lambda engine: PrepareCustomConfig().set_non_traceable_module_names(["m1"]).set_non_traceable_module_classes([DataDependent]), source=__file__)
add_case("non_traceable_linear", Leaf, ROWS, prepare_custom=lambda engine: PrepareCustomConfig().set_non_traceable_module_names(["fc1"]), source=__file__)
