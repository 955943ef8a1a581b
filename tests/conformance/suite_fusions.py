"""Every fusion in every spelling: convolutions, linear layers and batch norms with what follows them."""

import functools
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.jit import Final

from case import Excused, add_case, case, normal

SIGNAL = normal(2, 4, 20)
IMAGE = normal(2, 4, 10, 10)
VOLUME = normal(2, 4, 5, 6, 6)
ROWS = normal(4, 16)
INPUTS = {1: SIGNAL, 2: IMAGE, 3: VOLUME}

CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
RELU_SPELLINGS = ("module", "module_inplace", "function", "function_inplace", "torch", "method")
RELU = "2.8: aten::relu has one spelling in TorchScript; conv and relu are fused for each of them"


class Layers(nn.Module):
    """Up to two modules, then a ReLU in one of its spellings."""

    spelling: Final[str]

    def __init__(self, *layers: nn.Module, spelling: str = "none"):
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.relu = nn.ReLU(spelling == "module_inplace")
        self.spelling = spelling

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(x)
        if self.spelling == "module" or self.spelling == "module_inplace":
            return self.relu(x)
        elif self.spelling == "function":
            return F.relu(x)
        elif self.spelling == "function_inplace":
            return F.relu(x, inplace=True)
        elif self.spelling == "torch":
            return torch.relu(x)
        elif self.spelling == "method":
            return x.relu()
        return x


def spellings_of(name: str, inputs, layers) -> None:
    """A case for each spelling of the ReLU after `layers`, which makes fresh modules."""
    for spelling in RELU_SPELLINGS:
        add_case(f"{name}_relu_{spelling}", lambda spelling=spelling: Layers(*layers(), spelling=spelling), inputs, source=__file__)


for dim in (1, 2, 3):
    spellings_of(f"fuse_conv{dim}d", INPUTS[dim], lambda dim=dim: (CONV[dim](4, 6, 3),))
    spellings_of(f"fuse_conv{dim}d_bn", INPUTS[dim], lambda dim=dim: (CONV[dim](4, 6, 2, bias=dim == 2), NORM[dim](6)))
    spellings_of(f"fuse_bn{dim}d", INPUTS[dim], lambda dim=dim: (NORM[dim](4),))
spellings_of("fuse_linear", ROWS, lambda: (nn.Linear(16, 6),))
spellings_of("fuse_linear_bn", ROWS, lambda: (nn.Linear(16, 6), nn.BatchNorm1d(6)))


class ReluAttribute(nn.Module):
    """The activation is a function that the module holds."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer
        self.relu = F.relu

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.layer(x))


add_case("fuse_conv2d_relu_function_attribute", lambda: ReluAttribute(nn.Conv2d(4, 4, 3)), IMAGE, source=__file__)
add_case("fuse_linear_relu_function_attribute", lambda: ReluAttribute(nn.Linear(16, 4)), ROWS, source=__file__)


# ---- functional layers


class FunctionalLayer(nn.Module):
    """F.conv1d, conv2d, conv3d or linear on tensors that are plain attributes, then a ReLU or an Identity."""

    kind: Final[str]
    spelling: Final[str]

    def __init__(self, kind: str, has_bias: bool, spelling: str):
        super().__init__()
        dims = {"conv1d": 1, "conv2d": 2, "conv3d": 3, "linear": 0}[kind]
        self.w = torch.randn((6, 16) if kind == "linear" else (6, 4) + (3,) * dims) * 0.3
        self.b = torch.randn(6) if has_bias else None
        self.relu = nn.ReLU() if spelling == "module" else nn.Identity()
        self.kind = kind
        self.spelling = spelling

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "linear":
            x = F.linear(x, self.w, self.b)
        elif self.kind == "conv1d":
            x = F.conv1d(x, self.w, self.b, 1, 0, 1, 1)
        elif self.kind == "conv2d":
            x = F.conv2d(x, self.w, self.b, (1, 1), (0, 0), (1, 1), 1)
        else:
            x = F.conv3d(x, self.w, self.b, (1, 1, 1), (0, 0, 0), (1, 1, 1), 1)
        if self.spelling == "function":
            return F.relu(x)
        return self.relu(x)


for kind, inputs in (("conv1d", SIGNAL), ("conv2d", IMAGE), ("conv3d", VOLUME), ("linear", ROWS)):
    for has_bias in (True, False):
        for spelling in ("none", "module", "function"):
            name = f"functional_{kind}_{'bias' if has_bias else 'no_bias'}_relu_{spelling}"
            add_case(name, functools.partial(FunctionalLayer, kind, has_bias, spelling), inputs, source=__file__)


@case(IMAGE)
class FunctionalConv2dKeywords(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 2, 3, 3) * 0.3)
        self.bias = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, bias=self.bias, stride=(2, 1), padding=(1, 1), dilation=(1, 1), groups=2)


PER_CHANNEL = {"onednn": Excused(1, "no engine takes weights with a scale a channel in functional transposed convolutions")}


@case(IMAGE, float_layers=PER_CHANNEL)
class FunctionalConvTranspose2dKeywords(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 3, 3) * 0.3)
        self.bias = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv_transpose2d(
            x, self.weight, self.bias, stride=(1, 1), padding=(0, 0), output_padding=(0, 0), groups=1, dilation=(1, 1)
        )


@case(SIGNAL, float_layers=PER_CHANNEL)
class FunctionalConvTranspose1dRelu(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 3) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(F.conv_transpose1d(x, self.weight, None, (2,), (1,), (0,), 1, (1,)))


@case(ROWS)
class FunctionalLinearKeywords(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 16) * 0.3)
        self.bias = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, weight=self.weight, bias=self.bias)


@case(ROWS)
class FunctionalLinearInputKeyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 16) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(input=x, weight=self.weight, bias=None)


@case(ROWS)
class FunctionalLinearsInSubmodules(nn.Module):
    """The same class three times, twice in a Sequential; a ReLU after the last."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.ones(16, 16)
            self.b = torch.zeros(16)

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, self.w, self.b)

    def __init__(self):
        super().__init__()
        self.mods1 = nn.Sequential(self.Layer(), self.Layer())
        self.mods2 = self.Layer()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.mods2(self.mods1(x)))


