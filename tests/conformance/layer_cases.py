"""Small cases about one layer or one fusion each: weighted layers, norms, activations, pools."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Excused, add_case, case, integers, normal, sequential, uniform

IMAGE = normal(2, 3, 12, 12)
SIGNAL = normal(2, 4, 20)
VOLUME = normal(2, 3, 6, 8, 8)
ROWS = normal(4, 16)

PADDING_MODE = "section 7: FX's reference convolution ignores padding_mode"

QNNPACK_CLAMP = {"qnnpack": "section 6: qnnpack's clamp, hardtanh and relu6 are wrong on channels-last tensors"}
PRELU = "section 6: quantized::prelu is wrong once a slope's code is above 127"
FIXED_INPUT = dict(
    known_difference="D-37: FX observes a float input of a fixed-qparams operator with the output's range and clips it",
    accept_plain_fx=True,
)

# ---- convolutions as modules

sequential("conv1d", SIGNAL, lambda: nn.Conv1d(4, 8, 3))
sequential("conv1d_stride_dilation", SIGNAL, lambda: nn.Conv1d(4, 8, 3, stride=2, dilation=2, padding=2))
sequential("conv1d_groups_no_bias", SIGNAL, lambda: nn.Conv1d(4, 8, 3, groups=4, bias=False))
sequential("conv1d_relu", SIGNAL, lambda: nn.Conv1d(4, 8, 3), lambda: nn.ReLU())
sequential("conv1d_bn", SIGNAL, lambda: nn.Conv1d(4, 8, 3), lambda: nn.BatchNorm1d(8))
sequential("conv1d_bn_relu", SIGNAL, lambda: nn.Conv1d(4, 8, 3), lambda: nn.BatchNorm1d(8), lambda: nn.ReLU())
sequential("conv2d", IMAGE, lambda: nn.Conv2d(3, 8, 3))
sequential("conv2d_one_by_one", IMAGE, lambda: nn.Conv2d(3, 8, 1))
sequential("conv2d_no_bias", IMAGE, lambda: nn.Conv2d(3, 8, 3, bias=False))
sequential("conv2d_stride_two_dims", IMAGE, lambda: nn.Conv2d(3, 8, (3, 5), stride=(2, 1), padding=(1, 2)))
sequential("conv2d_dilation", IMAGE, lambda: nn.Conv2d(3, 8, 3, dilation=2, padding=2))
sequential("conv2d_groups", normal(2, 8, 10, 10), lambda: nn.Conv2d(8, 16, 3, groups=4))
sequential("conv2d_depthwise", normal(2, 16, 10, 10), lambda: nn.Conv2d(16, 16, 3, padding=1, groups=16))
sequential("conv2d_depthwise_five", normal(2, 16, 10, 10), lambda: nn.Conv2d(16, 16, 5, padding=2, stride=2, groups=16))
sequential("conv2d_padding_same", IMAGE, lambda: nn.Conv2d(3, 8, 3, padding="same"))
sequential("conv2d_padding_same_even_kernel", IMAGE, lambda: nn.Conv2d(3, 8, 4, padding="same"))
sequential("conv2d_padding_valid", IMAGE, lambda: nn.Conv2d(3, 8, 3, padding="valid"))
sequential("conv2d_reflect", IMAGE, lambda: nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect"), reference_difference=PADDING_MODE)
sequential("conv2d_circular", IMAGE, lambda: nn.Conv2d(3, 8, 3, padding=1, padding_mode="circular"), reference_difference=PADDING_MODE)
sequential("conv2d_replicate", IMAGE, lambda: nn.Conv2d(3, 8, 3, padding=1, padding_mode="replicate"), reference_difference=PADDING_MODE)
sequential("conv2d_batch_of_one", normal(1, 3, 12, 12), lambda: nn.Conv2d(3, 8, 3), lambda: nn.Conv2d(8, 4, 1))
sequential("conv2d_without_batch_dimension", normal(3, 12, 12), lambda: nn.Conv2d(3, 8, 3))
sequential("conv2d_relu", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.ReLU())
sequential("conv2d_relu_inplace", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.ReLU(inplace=True))
sequential("conv2d_bn", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.BatchNorm2d(8))
sequential("conv2d_no_bias_bn", IMAGE, lambda: nn.Conv2d(3, 8, 3, bias=False), lambda: nn.BatchNorm2d(8))
sequential("conv2d_bn_not_affine", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.BatchNorm2d(8, affine=False))
sequential("conv2d_bn_relu", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.BatchNorm2d(8), lambda: nn.ReLU())
sequential("conv2d_groups_bn_relu", normal(2, 8, 10, 10), lambda: nn.Conv2d(8, 8, 3, groups=8, bias=False), lambda: nn.BatchNorm2d(8), lambda: nn.ReLU(True))
sequential("conv3d", VOLUME, lambda: nn.Conv3d(3, 4, 3))
sequential("conv3d_relu", VOLUME, lambda: nn.Conv3d(3, 4, 3, padding=1), lambda: nn.ReLU())
sequential("conv3d_bn_relu", VOLUME, lambda: nn.Conv3d(3, 4, (1, 3, 3)), lambda: nn.BatchNorm3d(4), lambda: nn.ReLU())
sequential("conv3d_bn", VOLUME, lambda: nn.Conv3d(3, 4, 3, stride=2), lambda: nn.BatchNorm3d(4))
sequential("conv_chain", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.ReLU(), lambda: nn.Conv2d(8, 16, 3, stride=2), lambda: nn.ReLU(), lambda: nn.Conv2d(16, 4, 1))

VOLUME_TRANSPOSED = "section 6: qnnpack's conv_transpose3d returns garbage"
OUTPUT_PADDING = "oneDNN has no transposed convolution with output padding"

# ---- transposed convolutions (equal channels: section 6 lists kernels that are wrong otherwise)

sequential("conv_transpose1d", normal(2, 8, 12), lambda: nn.ConvTranspose1d(8, 8, 3))
sequential("conv_transpose2d", normal(2, 8, 8, 8), lambda: nn.ConvTranspose2d(8, 8, 3, padding=1))
sequential("conv_transpose2d_stride", normal(2, 8, 8, 8), lambda: nn.ConvTranspose2d(8, 8, 3, stride=2, padding=1, output_padding=1), float_layers={"onednn": Excused(1, OUTPUT_PADDING)})
sequential("conv_transpose2d_no_bias", normal(2, 8, 8, 8), lambda: nn.ConvTranspose2d(8, 8, 3, bias=False))
sequential("conv_transpose2d_bn", normal(2, 8, 8, 8), lambda: nn.ConvTranspose2d(8, 8, 3), lambda: nn.BatchNorm2d(8))
sequential("conv_transpose2d_relu", normal(2, 8, 8, 8), lambda: nn.ConvTranspose2d(8, 8, 3), lambda: nn.ReLU())
sequential("conv_then_conv_transpose", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.ReLU(), lambda: nn.ConvTranspose2d(8, 8, 3), lambda: nn.Conv2d(8, 4, 1))
sequential("conv_transpose3d", normal(2, 4, 4, 6, 6), lambda: nn.ConvTranspose3d(4, 4, 3), lowered_difference={"qnnpack": VOLUME_TRANSPOSED}, float_layers={"qnnpack": Excused(1, VOLUME_TRANSPOSED)})

# ---- linear

sequential("linear", ROWS, lambda: nn.Linear(16, 8))
sequential("linear_no_bias", ROWS, lambda: nn.Linear(16, 8, bias=False))
sequential("linear_relu", ROWS, lambda: nn.Linear(16, 8), lambda: nn.ReLU())
sequential("linear_bn", ROWS, lambda: nn.Linear(16, 8), lambda: nn.BatchNorm1d(8))
sequential("linear_bn_relu", ROWS, lambda: nn.Linear(16, 8), lambda: nn.BatchNorm1d(8), lambda: nn.ReLU())
sequential("linear_three_dims", normal(2, 5, 16), lambda: nn.Linear(16, 8), lambda: nn.Linear(8, 4))
sequential("linear_one_row", normal(16), lambda: nn.Linear(16, 8))
sequential("mlp", ROWS, lambda: nn.Linear(16, 32), lambda: nn.ReLU(), lambda: nn.Dropout(0.5), lambda: nn.Linear(32, 8), lambda: nn.Sigmoid())
sequential("mlp_with_identity", ROWS, lambda: nn.Linear(16, 32), lambda: nn.Identity(), lambda: nn.Linear(32, 8))
sequential("linear_leaky_relu", ROWS, lambda: nn.Linear(16, 8), lambda: nn.LeakyReLU(0.1))
sequential("linear_tanh", ROWS, lambda: nn.Linear(16, 8), lambda: nn.Tanh())
sequential("linear_bn_leaky_relu", ROWS, lambda: nn.Linear(16, 8), lambda: nn.BatchNorm1d(8), lambda: nn.LeakyReLU(0.1))
sequential("linear_of_positive_input", uniform(4, 16), lambda: nn.Linear(16, 8))

# ---- an activation, norm or pool between two convolutions


def between(name: str, middle, **options) -> None:
    """conv, `middle`, conv."""
    sequential(f"conv_{name}_conv", IMAGE, lambda: nn.Conv2d(3, 8, 3, padding=1), middle, lambda: nn.Conv2d(8, 4, 1), **options)


between("hardswish", lambda: nn.Hardswish())
between("elu", lambda: nn.ELU(0.7))
between("leaky_relu", lambda: nn.LeakyReLU(0.2))
between("prelu", lambda: nn.PReLU(), lowered_difference=PRELU)
between("prelu_per_channel", lambda: nn.PReLU(8), lowered_difference=PRELU)
between("sigmoid", lambda: nn.Sigmoid())
between("tanh", lambda: nn.Tanh())
between("hardsigmoid", lambda: nn.Hardsigmoid())
between("softmax", lambda: nn.Softmax(dim=1))
between("hardtanh", lambda: nn.Hardtanh(-0.5, 0.8), lowered_difference=QNNPACK_CLAMP)
between("relu6", lambda: nn.ReLU6(), lowered_difference=QNNPACK_CLAMP)
between("relu6_inplace", lambda: nn.ReLU6(inplace=True), lowered_difference=QNNPACK_CLAMP)
between("gelu", lambda: nn.GELU())
between("silu", lambda: nn.SiLU())
between("mish", lambda: nn.Mish())
between("celu", lambda: nn.CELU())
between("softplus", lambda: nn.Softplus())
between("log_softmax", lambda: nn.LogSoftmax(dim=1))
between("identity", lambda: nn.Identity())
between("dropout", lambda: nn.Dropout(0.3))
between("dropout2d", lambda: nn.Dropout2d(0.3))
between("batch_norm", lambda: nn.Sequential(nn.Identity(), nn.BatchNorm2d(8)))
between("batch_norm_relu", lambda: nn.Sequential(nn.MaxPool2d(2), nn.BatchNorm2d(8), nn.ReLU()))
between("layer_norm", lambda: nn.LayerNorm((8, 12, 12)))
between("layer_norm_not_affine", lambda: nn.LayerNorm((12, 12), elementwise_affine=False))
between("group_norm", lambda: nn.GroupNorm(2, 8))
between("instance_norm", lambda: nn.InstanceNorm2d(8))
between("instance_norm_affine", lambda: nn.InstanceNorm2d(8, affine=True))
between("max_pool", lambda: nn.MaxPool2d(2))
between("max_pool_ceil", lambda: nn.MaxPool2d(3, 2, padding=1, ceil_mode=True))
between("avg_pool", lambda: nn.AvgPool2d(2))
between(
    "avg_pool_without_padding_count",
    lambda: nn.AvgPool2d(3, 2, padding=1, count_include_pad=False),
    lowered_difference={"qnnpack": "section 6: qnnpack's avg_pool2d is wrong with count_include_pad=False"},
)
between("adaptive_avg_pool", lambda: nn.AdaptiveAvgPool2d((4, 5)))
between("adaptive_max_pool", lambda: nn.AdaptiveMaxPool2d(4))
between("zero_pad", lambda: nn.ZeroPad2d((0, 1, 0, 1)))
between("reflection_pad", lambda: nn.ReflectionPad2d(1))
between("upsample", lambda: nn.Upsample(scale_factor=2.0, mode="nearest"))
between("upsample_bilinear", lambda: nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=False))
sequential("conv_pixel_shuffle_conv", IMAGE, lambda: nn.Conv2d(3, 8, 3), lambda: nn.PixelShuffle(2), lambda: nn.Conv2d(2, 4, 1))
sequential("conv_pixel_unshuffle_conv", IMAGE, lambda: nn.Conv2d(3, 2, 3), lambda: nn.PixelUnshuffle(2), lambda: nn.Conv2d(8, 4, 1))
sequential("conv1d_max_pool1d", SIGNAL, lambda: nn.Conv1d(4, 8, 3), lambda: nn.MaxPool1d(2), lambda: nn.Conv1d(8, 4, 1))
sequential("conv1d_avg_pool1d", SIGNAL, lambda: nn.Conv1d(4, 8, 3), lambda: nn.AvgPool1d(2), lambda: nn.Conv1d(8, 4, 1))
sequential("conv1d_adaptive_avg_pool1d", SIGNAL, lambda: nn.Conv1d(4, 8, 3), lambda: nn.AdaptiveAvgPool1d(5), lambda: nn.Conv1d(8, 4, 1))
sequential("conv3d_pools", VOLUME, lambda: nn.Conv3d(3, 4, 3, padding=1), lambda: nn.MaxPool3d(2), lambda: nn.AdaptiveAvgPool3d((2, 2, 2)), lambda: nn.Conv3d(4, 4, 1))
sequential("conv3d_avg_pool3d", VOLUME, lambda: nn.Conv3d(3, 4, 3, padding=1), lambda: nn.AvgPool3d(2), lambda: nn.Conv3d(4, 4, 1))
sequential("linear_layer_norm_linear", ROWS, lambda: nn.Linear(16, 12), lambda: nn.LayerNorm(12), lambda: nn.Linear(12, 4))
sequential("linear_batch_norm1d_after_relu", ROWS, lambda: nn.Linear(16, 12), lambda: nn.ReLU(), lambda: nn.BatchNorm1d(12), lambda: nn.Linear(12, 4))
sequential("flatten_module", IMAGE, lambda: nn.Conv2d(3, 4, 3), lambda: nn.AdaptiveAvgPool2d(1), lambda: nn.Flatten(), lambda: nn.Linear(4, 4))

# ---- an operator alone, on a float input

sequential("batch_norm2d_alone", normal(2, 6, 8, 8), lambda: nn.BatchNorm2d(6))
sequential("batch_norm2d_relu_alone", normal(2, 6, 8, 8), lambda: nn.BatchNorm2d(6), lambda: nn.ReLU())
sequential("batch_norm3d_relu_alone", normal(2, 4, 4, 6, 6), lambda: nn.BatchNorm3d(4), lambda: nn.ReLU())
sequential("batch_norm1d_alone", normal(4, 6, 8), lambda: nn.BatchNorm1d(6))
sequential("hardswish_alone", IMAGE, lambda: nn.Hardswish())
sequential("elu_alone", IMAGE, lambda: nn.ELU())
sequential("leaky_relu_alone", IMAGE, lambda: nn.LeakyReLU())
sequential("prelu_alone", IMAGE, lambda: nn.PReLU(3), lowered_difference=PRELU)
sequential("relu_alone", IMAGE, lambda: nn.ReLU())
sequential("relu6_alone", IMAGE, lambda: nn.ReLU6())
sequential("sigmoid_alone", IMAGE, lambda: nn.Sigmoid(), **FIXED_INPUT)
sequential("tanh_alone", IMAGE, lambda: nn.Tanh(), **FIXED_INPUT)
sequential("softmax_alone", ROWS, lambda: nn.Softmax(dim=-1), **FIXED_INPUT)
sequential("max_pool_alone", IMAGE, lambda: nn.MaxPool2d(2))
sequential("layer_norm_alone", ROWS, lambda: nn.LayerNorm(16))
sequential("instance_norm1d_alone", SIGNAL, lambda: nn.InstanceNorm1d(4))
sequential("instance_norm3d_alone", VOLUME, lambda: nn.InstanceNorm3d(3))
sequential("dropout_alone", ROWS, lambda: nn.Dropout(0.1))
sequential("identity_alone", ROWS, lambda: nn.Identity())

# ---- functional forms with the user's own parameters


@case(IMAGE)
class FunctionalConv2d(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 3, 3, 3) * 0.2)
        self.bias = nn.Parameter(torch.randn(8) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, (1, 1), (1, 1), (1, 1), 1)


@case(IMAGE)
class FunctionalConv2dRelu(FunctionalConv2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(F.conv2d(x, self.weight, self.bias, (2, 2), (1, 1), (1, 1), 1))


@case(IMAGE)
class FunctionalConv2dDefaults(FunctionalConv2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias)


@case(IMAGE)
class FunctionalConv2dNoBias(FunctionalConv2d):
    def __init__(self):
        super().__init__()
        self.bias = None

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, None, (1, 1), (1, 1), (1, 1), 1)


@case(SIGNAL)
class FunctionalConv1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 4, 3) * 0.3)
        self.bias = nn.Parameter(torch.randn(8) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(F.conv1d(x, self.weight, self.bias, 1, 1, 1, 1))


@case(VOLUME)
class FunctionalConv3d(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3, 3, 3, 3) * 0.2)
        self.bias = nn.Parameter(torch.randn(4) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv3d(x, self.weight, self.bias, (1, 1, 1), (1, 1, 1), (1, 1, 1), 1)


@case(ROWS)
class FunctionalLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16) * 0.3)
        self.bias = nn.Parameter(torch.randn(8) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


@case(ROWS)
class FunctionalLinearNoBias(FunctionalLinear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


@case(ROWS)
class FunctionalLinearRelu(FunctionalLinear):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(F.linear(x, self.weight, self.bias))


@case(ROWS)
class FunctionalLinearReluModule(FunctionalLinear):
    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(F.linear(x, self.weight, self.bias))


@case(ROWS)
class FunctionalLinearOfAnotherModule(nn.Module):
    """The weight belongs to a sub-module, the call to the root (B-14)."""

    def __init__(self):
        super().__init__()
        self.holder = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.holder.weight, self.holder.bias)


@case(ROWS)
class TwoFunctionalLinears(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = FunctionalLinear()
        self.weight = nn.Parameter(torch.randn(4, 8) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.first(x), self.weight)


@case(normal(2, 8, 8, 8), float_layers={"onednn": Excused(1, "no engine takes weights with a scale a channel in functional transposed convolutions")})
class FunctionalConvTranspose2d(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8, 3, 3) * 0.2)
        self.bias = nn.Parameter(torch.randn(8) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv_transpose2d(x, self.weight, self.bias, (1, 1), (0, 0), (0, 0), 1, (1, 1))


@case(ROWS)
class FunctionalLayerNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 8)
        self.weight = nn.Parameter(torch.rand(8) + 0.5)
        self.bias = nn.Parameter(torch.randn(8) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(self.fc(x), [8], self.weight, self.bias)


# ---- functional forms of activations and pools after a convolution


class AfterConv(nn.Module):
    """conv, `tail`, conv."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.tail(self.conv(x)))

    def tail(self, x: Tensor) -> Tensor:
        return F.relu(x)


