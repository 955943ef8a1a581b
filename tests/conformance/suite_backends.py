"""Tables of the user's own, and the shipped tables on engines that are not theirs."""

import operator

import torch
import torch.ao.nn.intrinsic as nni
import torch.ao.nn.quantized.reference as nnqr
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import (
    MinMaxObserver,
    QConfig,
    QConfigMapping,
    default_dynamic_qconfig,
    default_per_channel_weight_observer,
    float16_static_qconfig,
    float_qparams_weight_only_qconfig,
    get_default_qconfig,
    get_default_qconfig_mapping,
)
from torch.ao.quantization.backend_config import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    DTypeWithConstraints,
    ObservationType,
    get_executorch_backend_config,
    get_native_backend_config,
    get_onednn_backend_config,
    get_qnnpack_backend_config,
    get_tensorrt_backend_config,
)
from torch.ao.quantization.backend_config.native import get_test_only_legacy_native_backend_config
from torch.ao.quantization.fuser_method_mappings import _sequential_wrapper2, fuse_conv_bn, fuse_conv_bn_relu, fuse_linear_bn
from torch.ao.quantization.utils import MatchAllNode

from case import Excused, add_case, integers, normal

IMAGE = normal(2, 4, 8, 8)
ROWS = normal(4, 8)
DIFFERENT = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
UNOBSERVED = ObservationType.INPUT_OUTPUT_NOT_OBSERVED

INT8 = DTypeConfig(input_dtype=torch.quint8, output_dtype=torch.quint8, weight_dtype=torch.qint8, bias_dtype=torch.float)
ACTIVATION = DTypeConfig(input_dtype=torch.quint8, output_dtype=torch.quint8)


def row(pattern, kind=DIFFERENT, dtypes=(INT8,)) -> BackendPatternConfig:
    return BackendPatternConfig(pattern).set_observation_type(kind).set_dtype_configs(list(dtypes))


def complex_row(pattern, kind=DIFFERENT, dtypes=(INT8,)) -> BackendPatternConfig:
    return BackendPatternConfig()._set_pattern_complex_format(pattern).set_observation_type(kind).set_dtype_configs(list(dtypes))


def weighted(module, reference, dtypes=(INT8,)) -> BackendPatternConfig:
    return row(module, dtypes=dtypes).set_root_module(module).set_reference_quantized_module(reference)


def conv_row(dtypes=(INT8,)) -> BackendPatternConfig:
    return weighted(nn.Conv2d, nnqr.Conv2d, dtypes)


def linear_row(dtypes=(INT8,)) -> BackendPatternConfig:
    return weighted(nn.Linear, nnqr.Linear, dtypes)


def table(*rows: BackendPatternConfig):
    return lambda engine: BackendConfig("own").set_backend_pattern_configs(list(rows))


