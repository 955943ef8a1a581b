"""Networks that are trained: what stands between layers, and how layers are put together.

Like training_models.py, beside FX's with the engine's default mapping for training or with the one that a line says.
"""

import torch
import torch.ao.quantization as ao
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization import QConfigMapping, get_default_qat_qconfig, get_default_qat_qconfig_mapping
from torch.ao.quantization.fx.custom_config import PrepareCustomConfig

from case import integers, normal
from layer_cases import PADDING_MODE, PRELU, QNNPACK_CLAMP
from standalone_cases import by_name
from training_cases import training_case
from training_models import BLOCK, IMAGES, ROWS, batch_norm, conv, linear, of, stack

ALL_BUT_QNNPACK = ("x86", "fbgemm", "onednn")
SEQUENCES = normal(2, 5, 8)


# Batch norms of every kind of numbers.
for eps in (1e-8, 1e-3, 1.0):
    for momentum in (0.0, 0.01, 1.0):
        name = f"qat_bn_eps_{eps:g}_momentum_{momentum:g}".replace("-", "m").replace(".", "p")
        training_case(name, stack(conv(bias=False), batch_norm(eps=eps, momentum=momentum), nn.ReLU, conv(6, 4)), IMAGES)


class NegativeFactors(nn.Module):
    """Factors of both signs, and one close to zero."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.bn = nn.BatchNorm2d(6)
        with torch.no_grad():
            self.bn.weight.copy_(torch.tensor([-2.0, -0.5, 1e-3, 0.7, 1.5, 3.0]))
            self.bn.bias.copy_(torch.linspace(-1, 1, 6))
            self.bn.running_mean.copy_(torch.linspace(1, -1, 6))
            self.bn.running_var.copy_(torch.linspace(0.1, 4, 6))

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


training_case("qat_bn_negative_factors", NegativeFactors, IMAGES)
training_case("qat_conv1d_bn_eps", stack(lambda: nn.Conv1d(3, 6, 3, bias=False), lambda: nn.BatchNorm1d(6, eps=0.1, momentum=0.5), nn.ReLU), normal(4, 3, 12))
training_case("qat_linear_bn_eps", stack(linear(8, 7), lambda: nn.BatchNorm1d(7, eps=0.1, momentum=0.5), nn.ReLU, linear(7, 5)), ROWS)
training_case("qat_bn_relu_3d", stack(lambda: nn.BatchNorm3d(3), nn.ReLU, lambda: nn.Conv3d(3, 4, 1)), normal(2, 3, 4, 4, 4), engines=ALL_BUT_QNNPACK)


# Layers with unusual arguments.
training_case("qat_conv_reflect", stack(conv(padding_mode="reflect"), nn.ReLU, conv(6, 4)), IMAGES, reference_difference=PADDING_MODE)
training_case("qat_conv_replicate_bn", stack(conv(padding_mode="replicate"), batch_norm(), nn.ReLU, conv(6, 4)), IMAGES)
training_case("qat_conv_valid", stack(conv(padding="valid"), nn.ReLU, conv(6, 4)), IMAGES)
training_case("qat_conv_of_one_channel", stack(conv(3, 1), batch_norm(1), nn.ReLU, conv(1, 4)), IMAGES)
training_case("qat_conv_rectangular", stack(conv(kernel=(3, 1), padding=(1, 0), stride=(2, 1)), batch_norm(), nn.ReLU), IMAGES)
training_case("qat_conv_depthwise_multiplied", stack(conv(3, 6, groups=3, bias=False), batch_norm(), nn.ReLU, conv(6, 6, 1, padding=0)), IMAGES)
training_case("qat_linear_on_sequences", stack(linear(8, 7), nn.ReLU, linear(7, 5)), SEQUENCES)
training_case("qat_conv1d_no_bias", stack(lambda: nn.Conv1d(3, 6, 3, bias=False), nn.ReLU, lambda: nn.Conv1d(6, 2, 3, bias=False)), normal(4, 3, 12))
training_case("qat_conv3d_no_bias", stack(lambda: nn.Conv3d(3, 6, 3, bias=False), lambda: nn.BatchNorm3d(6), nn.ReLU, lambda: nn.Conv3d(6, 2, 1)), normal(2, 3, 5, 5, 5), engines=ALL_BUT_QNNPACK)
training_case("qat_relu6", stack(conv(), batch_norm(), nn.ReLU6, conv(6, 4), nn.ReLU6), IMAGES, lowered_difference=QNNPACK_CLAMP)
training_case("qat_hardtanh", stack(conv(), nn.Hardtanh, conv(6, 4)), IMAGES, lowered_difference=QNNPACK_CLAMP)
training_case("qat_relu_inplace", stack(conv(), batch_norm(), lambda: nn.ReLU(inplace=True), conv(6, 4), lambda: nn.ReLU(inplace=True)), IMAGES)
training_case("qat_adam_linear_bn", stack(linear(8, 7), lambda: nn.BatchNorm1d(7), nn.ReLU, linear(7, 5)), ROWS, optimizer="adam")
training_case("qat_high_learning_rate", BLOCK, IMAGES, learning_rate=0.1)


class OfModules(nn.Module):
    """One layer, an operator, one layer."""

    def __init__(self, operator):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.operator = operator
        self.last = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return self.last(self.operator(self.first(x)))


OPERATORS = {
    "max_pool": lambda: nn.MaxPool2d(2),
    "avg_pool": lambda: nn.AvgPool2d(2),
    "adaptive_avg_pool": lambda: nn.AdaptiveAvgPool2d(2),
    "upsample": lambda: nn.Upsample(scale_factor=2),
    "upsample_bilinear": lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
    "pixel_shuffle": lambda: nn.Sequential(nn.Conv2d(4, 16, 1), nn.PixelShuffle(2)),
    "dropout": lambda: nn.Dropout(0.3),
    "dropout2d": lambda: nn.Dropout2d(0.3),
    "identity": nn.Identity,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "softmax": lambda: nn.Softmax(1),
    "hardswish": nn.Hardswish,
    "hardsigmoid": nn.Hardsigmoid,
    "leaky_relu": lambda: nn.LeakyReLU(0.2),
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "prelu": nn.PReLU,
    "group_norm": lambda: nn.GroupNorm(2, 4),
    "instance_norm": lambda: nn.InstanceNorm2d(4),
    "batch_norm_twice": lambda: nn.Sequential(nn.BatchNorm2d(4), nn.BatchNorm2d(4)),
    "batch_norm_after_relu": lambda: nn.Sequential(nn.ReLU(), nn.BatchNorm2d(4)),
    "channel_shuffle": lambda: nn.ChannelShuffle(2),
    "zero_pad": lambda: nn.ZeroPad2d(1),
}
for name, operator in OPERATORS.items():
    wrong = {"lowered_difference": PRELU} if name == "prelu" else {}
    training_case(f"qat_between_{name}", lambda operator=operator: OfModules(operator()), IMAGES, **wrong)


class Functions(nn.Module):
    """Two layers with a function of both between them and a last one."""

    kind: torch.jit.Final[str]

    def __init__(self, kind: str):
        super().__init__()
        self.kind = kind
        self.left = nn.Conv2d(3, 4, 3, padding=1)
        self.right = nn.Conv2d(3, 4, 1)
        self.last = nn.Conv2d(8 if kind in ("cat", "stack") else 2 if kind == "chunk" else 4, 4, 1)

    def forward(self, x):
        a = self.left(x)
        b = self.right(x)
        if self.kind == "add":
            y = a + b
        elif self.kind == "add_relu":
            y = F.relu(a + b)
        elif self.kind == "mul":
            y = a * b
        elif self.kind == "sub":
            y = a - b
        elif self.kind == "cat":
            y = torch.cat([a, b], 1)
        elif self.kind == "stack":
            y = torch.stack([a, b], 1).flatten(1, 2)
        elif self.kind == "chunk":
            y, _ = torch.chunk(a + b, 2, 1)
        elif self.kind == "mean":
            y = a * b.mean([2, 3], keepdim=True)
        elif self.kind == "gate":
            y = a * torch.sigmoid(b)
        elif self.kind == "transpose":
            y = a.transpose(2, 3) + b
        elif self.kind == "reshape":
            y = (a + b).reshape(x.size(0), 4, -1).unsqueeze(3)
        elif self.kind == "clamp":
            y = torch.clamp(a, -0.5, 0.5) + b
        elif self.kind == "max":
            y = torch.max(a, b)
        elif self.kind == "interpolate":
            y = F.interpolate(a + b, scale_factor=2.0)
        elif self.kind == "pool":
            y = F.max_pool2d(a, 2) + F.avg_pool2d(b, 2)
        elif self.kind == "slice":
            y = (a + b)[:, :, ::2]
        elif self.kind == "number":
            y = (a * 2 + 1) / 3 + b
        else:
            y = a.matmul(b)
        return self.last(y)


for kind in ("add", "add_relu", "mul", "sub", "cat", "stack", "chunk", "mean", "gate", "transpose", "reshape", "clamp", "max", "interpolate", "pool", "slice", "number", "matmul"):
    wrong = {"lowered_difference": QNNPACK_CLAMP} if kind == "clamp" else {}
    training_case(f"qat_of_two_{kind}", lambda kind=kind: Functions(kind), IMAGES, **wrong)


class Bottleneck(nn.Module):
    def __init__(self, channels, stride=1):
        super().__init__()
        self.reduce = nn.Sequential(nn.Conv2d(channels, 4, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.depthwise = nn.Sequential(nn.Conv2d(4, 4, 3, stride, 1, groups=4, bias=False), nn.BatchNorm2d(4), nn.ReLU6(inplace=True))
        self.expand = nn.Sequential(nn.Conv2d(4, channels, 1, bias=False), nn.BatchNorm2d(channels))
        self.shortcut = nn.Sequential(nn.Conv2d(channels, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)) if stride != 1 else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.expand(self.depthwise(self.reduce(x))) + self.shortcut(x))


class Network(nn.Module):
    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.blocks = nn.Sequential(Bottleneck(8), Bottleneck(8, 2), Bottleneck(8))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.pool(self.blocks(self.stem(x)))
        return self.head(self.dropout(torch.flatten(x, 1)))


BATCH = normal(4, 3, 16, 16)
training_case("qat_network", Network, BATCH, lowered_difference=QNNPACK_CLAMP)
training_case("qat_network_adam", Network, BATCH, optimizer="adam", lowered_difference=QNNPACK_CLAMP)
training_case("qat_network_dropout", lambda: Network(0.5), BATCH, lowered_difference=QNNPACK_CLAMP)
training_case("qat_network_version_0", Network, BATCH, mapping=lambda engine: get_default_qat_qconfig_mapping(engine, 0), lowered_difference=QNNPACK_CLAMP)
training_case("qat_network_block_float", Network, BATCH, mapping=lambda engine: get_default_qat_qconfig_mapping(engine).set_module_name("blocks.1", None), lowered_difference=QNNPACK_CLAMP)
training_case("qat_network_head_float", Network, BATCH, mapping=lambda engine: get_default_qat_qconfig_mapping(engine).set_object_type(nn.Linear, None), lowered_difference=QNNPACK_CLAMP)


class SqueezeExcite(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.down = nn.Conv2d(8, 2, 1)
        self.up = nn.Conv2d(2, 8, 1)

    def forward(self, x):
        x = F.hardswish(self.bn(self.conv(x)))
        s = F.adaptive_avg_pool2d(x, 1)
        s = F.hardsigmoid(self.up(F.relu(self.down(s))))
        return x * s


training_case("qat_squeeze_excite", SqueezeExcite, IMAGES)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(8, 8)
        self.key = nn.Linear(8, 8)
        self.value = nn.Linear(8, 8)
        self.out = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        weights = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) * 0.35, -1)
        return self.norm(x + self.out(torch.matmul(weights, v)))


training_case("qat_attention", Attention, SEQUENCES)


class Outputs(nn.Module):
    """Several outputs, one of them an inner value."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, x):
        inner = torch.relu(self.first(x))
        return inner, self.second(inner)


class Inputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(8, 6)
        self.right = nn.Linear(4, 6)

    def forward(self, x, y):
        return F.relu(self.left(x) + self.right(y))


training_case("qat_two_outputs", Outputs, ROWS)
training_case("qat_two_inputs", Inputs, ROWS, normal(6, 4))


class OwnConv(nn.Conv2d):
    """QT-10: a subclass is traced into; its convolution is a function."""


training_case("qat_subclass_of_conv", stack(lambda: OwnConv(3, 6, 3), nn.ReLU, conv(6, 4)), IMAGES)


class SharedTwice(nn.Module):
    """One convolution for two inputs, and one batch norm after two convolutions."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.last = nn.Conv2d(4, 4, 1)

    def forward(self, x, y):
        return self.last(self.conv(x) + self.conv(y))


training_case("qat_shared_by_inputs", SharedTwice, IMAGES, IMAGES, converted_difference="QT-85: FX observes the weight once for each call")


class Recurrent(nn.Module):
    """QT-10: a recurrent part stays float in training."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.lstm = nn.LSTM(8, 6, batch_first=True)
        self.last = nn.Linear(6, 3)

    def forward(self, x):
        y, _ = self.lstm(self.first(x))
        return self.last(y)


FLOAT_LSTM = lambda engine: get_default_qat_qconfig_mapping(engine).set_object_type(nn.LSTM, None)  # noqa: E731
training_case("qat_lstm", Recurrent, SEQUENCES, mapping=FLOAT_LSTM)


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(10, 8, mode="sum")
        self.linear = nn.Linear(8, 3)

    def forward(self, indices):
        return self.linear(self.table(indices))