def after_conv(**options):
    return case(IMAGE, **options)


@after_conv()
class ConvReluFunction(AfterConv):
    pass


@after_conv()
class ConvReluFunctionInplace(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.relu(x, inplace=True)


@after_conv()
class ConvReluMethod(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return x.relu()


@after_conv()
class ConvTorchRelu(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return torch.relu(x)


@after_conv(known_difference="section 7: FX loses the result of relu_", fx_model=ConvReluMethod)
class ConvReluInplaceMethod(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        x.relu_()
        return x


@after_conv()
class ConvHardswishFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.hardswish(x)


@after_conv()
class ConvEluFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.elu(x, 0.9)


@after_conv()
class ConvLeakyReluFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, 0.1)


@after_conv()
class ConvHardsigmoidFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.hardsigmoid(x)


@after_conv()
class ConvSigmoidFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x)


@after_conv()
class ConvSigmoidMethod(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return x.sigmoid()


@after_conv()
class ConvTanhFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return torch.tanh(x)


@after_conv(lowered_difference=QNNPACK_CLAMP)
class ConvHardtanhFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.hardtanh(x, -0.5, 0.5)


@after_conv(lowered_difference=QNNPACK_CLAMP)
class ConvRelu6Function(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.relu6(x)


@after_conv(lowered_difference=QNNPACK_CLAMP)
class ConvClampFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return torch.clamp(x, -0.4, 0.6)


@after_conv(lowered_difference=QNNPACK_CLAMP)
class ConvClampMethod(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return x.clamp(min=-0.4, max=0.6)


@after_conv(
    known_difference="2.8: aten::softmax may take nn.Softmax's row",
    fx_model=lambda: SoftmaxAsModule(),
    accept_plain_fx=True,
)
class ConvSoftmaxFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.softmax(x, dim=1)


class SoftmaxAsModule(AfterConv):
    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(dim=1)

    def tail(self, x: Tensor) -> Tensor:
        return self.softmax(x)


@after_conv()
class ConvGeluFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.gelu(x)


@after_conv()
class ConvSiluFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.silu(x)


@after_conv()
class ConvDropoutFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.2, False)


@after_conv()
class ConvMaxPoolFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x, 2)


@after_conv(known_difference="2.8: aten::max_pool2d has one spelling in TorchScript", fx_model=ConvMaxPoolFunction, accept_plain_fx=True)
class ConvTorchMaxPool(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return torch.max_pool2d(x, 2)


@after_conv()
class ConvAvgPoolFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 3, 1, 1)


@after_conv()
class ConvAdaptivePoolFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x, (3, 3))


@after_conv()
class ConvInterpolateFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2.0, mode="nearest")


@after_conv()
class ConvInterpolateBilinear(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.interpolate(x, size=[7, 9], mode="bilinear", align_corners=False)


@after_conv()
class ConvInstanceNormFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.instance_norm(x)


@after_conv()
class ConvPadFunction(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return F.pad(x, [1, 1, 1, 1])


@after_conv()
class ConvMeanKeepdim(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return torch.mean(x, [2, 3], keepdim=True)


@after_conv()
class ConvMeanMethod(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return x.mean([2, 3], True)


@after_conv()
class ConvContiguousDetach(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return x.contiguous().detach()


@after_conv()
class ConvSumDiv(AfterConv):
    def tail(self, x: Tensor) -> Tensor:
        return x / (x.abs().sum(dim=1, keepdim=True) + 1.0)


# ---- embeddings


@case(integers(50, 3, 7))
class EmbeddingLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.fc = nn.Linear(16, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(self.embedding(ids))


@case(integers(50, 3, 7))
class EmbeddingFunctionLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(50, 16))
        self.fc = nn.Linear(16, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(F.embedding(ids, self.table))


add_case("single_linear_root", lambda: nn.Linear(16, 8), ROWS, source=__file__)
add_case("single_conv_root", lambda: nn.Conv2d(3, 8, 3), IMAGE, source=__file__)
