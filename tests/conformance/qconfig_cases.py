"""Cases about the QConfigMapping: all five levels, None, other observers and ranges."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
    QConfig,
    QConfigMapping,
    default_per_channel_qconfig,
    default_qconfig,
    default_reuse_input_qconfig,
    get_default_qconfig,
    get_default_qconfig_mapping,
)

from case import Excused, add_case, case, normal, snake_case, without_vnni

IMAGE = normal(2, 3, 12, 12)
ROWS = normal(4, 16)


class Block(nn.Module):
    def __init__(self, channels_in: int, channels: int):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.bn = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.bn(self.conv(x)))


class Net(nn.Module):
    """The network of most cases here: nested blocks, a functional, a residual add, pools and a classifier."""

    def __init__(self):
        super().__init__()
        self.stem = Block(3, 8)
        self.body = nn.Sequential(Block(8, 8), Block(8, 8))
        self.plain = nn.Conv2d(8, 8, 1)
        self.weight = nn.Parameter(torch.randn(6, 8) * 0.3)
        self.fc = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.body(x) + self.plain(x)
        x = torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1)
        return self.fc(F.linear(x, self.weight))


MIN_MAX = QConfig(
    activation=MinMaxObserver.with_args(dtype=torch.quint8, reduce_range=True),
    weight=MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric),
)
PER_TENSOR = QConfig(
    activation=HistogramObserver.with_args(reduce_range=True),
    weight=MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric),
)
MOVING = QConfig(
    activation=MovingAverageMinMaxObserver.with_args(dtype=torch.quint8, averaging_constant=0.2, reduce_range=True),
    weight=MovingAveragePerChannelMinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_channel_symmetric),
)
NARROW = QConfig(
    activation=HistogramObserver.with_args(dtype=torch.quint8, quant_min=0, quant_max=63),
    weight=PerChannelMinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_channel_symmetric, quant_min=-31, quant_max=31),
)
SYMMETRIC_ACTIVATION = QConfig(
    activation=MinMaxObserver.with_args(dtype=torch.quint8, qscheme=torch.per_tensor_symmetric),
    weight=MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric),
)
# The constructor refuses reduce_range here; the histogram's does not.
SYMMETRIC_REDUCED = QConfig(
    activation=MinMaxObserver.with_args(dtype=torch.quint8, qscheme=torch.per_tensor_symmetric, reduce_range=True),
    weight=MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric),
)
SYMMETRIC_HISTOGRAM = QConfig(
    activation=HistogramObserver.with_args(dtype=torch.quint8, qscheme=torch.per_tensor_symmetric, reduce_range=True),
    weight=PerChannelMinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_channel_symmetric),
)
LARGE_EPS = QConfig(
    activation=MinMaxObserver.with_args(dtype=torch.quint8, eps=2**-3, reduce_range=True),
    weight=MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, eps=2**-5),
)
FULL_RANGE = QConfig(
    activation=HistogramObserver.with_args(dtype=torch.quint8),
    weight=PerChannelMinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_channel_symmetric),
)
AFFINE_WEIGHT = QConfig(
    activation=MinMaxObserver.with_args(dtype=torch.quint8, reduce_range=True),
    weight=MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_affine),
)
FEW_BINS = QConfig(
    activation=HistogramObserver.with_args(reduce_range=True, bins=256),
    weight=MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric),
)
UNSUPPORTED_ACTIVATION = QConfig(
    activation=MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric),
    weight=MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric),
)
UNSUPPORTED_WEIGHT = QConfig(
    activation=MinMaxObserver.with_args(dtype=torch.quint8, reduce_range=True),
    weight=MinMaxObserver.with_args(dtype=torch.quint8),
)


def mapping_case(name: str, change, model=Net, inputs=(IMAGE,), **options) -> None:
    """`change` edits the engine's default mapping."""
    add_case(name, model, *inputs, mapping=lambda engine: change(get_default_qconfig_mapping(engine)), source=__file__, **options)