class Tables(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(12, 8)
        self.places = nn.Embedding(3, 8)
        self.linear = nn.Linear(8, 3)

    def forward(self, words, places):
        return self.linear(self.words(words) + self.places(places))


def tables(kind):
    return lambda engine: get_default_qat_qconfig_mapping(engine).set_object_type(kind, ao.default_embedding_qat_qconfig)


training_case("qat_embedding_bag", Bags, integers(10, 4, 3), mapping=tables(nn.EmbeddingBag))
training_case("qat_two_embeddings", Tables, integers(12, 4, 3), integers(3, 4, 3), mapping=tables(nn.Embedding))


# Mappings of one's own.
def with_observers(**options):
    """A QConfig of fused fake quantizes with settings of their own."""

    def qconfig(engine):
        return ao.QConfig(
            activation=ao.FusedMovingAvgObsFakeQuantize.with_args(observer=ao.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **options),
            weight=ao.FusedMovingAvgObsFakeQuantize.with_args(
                observer=ao.MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, **options
            ),
        )

    return lambda engine: QConfigMapping().set_global(qconfig(engine))


training_case("qat_averaging_constant", BLOCK, IMAGES, mapping=with_observers(averaging_constant=0.5))
training_case("qat_eps_of_observers", BLOCK, IMAGES, mapping=with_observers(eps=0.01))
training_case("qat_reduce_range", BLOCK, IMAGES, mapping=of(ao.QConfig(activation=ao.default_fake_quant, weight=ao.default_weight_fake_quant)))
training_case("qat_per_channel_fake_quant", BLOCK, IMAGES, mapping=of(ao.QConfig(activation=ao.default_fake_quant, weight=ao.default_per_channel_weight_fake_quant)))
training_case("qat_activation_only", BLOCK, IMAGES, mapping=of(ao.QConfig(activation=ao.default_fused_act_fake_quant, weight=ao.default_fused_wt_fake_quant)))
training_case("qat_functional_types", lambda: Functions("add"), IMAGES, mapping=lambda engine: get_default_qat_qconfig_mapping(engine).set_object_type(torch.add, None))
training_case(
    "qat_linear_only", stack(conv(), nn.ReLU, lambda: nn.Flatten(), lambda: nn.Linear(384, 4)), IMAGES,
    mapping=lambda engine: QConfigMapping().set_object_type(nn.Linear, get_default_qat_qconfig(engine)),
)
training_case(
    "qat_regex_own", BLOCK, IMAGES, mapping=lambda engine: get_default_qat_qconfig_mapping(engine).set_module_name_regex("[05]", get_default_qat_qconfig("qnnpack")), engines=("fbgemm", "qnnpack")
)


# Custom configurations (QT-19).
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 3, padding=1)
        self.bn = nn.BatchNorm2d(6)
        self.relu = nn.ReLU()
        self.second = nn.Conv2d(6, 6, 1)

    def forward(self, x):
        return self.relu(self.second(self.relu(self.bn(self.conv(x)))))