class Mixed(nn.Module):
    """Something of everything that the rows here speak of."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.second = nn.Conv2d(4, 4, 1)
        self.gelu = nn.GELU()
        self.fc = nn.Linear(64, 8)
        self.weight = nn.Parameter(torch.randn(5, 8) * 0.3)
        self.bias = nn.Parameter(torch.randn(5) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn(self.conv(x)))
        x = self.pool(torch.add(y, x)) + 1.0
        x = self.gelu(self.second(x))
        x = F.relu(self.fc(torch.flatten(x, 1)))
        return F.linear(x, self.weight, self.bias)


def mixed(name: str, *rows: BackendPatternConfig, **options) -> None:
    add_case(f"table_{name}", Mixed, IMAGE, backend=table(*rows), source=__file__, **options)


CONV_BN_RELU = (
    row((nn.Conv2d, nn.BatchNorm2d, nn.ReLU)).set_fuser_method(fuse_conv_bn_relu).set_fused_module(nni.ConvReLU2d),
    weighted(nni.ConvReLU2d, nnqr.Conv2d).set_root_module(nn.Conv2d),
)
ADD = {0: DIFFERENT, 1: SHARED, 2: DIFFERENT}

mixed("without_rows")
mixed("of_convolutions", conv_row())
mixed("of_linear_layers", linear_row())
mixed("of_linear_layers_and_relu", linear_row(), row((nn.Linear, F.relu)).set_fuser_method(_sequential_wrapper2(nni.LinearReLU)).set_fused_module(nni.LinearReLU), row(nni.LinearReLU),
      float_layers=Excused(2, "the table has no row of convolutions"))
mixed("conv_bn_without_relu", conv_row(), row((nn.Conv2d, nn.BatchNorm2d)).set_fuser_method(fuse_conv_bn))
mixed("conv_bn_relu", conv_row(), *CONV_BN_RELU)
mixed("conv_bn_relu_before_conv_bn", conv_row(), *CONV_BN_RELU, row((nn.Conv2d, nn.BatchNorm2d)).set_fuser_method(fuse_conv_bn))
mixed("bn_relu_as_a_pair", conv_row(), row((nn.BatchNorm2d, nn.ReLU), dtypes=[ACTIVATION]))
mixed("relu_alone", conv_row(), row(nn.ReLU, SHARED, [ACTIVATION]), row(F.relu, SHARED, [ACTIVATION]))
mixed("pool_with_its_own_range", conv_row(), row(nn.MaxPool2d, DIFFERENT, [ACTIVATION]))
mixed("pool_shares", conv_row(), row(nn.MaxPool2d, SHARED, [ACTIVATION]), row(torch.add, dtypes=[ACTIVATION]))
mixed("pool_unobserved", conv_row(), row(nn.MaxPool2d, UNOBSERVED, [ACTIVATION]))
mixed("gelu", conv_row(), row(nn.GELU, DIFFERENT, [ACTIVATION]))
mixed("gelu_shares", conv_row(), linear_row(), row(nn.GELU, SHARED, [ACTIVATION]), row(torch.flatten, SHARED, [ACTIVATION]))
mixed("add_by_number_of_tensors", conv_row(), row(torch.add, dtypes=[ACTIVATION])._set_num_tensor_args_to_observation_type(ADD), row(operator.add, dtypes=[ACTIVATION])._set_num_tensor_args_to_observation_type(ADD))
mixed("add_of_a_number_with_its_own_range", conv_row(), row(operator.add, dtypes=[ACTIVATION])._set_num_tensor_args_to_observation_type({1: DIFFERENT, 2: DIFFERENT}))
mixed("functional_linear", row(F.linear)._set_input_type_to_index({"weight": 1, "bias": 2}))
mixed("functional_linear_and_relu", linear_row(), row(F.linear)._set_input_type_to_index({"weight": 1, "bias": 2}), row((F.linear, F.relu)))
mixed("linear_bn", linear_row(), row((nn.Linear, nn.BatchNorm1d)).set_fuser_method(fuse_linear_bn))
mixed("any_dtype", conv_row([DTypeConfig()]), row(nn.MaxPool2d, SHARED, [DTypeConfig()]))
mixed("output_dtype_left_out", conv_row([DTypeConfig(input_dtype=torch.quint8, weight_dtype=torch.qint8)]), linear_row())
mixed("two_dtype_configs", conv_row([DTypeConfig(input_dtype=torch.float16, output_dtype=torch.float16), INT8]), linear_row())
mixed("float16_only", conv_row([DTypeConfig(input_dtype=torch.float16, output_dtype=torch.float16, weight_dtype=torch.float16)]), linear_row())
mixed("pairs_of_operators_with_more_arguments", conv_row(), linear_row(), row((nn.MaxPool2d, operator.add)), row((nn.GELU, torch.flatten)), row((nn.ReLU, torch.add)))
mixed("float_row_under_a_dynamic_qconfig", conv_row([DTypeConfig(input_dtype=torch.float, output_dtype=torch.float, weight_dtype=torch.qint8)]), mapping=lambda engine: QConfigMapping().set_global(default_dynamic_qconfig))
mixed("row_set_twice", conv_row([DTypeConfig(input_dtype=torch.float16)]), linear_row(), conv_row())

# ---- root and reference modules come from the table, and from all of it

LINEAR_RELU = row((nn.Linear, F.relu)).set_fuser_method(_sequential_wrapper2(nni.LinearReLU)).set_fused_module(nni.LinearReLU)
PAIR_AFTER_RELU = weighted(nni.LinearReLU, nnqr.Linear).set_root_module(nn.Linear)

mixed("convolutions_without_a_reference_module", row(nn.Conv2d), linear_row())
mixed("linear_layers_without_a_reference_module", conv_row(), row(nn.Linear).set_root_module(nn.Linear))
mixed("pair_in_another_row", conv_row(), row(nn.Linear), LINEAR_RELU, PAIR_AFTER_RELU)
mixed("halves_of_a_pair_in_two_rows", conv_row(), row(nn.Linear).set_root_module(nn.Linear), row(nn.GELU, DIFFERENT, [ACTIVATION]).set_reference_quantized_module(nnqr.Linear))
mixed("fused_class_of_no_fusion", conv_row(), row((nn.Conv2d, nn.BatchNorm2d, nn.ReLU)).set_fuser_method(fuse_conv_bn_relu), row(nni.ConvReLU2d))
mixed("fused_class_without_its_root", linear_row(), *CONV_BN_RELU[:1], row(nni.ConvReLU2d))


class Looked(nn.Module):
    """Layers that PyTorch's tables swap too: a table of embeddings, a transposed convolution."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(10, 8)
        self.up = nn.ConvTranspose1d(4, 4, 2)
        self.fc = nn.Linear(9, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(self.up(self.rows(ids)))


BYTES = DTypeConfig(input_dtype=torch.float, output_dtype=torch.float, weight_dtype=torch.quint8)


def looked(name: str, *rows: BackendPatternConfig, **options) -> None:
    add_case(
        f"table_{name}",
        Looked,
        integers(10, 3, 4),
        backend=table(linear_row(), *rows),
        mapping=lambda engine: get_default_qconfig_mapping(engine).set_object_type(nn.Embedding, float_qparams_weight_only_qconfig),
        source=__file__,
        **options,
    )


looked("embeddings_with_a_reference_module", weighted(nn.Embedding, nnqr.Embedding, [BYTES]).set_observation_type(UNOBSERVED), weighted(nn.ConvTranspose1d, nnqr.ConvTranspose1d))
looked("embeddings_without_a_reference_module", row(nn.Embedding, UNOBSERVED, [BYTES]), row(nn.ConvTranspose1d),
       float_layers=Excused(2, "the table has no reference module for them"))


class Ratio(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.last = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.last(y / (torch.abs(x) + 1.0))


for name, division in (("operator_truediv", operator.truediv), ("torch_div", torch.div)):
    add_case(f"table_{name}", Ratio, IMAGE, backend=table(conv_row(), row(division, dtypes=[ACTIVATION])), source=__file__)



class Halves(nn.Module):
    """Index expressions of several places, which TorchScript takes apart."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.last = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x)
        return self.last(y[:, :4] * y[:, 4:]) + y[:, 0].unsqueeze(1)


add_case("table_getitem_shares", Halves, ROWS, backend=table(linear_row(), row(operator.getitem, SHARED, [ACTIVATION]), row(operator.mul, dtypes=[ACTIVATION])), source=__file__)


class Convolutions(nn.Module):
    """L-12. PyTorch's eager API puts quantized::conv2d_dynamic in their place, which rounds its result with the range of its input."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.grouped = nn.Conv2d(6, 8, 3, padding=1, groups=2)
        self.up = nn.ConvTranspose2d(8, 8, 3, stride=2)
        self.line = nn.Conv1d(8, 4, 3, dilation=2)
        self.volume = nn.Conv3d(4, 4, (3, 1, 1), bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.up(torch.relu(self.grouped(self.conv(x)))))
        x = self.line(x.flatten(2))
        return self.volume(x.view(x.size(0), x.size(1), -1, 1, 1))


DYNAMIC = DTypeConfig(input_dtype=torch.quint8, output_dtype=torch.float, weight_dtype=torch.qint8, bias_dtype=torch.float, is_dynamic=True)
add_case(
    "table_dynamic_convolutions",
    Convolutions,
    IMAGE,
    backend=table(*(weighted(module, getattr(nnqr, module.__name__), [DYNAMIC]) for module in (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d))),
    mapping=lambda engine: QConfigMapping().set_global(default_dynamic_qconfig),
    source=__file__,
)

# ---- patterns in the complex format


class AddThenRelu(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 4, 1)
        self.relu1 = nn.ReLU()
        self.relu2 = nn.ReLU()
        self.last = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.conv1(x))
        return self.last(self.relu2(torch.add(y, self.conv2(x))))


def complex_case(name: str, *rows: BackendPatternConfig, **options) -> None:
    add_case(f"complex_{name}", AddThenRelu, IMAGE, backend=table(conv_row(), *rows), source=__file__, **options)


complex_case("add_of_anything", complex_row((nn.ReLU, (torch.add, MatchAllNode, MatchAllNode)), dtypes=[ACTIVATION]))
complex_case("add_of_a_convolution", complex_row((nn.ReLU, (torch.add, MatchAllNode, nn.Conv2d))))
complex_case("add_of_a_convolution_on_the_left", complex_row((nn.ReLU, (torch.add, nn.Conv2d, MatchAllNode))))
complex_case("relu_of_a_convolution", complex_row((nn.ReLU, nn.Conv2d)))
complex_case("add_beside_chains", complex_row((nn.ReLU, (torch.add, MatchAllNode, nn.Conv2d))), row((nn.Conv2d, nn.ReLU)).set_fuser_method(_sequential_wrapper2(nni.ConvReLU2d)).set_fused_module(nni.ConvReLU2d), row(nni.ConvReLU2d))
complex_case("relu_of_add", complex_row((nn.ReLU, torch.add), dtypes=[ACTIVATION]))


class AddOfTheInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 4, 1)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(torch.add(x, self.conv2(self.conv1(x))))


