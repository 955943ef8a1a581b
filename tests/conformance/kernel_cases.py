"""Kernels of LibTorch that are wrong or missing on an engine: lowering avoids them and stays near the reference."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import get_default_qconfig, get_default_qconfig_mapping
from torch.ao.quantization.qconfig_mapping import _get_symmetric_qnnpack_qconfig_mapping

from case import Excused, add_case, case, normal, sequential, uniform
from comparison import has_vnni

CHANNELS = "section 6: oneDNN's transposed convolution is wrong when the numbers of channels in and out differ"
DIRECT_PATH = "section 6: fbgemm's transposed convolution is wrong for a kernel of two rows and channels in eights"
UNEQUAL = {"onednn": CHANNELS}
TWO_ROWS = {"fbgemm": DIRECT_PATH}
# The engine x86 takes oneDNN's transposed convolutions on processors with VNNI, and fbgemm's on others.
if has_vnni():
    UNEQUAL["x86"] = CHANNELS
else:
    TWO_ROWS["x86"] = DIRECT_PATH
OUTPUT_PADDING = {"onednn": "oneDNN has no transposed convolution with output padding"}


def per_tensor(engine: str):
    """onednn's default gives transposed convolutions per-channel weights, which no engine takes."""
    mapping = get_default_qconfig_mapping(engine)
    for cls in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d):
        mapping.set_object_type(cls, get_default_qconfig("qnnpack"))
    return mapping


def transposed(name: str, inputs, make, difference, no_kernel=None):
    """The layer stays float where its kernel is wrong, and where there is none."""
    float_layers = {engine: Excused(1, reason) for engine, reason in {**difference, **(no_kernel or {})}.items()}
    sequential(name, inputs, make, mapping=per_tensor, lowered_difference=difference, float_layers=float_layers)


transposed("conv_transpose1d_to_fewer_channels", normal(2, 8, 12), lambda: nn.ConvTranspose1d(8, 3, 3), UNEQUAL)
transposed("conv_transpose2d_to_fewer_channels", normal(2, 8, 6, 6), lambda: nn.ConvTranspose2d(8, 3, 3, stride=2), UNEQUAL)
transposed("conv_transpose2d_to_more_channels", normal(2, 3, 6, 6), lambda: nn.ConvTranspose2d(3, 8, 3, padding=1), UNEQUAL)
transposed("conv_transpose2d_unequal_in_groups", normal(2, 8, 6, 6), lambda: nn.ConvTranspose2d(8, 4, 3, groups=2), UNEQUAL)
transposed("conv_transpose2d_equal_in_groups", normal(2, 8, 6, 6), lambda: nn.ConvTranspose2d(8, 8, 3, groups=2), {})
transposed("conv_transpose2d_unequal_output_padding", normal(2, 8, 6, 6), lambda: nn.ConvTranspose2d(8, 3, 3, stride=2, output_padding=1), {}, OUTPUT_PADDING)
transposed("conv_transpose3d_to_fewer_channels", normal(2, 4, 3, 4, 4), lambda: nn.ConvTranspose3d(4, 2, 3), {**UNEQUAL, "qnnpack": "section 6: qnnpack's conv_transpose3d returns garbage"})
transposed("conv_transpose2d_two_rows", normal(2, 8, 6, 6), lambda: nn.ConvTranspose2d(8, 8, 2, stride=2), TWO_ROWS)
transposed("conv_transpose2d_two_rows_unequal", normal(2, 16, 6, 6), lambda: nn.ConvTranspose2d(16, 8, 2, stride=2), {**UNEQUAL, **TWO_ROWS})
transposed("conv_transpose2d_two_rows_output_padding", normal(2, 8, 6, 6), lambda: nn.ConvTranspose2d(8, 8, 2, stride=2, output_padding=1), {"fbgemm": DIRECT_PATH, "x86": DIRECT_PATH}, OUTPUT_PADDING)
transposed("conv_transpose2d_two_rows_padded", normal(2, 8, 6, 6), lambda: nn.ConvTranspose2d(8, 8, 2, stride=2, padding=1), {})


class Decoder(nn.Module):
    """Two steps of an up-sampling path, as a U-Net has them."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.join = nn.Conv2d(11, 8, 3, padding=1)
        self.relu = nn.ReLU()
        self.last = nn.ConvTranspose2d(8, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(self.relu(self.down(x)))
        return self.last(self.relu(self.join(torch.cat([x, y], 1))))


add_case("decoder", Decoder, normal(2, 3, 8, 8), mapping=per_tensor, lowered_difference={**UNEQUAL, **TWO_ROWS},
         float_layers={**{engine: Excused(2, CHANNELS) for engine in UNEQUAL}, **{engine: Excused(1, DIRECT_PATH) for engine in TWO_ROWS}})

# ---- pools, clamps, softmax, interpolation after a convolution, whose output is channels-last

IMAGE = normal(2, 3, 9, 9)
QNNPACK_CLAMP = {"qnnpack": "section 6: qnnpack's clamp, hardtanh and relu6 are wrong on channels-last tensors"}
QNNPACK_AVERAGE = {"qnnpack": "section 6: qnnpack's average pools ignore count_include_pad and divisor_override"}


@case(normal(2, 3, 5, 6, 6), lowered_difference=QNNPACK_CLAMP)
class Conv3dHardtanh(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.hardtanh(self.conv(x), -0.5, 0.5)


@case(IMAGE, lowered_difference=QNNPACK_CLAMP)
class ClampOfUnknownRank(nn.Module):
    """Nothing says how many dimensions the clamp's input has."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.clamp(F.interpolate(self.conv(x), scale_factor=2.0), -0.5, 0.5)