class Surrounded(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.Conv2d(3, 6, 1)
        self.inner = Inner()
        self.after = nn.Conv2d(6, 4, 1)

    def forward(self, x):
        return self.after(self.inner(self.before(x)))


def inner_is(engine_qconfig):
    return lambda engine: get_default_qat_qconfig_mapping(engine).set_module_name("inner", engine_qconfig(engine))


training_case("qat_standalone", Surrounded, IMAGES, prepare_custom=by_name("inner"))
training_case("qat_standalone_quantized", Surrounded, IMAGES, prepare_custom=by_name("inner", inputs=[0], outputs=[0]))
training_case("qat_standalone_own_mapping", Surrounded, IMAGES, prepare_custom=by_name("inner", mapping=get_default_qat_qconfig_mapping))
training_case("qat_standalone_outside_none", Surrounded, IMAGES, prepare_custom=by_name("inner", mapping=get_default_qat_qconfig_mapping), mapping=inner_is(lambda engine: None))
training_case("qat_non_traceable", Surrounded, IMAGES, prepare_custom=lambda engine: PrepareCustomConfig().set_non_traceable_module_names(["inner"]))
training_case("qat_module_float", Surrounded, IMAGES, mapping=inner_is(lambda engine: None))
training_case("qat_quantized_output", BLOCK, IMAGES, prepare_custom=lambda engine: PrepareCustomConfig().set_output_quantized_indexes([0]))


class Masked(nn.Module):
    """The fused operator takes float32 alone: FX stops at the comparison."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        y = self.first(x)
        return self.last(y * (y > 0))


training_case("qat_masked", Masked, ROWS)