def global_case(name: str, qconfig, model=Net, inputs=(IMAGE,), **options) -> None:
    """`qconfig` for everything."""
    add_case(name, model, *inputs, mapping=lambda engine: QConfigMapping().set_global(qconfig), source=__file__, **options)


add_case("default_mapping", Net, IMAGE)
add_case("global_of_default_qconfig", Net, IMAGE, mapping=lambda engine: QConfigMapping().set_global(get_default_qconfig(engine)))
global_case("named_default_qconfig", default_qconfig)
global_case("named_default_per_channel_qconfig", default_per_channel_qconfig)
global_case("min_max", MIN_MAX)
global_case("per_tensor_weights", PER_TENSOR)
global_case("moving_average", MOVING)
global_case("narrow_ranges", NARROW)
global_case("symmetric_activations", SYMMETRIC_ACTIVATION)
global_case("symmetric_activations_reduced", SYMMETRIC_REDUCED, refusal="cannot reduce the range of a symmetric scheme of quint8; leave out reduce_range or use qint8")
global_case("symmetric_histogram", SYMMETRIC_HISTOGRAM)
global_case("large_eps", LARGE_EPS)
global_case("full_range", FULL_RANGE)
global_case("affine_weight", AFFINE_WEIGHT, float_layers={"onednn": Excused(5, "oneDNN takes symmetric weights alone")})
global_case("few_bins", FEW_BINS)
NOTHING_QUANTIZED = dict(
    known_difference="C-16: FX folds batch norms also where nothing is quantized, which changes the last bits",
    min_sqnr=200.0,
    float_layers=Excused(5, "the mapping quantizes nothing"),
)
global_case("global_none", None, **NOTHING_QUANTIZED)
add_case("empty_mapping", Net, IMAGE, mapping=lambda engine: QConfigMapping(), **NOTHING_QUANTIZED)
global_case("unsupported_activation_dtype", UNSUPPORTED_ACTIVATION, engines=("x86", "fbgemm", "onednn"))
global_case(
    "unsupported_weight_dtype",
    UNSUPPORTED_WEIGHT,
    known_difference="D-11: FX puts q/dq pairs around a float layer whose weight dtype the backend lacks; tsq leaves the layer float",
    accept_plain_fx=True,
)

# ---- object types

mapping_case("object_type_conv_none", lambda m: m.set_object_type(nn.Conv2d, None).set_object_type(nn.BatchNorm2d, None).set_object_type(nn.ReLU, None))
mapping_case("object_type_linear_none", lambda m: m.set_object_type(nn.Linear, None))
mapping_case("object_type_functional_linear_none", lambda m: m.set_object_type(F.linear, None))
mapping_case("object_type_functional_linear", lambda m: m.set_object_type(F.linear, MIN_MAX))
mapping_case("object_type_add_none", lambda m: m.set_object_type(torch.add, None).set_object_type("add", None))
mapping_case("object_type_operator_add_none", lambda m: m.set_object_type(__import__("operator").add, None))
mapping_case("object_type_pool_none", lambda m: m.set_object_type(F.adaptive_avg_pool2d, None))
mapping_case("object_type_flatten_none", lambda m: m.set_object_type(torch.flatten, None))
mapping_case("object_type_linear_min_max", lambda m: m.set_object_type(nn.Linear, MIN_MAX))
mapping_case("object_type_two", lambda m: m.set_object_type(nn.Linear, MIN_MAX).set_object_type(F.linear, PER_TENSOR))
mapping_case("object_type_replaced", lambda m: m.set_object_type(nn.Linear, None).set_object_type(nn.Linear, MOVING))
mapping_case(
    "object_type_of_one_member_of_a_fusion",
    lambda m: m.set_object_type(nn.Conv2d, MIN_MAX),
    known_difference="B-16: FX raises LookupError when only one member of a fusion has an entry",
    min_sqnr={engine: without_vnni(24, "values beyond their range of 7 bits have 8") for engine in ("x86", "fbgemm")},
)
mapping_case("object_type_of_all_members_of_a_fusion", lambda m: m.set_object_type(nn.Conv2d, MIN_MAX).set_object_type(nn.BatchNorm2d, MIN_MAX).set_object_type(nn.ReLU, MIN_MAX))
add_case(
    "only_conv_has_a_qconfig",
    lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 1), nn.Hardswish(), nn.Conv2d(8, 4, 1)),
    IMAGE,
    mapping=lambda engine: QConfigMapping().set_object_type(nn.Conv2d, get_default_qconfig(engine)),
)
mapping_case("object_type_containing_class", lambda m: m.set_object_type(Net, MIN_MAX).set_object_type(F.linear, None))

