"""Convolutions, batch norms, additions and ReLUs in every order that onednn fuses, and near ones that it does not."""

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.jit import Final

from case import add_case, case, normal

IMAGE = normal(2, 4, 8, 8)


class ConvAdd(nn.Module):
    """conv [bn] + other [relu], the convolution left or right of the plus."""

    order: Final[str]
    other: Final[str]
    add: Final[str]
    relu_as: Final[str]

    def __init__(self, order: str, other: str, add: str, relu_as: str, has_bn: bool):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4) if has_bn else nn.Identity()
        self.pool = nn.MaxPool2d(3, 1, 1)
        self.conv2 = nn.Conv2d(4, 4, 1)
        self.bn2 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.order = order
        self.other = other
        self.add = add
        self.relu_as = relu_as
        self.has_bn = has_bn

    has_bn: Final[bool]

    def forward(self, x: Tensor) -> Tensor:
        y = x
        if self.other == "pool":
            y = self.pool(x)
        elif self.other == "conv":
            y = self.conv2(x)
        elif self.other == "conv_bn":
            y = self.bn2(self.conv2(x))
        elif self.other == "conv_relu":
            y = self.relu(self.conv2(x))
        x = self.conv(x)
        if self.has_bn:
            x = self.bn(x)
        if self.order == "right":
            x, y = y, x
        if self.add == "operator":
            x = x + y
        elif self.add == "function":
            x = torch.add(x, y)
        elif self.add == "inplace":
            x += y
        else:
            x = x.add(y)
        if self.relu_as == "module":
            x = self.relu(x)
        elif self.relu_as == "function":
            x = F.relu(x)
        elif self.relu_as == "torch":
            x = torch.relu(x)
        return x


def conv_add(order: str, other: str, add: str = "operator", relu_as: str = "none", has_bn: bool = False) -> None:
    name = f"conv_{'bn_' if has_bn else ''}add_{order}_of_{other}_{add}_relu_{relu_as}"
    add_case(name, functools.partial(ConvAdd, order, other, add, relu_as, has_bn), IMAGE, source=__file__)


for order in ("left", "right"):
    for relu_as in ("none", "module"):
        for has_bn in (False, True):
            for other in ("input", "pool", "conv", "conv_bn", "conv_relu"):
                conv_add(order, other, relu_as=relu_as, has_bn=has_bn)
    for add in ("function", "inplace", "method"):
        conv_add(order, "pool", add)
        conv_add(order, "conv_relu", add, "module", True)
    for relu_as in ("function", "torch"):
        conv_add(order, "pool", relu_as=relu_as)
        conv_add(order, "conv", relu_as=relu_as, has_bn=True)


@case(IMAGE, normal(2, 4, 8, 8))
class ConvBnAddOfSecondInput(nn.Module):
    """The addend is a graph input, and is read once more."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.relu(self.bn(self.conv(x)) + y) * y


@case(IMAGE, lowered_difference={"onednn": "section 6: conv2d_add overwrites its addend, which FX reads again"})
class ConvAddChain(nn.Module):
    """Each addition's result is the next one's addend."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(4, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.third = nn.Conv2d(4, 4, 3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.first(x) + x)
        x = self.second(x) + x
        return self.relu(x + self.third(x))


@case(IMAGE)
class ConvReadTwiceThenAdded(nn.Module):
    """The convolution's result has a second reader: no fusion."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.pool = nn.AvgPool2d(3, 1, 1)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.relu(y + self.pool(y))


@case(IMAGE)
class ConvAddOfHalfTheChannels(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 2, 3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, 1)
        return self.relu(self.conv(x) + a) + b


@case(IMAGE)
class Conv1dAddRelu(nn.Module):
    """onednn's rows speak of Conv2d only."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(32, 32, 3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = torch.flatten(x, 1, 2)
        return self.relu(self.conv(x) + x)


@case(IMAGE)
class LinearAddRelu(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.linear(x) + x)


@case(IMAGE)
class MixedResiduals(nn.Module):
    """A network of residual blocks in mixed spellings, with a projection and an excitation."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 3, padding=1, bias=False)
            self.bn = nn.BatchNorm2d(4)
            self.relu = nn.ReLU(inplace=True)
            self.project = nn.Conv2d(4, 4, 1, bias=False)
            self.project_bn = nn.BatchNorm2d(4)

        def forward(self, x: Tensor) -> Tensor:
            out = self.bn(self.conv(x))
            out += self.project_bn(self.project(x))
            return self.relu(out)

    def __init__(self):
        super().__init__()
        self.first = self.Block()
        self.second = self.Block()
        self.squeeze = nn.AdaptiveAvgPool2d(1)
        self.excite = nn.Conv2d(4, 4, 1)
        self.gate = nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(self.first(x)) + x
        return x * self.gate(self.excite(self.squeeze(x)))