add_case(
    "complex_add_of_the_input",
    AddOfTheInput,
    IMAGE,
    backend=table(conv_row(), complex_row((nn.ReLU, (torch.add, MatchAllNode, nn.Conv2d)))),
    source=__file__,
    known_difference="C-05: FX takes an input of the model that MatchAllNode stands for as observed and observes it nowhere, so that conv1 stays float",
    float_layers=Excused(1, "conv2 is no root of the tree"),
)



class NumbersFirst(nn.Module):
    """To TorchScript the number is second in each, and 2.0 / x two operators."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = 0.5 * x + 2.0 / (x * x + 1.0)
        return self.last(1.0 - x * 0.7)


ARITHMETIC = (operator.mul, operator.add, operator.sub, operator.truediv)
DYNAMIC = DTypeConfig(input_dtype=torch.quint8, output_dtype=torch.float, weight_dtype=torch.qint8, bias_dtype=torch.float, is_dynamic=True)


def number_case(name: str, *rows: BackendPatternConfig, **options) -> None:
    add_case(f"numbers_first_{name}", NumbersFirst, ROWS, backend=table(linear_row(), *rows), source=__file__, **options)


number_case("static", *(row(target, dtypes=[ACTIVATION]) for target in ARITHMETIC))
number_case("dynamic", *(row(target, dtypes=[DYNAMIC]) for target in ARITHMETIC), mapping=lambda engine: QConfigMapping().set_global(default_dynamic_qconfig), float_layers=Excused(2, "the row of linear layers is static"))
number_case("in_trees", complex_row((operator.truediv, MatchAllNode, operator.add), dtypes=[ACTIVATION]), complex_row((operator.sub, MatchAllNode, operator.mul), dtypes=[ACTIVATION]))
number_case("not_in_trees", complex_row((operator.truediv, operator.add, MatchAllNode), dtypes=[ACTIVATION]), complex_row((operator.sub, operator.mul, MatchAllNode), dtypes=[ACTIVATION]))


# ---- constraints


def own_qconfig(low: int, high: int, eps: float = 2**-12, dtype: torch.dtype = torch.quint8) -> QConfig:
    return QConfig(
        activation=MinMaxObserver.with_args(dtype=dtype, quant_min=low, quant_max=high, eps=eps),
        weight=MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, eps=eps),
    )


def constrained(low: int, high: int, scale=None) -> DTypeConfig:
    activation = DTypeWithConstraints(dtype=torch.quint8, quant_min_lower_bound=low, quant_max_upper_bound=high, scale_min_lower_bound=scale)
    weight = DTypeWithConstraints(dtype=torch.qint8, quant_min_lower_bound=-128, quant_max_upper_bound=127, scale_min_lower_bound=scale)
    return DTypeConfig(input_dtype=activation, output_dtype=activation, weight_dtype=weight, bias_dtype=torch.float)


class TwoLinears(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)))


def constraint(name: str, allowed: DTypeConfig, wanted: QConfig, **options) -> None:
    mapping = lambda engine: QConfigMapping().set_global(wanted)  # noqa: E731
    add_case(f"constraint_{name}", TwoLinears, ROWS, backend=table(linear_row([allowed])), mapping=mapping, source=__file__, **options)


constraint("range_inside", constrained(0, 100), own_qconfig(0, 100))
constraint("range_narrower", constrained(0, 100), own_qconfig(5, 80), refusal="MinMaxObserver: the range [5, 80] does not include 0")
constraint("range_too_high", constrained(0, 100), own_qconfig(0, 127))
constraint("range_too_low", constrained(10, 100), own_qconfig(0, 90))
constraint("eps_large_enough", constrained(0, 255, 2**-12), own_qconfig(0, 255, 2**-10))
constraint("eps_equal", constrained(0, 255, 2**-12), own_qconfig(0, 255, 2**-12))
constraint("eps_too_small", constrained(0, 255, 2**-12), own_qconfig(0, 255, 2**-14))
constraint("other_dtype", constrained(0, 255), own_qconfig(-128, 127, dtype=torch.qint8))


# ---- PyTorch's tables where they do not belong

for name, make in (
    ("native", get_native_backend_config),
    ("qnnpack", get_qnnpack_backend_config),
    ("executorch", get_executorch_backend_config),
    ("tensorrt", get_tensorrt_backend_config),
    ("legacy_native", get_test_only_legacy_native_backend_config),
):
    add_case(f"table_of_{name}", Mixed, IMAGE, backend=lambda engine, make=make: make(), source=__file__)
add_case(
    "table_of_tensorrt_symmetric",
    Mixed,
    IMAGE,
    backend=lambda engine: get_tensorrt_backend_config(),
    mapping=lambda engine: QConfigMapping().set_global(
        QConfig(
            activation=MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric),
            weight=default_per_channel_weight_observer,
        )
    ),
    source=__file__,
    engines=("x86", "fbgemm", "onednn"),
    float_layers=Excused(3, "no engine has kernels of layers that read qint8"),
)
add_case("table_of_onednn_on_onednn", Mixed, IMAGE, backend=lambda engine: get_onednn_backend_config(), source=__file__, engines=("onednn",))

# ---- float16, which only PyTorch's test table takes


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.randn(8, 8) * 0.3
        self.b = torch.randn(8)
        self.fc = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        x = F.linear(x, self.w, self.b)
        x = self.norm(F.relu(x))
        x = torch.sigmoid(x) + torch.tanh(self.fc(x))
        return x.reshape(-1, 4) * 2


def half(name: str, mapping) -> None:
    add_case(f"float16_{name}", Half, ROWS, backend=lambda engine: get_test_only_legacy_native_backend_config(), mapping=mapping, source=__file__)


half("everywhere", lambda engine: QConfigMapping().set_global(float16_static_qconfig))
half("but_linear", lambda engine: QConfigMapping().set_global(float16_static_qconfig).set_object_type(F.linear, get_default_qconfig(engine)))
half("of_sigmoid_only", lambda engine: get_default_qconfig_mapping(engine).set_object_type(torch.sigmoid, float16_static_qconfig))
half("of_functional_linear_only", lambda engine: QConfigMapping().set_object_type(F.linear, float16_static_qconfig))
half("of_layer_norm_only", lambda engine: get_default_qconfig_mapping(engine).set_object_type(nn.LayerNorm, float16_static_qconfig))