# ---- module names

mapping_case("module_name_none", lambda m: m.set_module_name("plain", None))
mapping_case("module_name_first_none", lambda m: m.set_module_name("stem", None))
mapping_case("module_name_last_none", lambda m: m.set_module_name("fc", None))
mapping_case("module_name_min_max", lambda m: m.set_module_name("plain", MIN_MAX))
mapping_case("module_name_of_a_parent", lambda m: m.set_module_name("body", None))
mapping_case("module_name_parent_and_child", lambda m: m.set_module_name("body", None).set_module_name("body.1", MIN_MAX))
mapping_case("module_name_child_none", lambda m: m.set_module_name("body", MIN_MAX).set_module_name("body.0", None))
mapping_case("module_name_conv_of_a_fusion_none", lambda m: m.set_module_name("stem.conv", None))
mapping_case("module_name_bn_of_a_fusion_none", lambda m: m.set_module_name("stem.bn", None))
mapping_case("module_name_relu_of_a_fusion_none", lambda m: m.set_module_name("stem.relu", None))
mapping_case("module_name_beats_object_type", lambda m: m.set_object_type(nn.Linear, None).set_module_name("fc", MIN_MAX))
mapping_case("module_name_unknown", lambda m: m.set_module_name("no.such.module", None))
mapping_case("module_name_only", lambda m: m.set_global(None).set_module_name("stem", FULL_RANGE))
mapping_case("module_name_only_functional_parent", lambda m: m.set_module_name("", MIN_MAX))

# ---- regex

mapping_case("regex_none", lambda m: m.set_module_name_regex("body\\.[0-9]", None))
mapping_case("regex_prefix", lambda m: m.set_module_name_regex("s", None))
mapping_case("regex_is_anchored", lambda m: m.set_module_name_regex("conv", None))
mapping_case("regex_first_wins", lambda m: m.set_module_name_regex("body.*conv", MIN_MAX).set_module_name_regex("body.*", None))
mapping_case("regex_all", lambda m: m.set_module_name_regex(".*", MIN_MAX))
mapping_case("regex_below_module_name", lambda m: m.set_module_name_regex("body.*", None).set_module_name("body.0", MIN_MAX))
mapping_case("regex_above_object_type", lambda m: m.set_object_type(nn.Linear, None).set_module_name_regex("fc$", MIN_MAX))
mapping_case("regex_alternatives", lambda m: m.set_module_name_regex("(plain|fc)$", MOVING))

# ---- (module name, object type, index)


class FourLinears(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(16, 16) * 0.2)
        self.w2 = nn.Parameter(torch.randn(16, 16) * 0.2)
        self.fc1 = nn.Linear(16, 16)
        self.fc2 = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = F.linear(F.linear(x, self.w1), self.w2)
        return self.fc2(self.fc1(x)) + x + x


class FourLinearsInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = FourLinears()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def order_case(name: str, change, model=FourLinears) -> None:
    mapping_case(name, change, model, (ROWS,))