# ---- several layers at once


@case(normal(2, 4, 12))
class OneReluForAll(nn.Module):
    """conv-relu, conv-bn-relu, bn-relu and linear-relu that share one ReLU module."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3)
        self.second = nn.Conv1d(4, 4, 3, padding=1)
        self.bn = nn.BatchNorm1d(4)
        self.image = nn.Conv2d(4, 4, (1, 3))
        self.alone = nn.BatchNorm2d(4)
        self.fc = nn.Linear(8, 5)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.conv(x))
        x = self.relu(self.bn(self.second(x)))
        x = self.relu(self.image(x.unsqueeze(2)))
        x = self.relu(self.alone(x))
        return self.relu(self.fc(x))


@case(VOLUME)
class EveryConvBnRelu(nn.Module):
    """conv-bn and conv-bn-relu of all dimensions in one network."""

    def __init__(self):
        super().__init__()
        self.conv3 = nn.Conv3d(4, 4, 2)
        self.bn3 = nn.BatchNorm3d(4)
        self.conv2 = nn.Conv2d(4, 4, 2)
        self.bn2 = nn.BatchNorm2d(4)
        self.conv1 = nn.Conv1d(4, 4, 2)
        self.bn1 = nn.BatchNorm1d(4)
        self.last = nn.Conv1d(4, 4, 2)
        self.last_bn = nn.BatchNorm1d(4)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn3(self.conv3(x)))
        x = self.bn2(self.conv2(torch.flatten(x, 2, 3)))
        x = self.relu(self.bn1(self.conv1(torch.flatten(x, 2))))
        return self.last_bn(self.last(x))


class LinearReluSequential(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(16, 16), nn.ReLU())


@case(ROWS)
class LinearReluThenLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin_relu = LinearReluSequential()
        self.linear = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.lin_relu(x))


@case(IMAGE)
class BatchNormReadTwice(nn.Module):
    """Neither fusion may take a batch norm or a convolution that something else reads too."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        normed = self.bn(self.conv(x))
        return self.relu(normed) + normed


# ---- transposed convolutions

TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
for dim in (1, 2):
    spellings_of(f"fuse_conv_transpose{dim}d", INPUTS[dim], lambda dim=dim: (TRANSPOSED[dim](4, 4, 3),))
    spellings_of(f"fuse_conv_transpose{dim}d_bn", INPUTS[dim], lambda dim=dim: (TRANSPOSED[dim](4, 4, 3, bias=False), NORM[dim](4)))
add_case("conv_transpose1d_of_one_channel", lambda: nn.Sequential(nn.ConvTranspose1d(1, 1, 1)), normal(4, 1, 4), source=__file__)
add_case("conv_transpose2d_of_one_channel", lambda: nn.Sequential(nn.ConvTranspose2d(1, 1, 1)), normal(4, 1, 4, 4), source=__file__)


# ---- linear with leaky_relu and tanh (onednn fuses them), and what is near them


class LinearThen(nn.Module):
    activation: Final[str]

    def __init__(self, activation: str, has_bias: bool, has_bn: bool):
        super().__init__()
        self.linear = nn.Linear(16, 8, bias=has_bias)
        self.bn: Optional[nn.BatchNorm1d] = nn.BatchNorm1d(8) if has_bn else None
        self.leaky = nn.LeakyReLU(0.05, inplace=activation == "leaky_module_inplace")
        self.tanh = nn.Tanh()
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        if self.bn is not None:
            x = self.bn(x)
        if self.activation == "leaky_module" or self.activation == "leaky_module_inplace":
            return self.leaky(x)
        elif self.activation == "leaky_function":
            return F.leaky_relu(x, 0.2)
        elif self.activation == "leaky_function_default":
            return F.leaky_relu(x)
        elif self.activation == "leaky_function_inplace":
            return F.leaky_relu(x, 0.1, inplace=True)
        elif self.activation == "tanh_module":
            return self.tanh(x)
        elif self.activation == "tanh_function":
            return torch.tanh(x)
        return x.tanh()


for activation in (
    "leaky_module",
    "leaky_module_inplace",
    "leaky_function",
    "leaky_function_default",
    "leaky_function_inplace",
    "tanh_module",
    "tanh_function",
    "tanh_method",
):
    for has_bn in (False, True):
        name = f"linear_{'bn_' if has_bn else ''}{activation}"
        add_case(name, functools.partial(LinearThen, activation, True, has_bn), ROWS, source=__file__)
add_case("linear_no_bias_leaky_module", functools.partial(LinearThen, "leaky_module", False, False), ROWS, source=__file__)
add_case("linear_no_bias_tanh_module", functools.partial(LinearThen, "tanh_module", False, False), ROWS, source=__file__)


@case(ROWS)
class LinearLeakyLinearTanh(nn.Module):
    """Both fusions in a row, the second with a second reader."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 12)
        self.leaky = nn.LeakyReLU(0.3)
        self.second = nn.Linear(12, 12)
        self.tanh = nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        x = self.leaky(self.first(x))
        y = self.tanh(self.second(x))
        return y + x