@case(IMAGE, lowered_difference={"qnnpack": "qnnpack's clamp takes two bounds: FX raises at run time"})
class ClampWithOneBound(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.clamp(self.conv(x), min=-0.25)


@case(IMAGE, lowered_difference=QNNPACK_AVERAGE)
class AverageWithDivisor(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(self.conv(x), 2, divisor_override=5)


sequential("average_without_padding_in_count", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), lowered_difference=QNNPACK_AVERAGE)
sequential("average_without_padding_at_all", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.AvgPool2d(3, 2, count_include_pad=False))
sequential("average1d_without_padding_in_count", normal(2, 4, 12), lambda: nn.Conv1d(4, 8, 3), lambda: nn.AvgPool1d(3, 2, padding=1, count_include_pad=False), lowered_difference=QNNPACK_AVERAGE)
sequential("softmax_over_channels_of_conv", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.Softmax(1))
sequential("softmax_over_columns_of_conv", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.Softmax(-1))
sequential("batch_norm_alone_not_affine", IMAGE, lambda: nn.BatchNorm2d(3, affine=False))


class Interpolated(nn.Module):
    def __init__(self, conv: nn.Module, mode: str):
        super().__init__()
        self.conv, self.mode = conv, mode

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(self.conv(x), scale_factor=2.0, mode=self.mode)


add_case("interpolate_signal", lambda: Interpolated(nn.Conv1d(4, 8, 3), "nearest"), normal(2, 4, 12))
add_case("interpolate_bicubic", lambda: Interpolated(nn.Conv2d(3, 8, 3), "bicubic"), IMAGE)
add_case("interpolate_area", lambda: Interpolated(nn.Conv2d(3, 8, 3), "area"), IMAGE)

# ---- onednn: a convolution and an addition in one kernel

OVERWRITTEN = "quantized::conv2d_add writes into its addend, which is read again here"


class Addition(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.last = nn.Conv2d(3, 4, 1)
        self.beside = nn.Conv2d(3, 4, 1)


@case(IMAGE, lowered_difference={"onednn": OVERWRITTEN})
class AddendReadLater(Addition):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.last(self.conv(x) + y) + self.beside(y)


ENLARGED = {"onednn": "section 6: onednn's conv2d_add reads and writes as if the addend had the shape of the convolution's output"}


@case(IMAGE, reference_difference=ENLARGED, lowered_difference=ENLARGED)
class AddendFromPooledInput(Addition):
    """The convolution's output is broadcast."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x + self.conv(F.adaptive_avg_pool2d(x, 1)))


@case(IMAGE, normal(2, 3, 9, 9))
class AddendIsAnInput(Addition):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.last(self.conv(x) + y)


@case(IMAGE, uniform(1, 3, 1, 1), known_difference="section 6: onednn's conv2d_add with a broadcast addend corrupts the heap", engines=("onednn",))
class AddendIsABroadcastInput(Addition):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.last(self.conv(x) + y)


# ---- onednn: functional linear and an activation in one kernel


class LinearPostOp(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16) * 0.2)
        self.leaky = nn.LeakyReLU(0.2)
        self.tanh = nn.Tanh()

    def linear(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


NOT_LOWERED = {"onednn": "section 7: FX matches a functional linear with its activation and does not lower it"}
ROWS = normal(4, 16)


@case(ROWS, lowered_difference=NOT_LOWERED)
class FunctionalLinearLeakyModule(LinearPostOp):
    def forward(self, x: Tensor) -> Tensor:
        return self.leaky(self.linear(x))


@case(ROWS, lowered_difference=NOT_LOWERED)
class FunctionalLinearLeakyFunction(LinearPostOp):
    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(self.linear(x), 0.05)


@case(uniform(4, 16), lowered_difference=NOT_LOWERED)
class FunctionalLinearTanhModule(LinearPostOp):
    def forward(self, x: Tensor) -> Tensor:
        return self.tanh(self.linear(x))


@case(uniform(4, 16), lowered_difference=NOT_LOWERED)
class FunctionalLinearTanhFunction(LinearPostOp):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(x))


# ---- qnnpack with qint8 activations: reference models equal FX's; FX's lowered models cannot run without XNNPACK


SYMMETRIC = dict(
    mapping=lambda engine: _get_symmetric_qnnpack_qconfig_mapping(),
    engines=("qnnpack",),
    float_layers=Excused(2, "qnnpack's kernels take inputs of quint8 alone; XNNPACK's take qint8, which this LibTorch is built without"),
)


def symmetric(name: str, inputs, *layers):
    sequential(name, inputs, *layers, **SYMMETRIC)


symmetric("symmetric_conv_relu", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.ReLU())
symmetric("symmetric_conv_bn_relu_pool", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.BatchNorm2d(8), lambda: nn.ReLU(), lambda: nn.AdaptiveAvgPool2d(1))
symmetric("symmetric_conv1d", normal(2, 4, 12), lambda: nn.Conv1d(4, 8, 3))
symmetric("symmetric_conv_transpose", normal(2, 8, 6, 6), lambda: nn.ConvTranspose2d(8, 4, 3))
symmetric("symmetric_linear", ROWS, lambda: nn.Linear(16, 8), lambda: nn.ReLU(), lambda: nn.Linear(8, 4))
symmetric("symmetric_hardswish", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.Hardswish())


@case(IMAGE, **SYMMETRIC)
class SymmetricResidual(Addition):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.conv(x) + x))