order_case("order_second_functional_none", lambda m: m.set_module_name_object_type_order("", F.linear, 1, None))
order_case("order_first_functional_none", lambda m: m.set_module_name_object_type_order("", F.linear, 0, None))
order_case("order_first_functional_min_max", lambda m: m.set_module_name_object_type_order("", F.linear, 0, MIN_MAX))
order_case("order_second_module_none", lambda m: m.set_module_name_object_type_order("", nn.Linear, 1, None))
order_case("order_second_add_none", lambda m: m.set_module_name_object_type_order("", __import__("operator").add, 1, None))
order_case("order_in_a_submodule", lambda m: m.set_module_name_object_type_order("inner", F.linear, 1, None), FourLinearsInside)
order_case("order_module_in_a_submodule", lambda m: m.set_module_name_object_type_order("inner", nn.Linear, 0, MIN_MAX), FourLinearsInside)
order_case("order_beats_module_name", lambda m: m.set_module_name("inner", None).set_module_name_object_type_order("inner", nn.Linear, 0, MIN_MAX), FourLinearsInside)
order_case("order_index_out_of_range", lambda m: m.set_module_name_object_type_order("", F.linear, 7, None))
order_case("order_with_object_type", lambda m: m.set_object_type(F.linear, MIN_MAX).set_module_name_object_type_order("", F.linear, 1, PER_TENSOR))

# ---- reuse of the input's observer, fixed parameters


class ReshapeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.fc = nn.Linear(800, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return self.fc(x.reshape(x.size(0), -1))


add_case("reuse_input_of_reshape", ReshapeNet, IMAGE)
add_case("reshape_without_reuse_input", ReshapeNet, IMAGE, mapping=lambda engine: QConfigMapping().set_global(get_default_qconfig(engine)))
mapping_case("reshape_none", lambda m: m.set_object_type("reshape", None), ReshapeNet)
mapping_case("reuse_input_of_a_pool", lambda m: m.set_object_type(F.adaptive_avg_pool2d, default_reuse_input_qconfig))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 8)
        self.b = nn.Linear(16, 8)
        self.gate = nn.Sigmoid()
        self.out = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.a(x)) * self.gate(self.b(x)))


add_case("gated_default_mapping", Gated, ROWS)
add_case(
    "gated_without_fixed_observers",
    Gated,
    ROWS,
    mapping=lambda engine: QConfigMapping().set_global(get_default_qconfig(engine)),
)
mapping_case("gated_sigmoid_none", lambda m: m.set_object_type(nn.Sigmoid, None), Gated, (ROWS,))
mapping_case("gated_tanh_wrong_observer", lambda m: m.set_object_type(torch.tanh, FULL_RANGE), Gated, (ROWS,))
mapping_case("gated_module_name_min_max", lambda m: m.set_module_name("gate", MIN_MAX), Gated, (ROWS,))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.act = nn.PReLU()
        self.fc2 = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.norm(self.fc1(x))))


PRELU = dict(lowered_difference="section 6: quantized::prelu is wrong once a slope's code is above 127")
add_case("normed_default_mapping", Normed, ROWS, **PRELU)
global_case("normed_min_max", MIN_MAX, Normed, (ROWS,), **PRELU)
mapping_case("normed_prelu_none", lambda m: m.set_object_type(nn.PReLU, None), Normed, (ROWS,))

# ---- the mappings over other networks


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = Block(3, 8)
        self.right = nn.Conv2d(3, 8, 1)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Conv2d(16, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(torch.cat([self.left(x), self.right(x)], 1)))


for _name, _qconfig in (("min_max", MIN_MAX), ("moving_average", MOVING), ("narrow_ranges", NARROW), ("symmetric", SYMMETRIC_ACTIVATION)):
    global_case(f"branches_{_name}", _qconfig, Branches)
mapping_case("branches_one_side_none", lambda m: m.set_module_name("right", None), Branches)
mapping_case("branches_one_side_min_max", lambda m: m.set_module_name("left", MIN_MAX), Branches)
mapping_case("branches_cat_none", lambda m: m.set_object_type(torch.cat, None), Branches)
mapping_case("branches_cat_min_max", lambda m: m.set_object_type(torch.cat, MIN_MAX), Branches)
mapping_case("branches_pool_none", lambda m: m.set_object_type(nn.MaxPool2d, None), Branches)
mapping_case("branches_head_none", lambda m: m.set_module_name("head", None), Branches)
