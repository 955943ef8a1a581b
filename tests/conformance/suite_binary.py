"""Two-input operators: operator, inplace, function; tensors and scalars on either side; with and without ReLU."""

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.jit import Final

from case import add_case, case, normal

IMAGE = normal(2, 3, 6, 6)
ROWS = normal(4, 8)
OVERWRITTEN = "section 6: onednn's quantized::conv2d_add adds into its addend, which is read once more here"


class Binary(nn.Module):
    """op(x, y) then op(y, x), each with a ReLU after it if asked for; y is a tensor or the number 3."""

    op: Final[str]
    spelling: Final[str]
    relu_as: Final[str]
    is_scalar: Final[bool]
    has_convs: Final[bool]

    def __init__(self, op: str, spelling: str, relu_as: str, is_scalar: bool, has_convs: bool):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 3, 1)
        self.conv2 = nn.Conv2d(3, 3, 1)
        self.relu = nn.ReLU()
        self.op = op
        self.spelling = spelling
        self.relu_as = relu_as
        self.is_scalar = is_scalar
        self.has_convs = has_convs

    def tensors(self, x: Tensor, y: Tensor) -> Tensor:
        if self.op == "add":
            if self.spelling == "inplace":
                x += y
                return x
            elif self.spelling == "function":
                return torch.add(x, y)
            return x + y
        elif self.op == "sub":
            if self.spelling == "inplace":
                x -= y
                return x
            elif self.spelling == "function":
                return torch.sub(x, y)
            return x - y
        elif self.op == "div":
            if self.spelling == "function":
                return torch.div(x, y)
            return x / y
        if self.spelling == "inplace":
            x *= y
            return x
        elif self.spelling == "function":
            return torch.mul(x, y)
        return x * y

    def scalar(self, x: Tensor) -> Tensor:
        if self.op == "add":
            if self.spelling == "inplace":
                x += 3
                return x
            elif self.spelling == "function":
                return torch.add(x, 3)
            return x + 3
        elif self.op == "sub":
            return x - 3
        elif self.op == "div":
            return x / 3
        if self.spelling == "inplace":
            x *= 3
            return x
        elif self.spelling == "function":
            return torch.mul(x, 3)
        return x * 3

    def activation(self, x: Tensor) -> Tensor:
        if self.relu_as == "module":
            return self.relu(x)
        elif self.relu_as == "function":
            return F.relu(x)
        elif self.relu_as == "torch":
            return torch.relu(x)
        return x

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if self.has_convs:
            x = self.conv1(x)
        if self.is_scalar:
            x = self.activation(self.scalar(x))
            return self.activation(self.scalar(x))
        if self.has_convs:
            y = self.conv2(y)
        x = self.activation(self.tensors(x, y))
        return self.activation(self.tensors(y, x))


def binary(op: str, spelling: str, relu_as: str, is_scalar: bool, has_convs: bool, **options) -> None:
    words = ["binary", op, spelling, "scalar" if is_scalar else "tensors", "of_convs" if has_convs else "of_inputs"]
    name = "_".join(words + ([] if relu_as == "none" else ["relu", relu_as]))
    model = functools.partial(Binary, op, spelling, relu_as, is_scalar, has_convs)
    if op == "add" and has_convs and not is_scalar:
        options["lowered_difference"] = {"onednn": OVERWRITTEN}
    add_case(name, model, IMAGE, IMAGE, source=__file__, **options)


for op in ("add", "mul"):
    for spelling in ("operator", "inplace", "function"):
        for is_scalar in (False, True):
            binary(op, spelling, "none", is_scalar, has_convs=True)
            for relu_as in ("module", "function", "torch"):
                binary(op, spelling, relu_as, is_scalar, has_convs=True)
    for spelling in ("operator", "function"):
        for is_scalar in (False, True):
            binary(op, spelling, "none", is_scalar, has_convs=False)
for op in ("sub", "div"):
    binary(op, "operator", "none", False, has_convs=True)
    binary(op, "operator", "module", True, has_convs=True)


@case(ROWS)
class SubScalars(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x + 1
        x = x - 1
        x = x + 3
        return x - 4


@case(ROWS)
class ScalarOnTheLeft(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.last = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = 2.5 + self.fc(x)
        x = 3 * x
        return self.last(1.0 - x)


@case(ROWS)
class AddThenAddToItself(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 8)
        self.fc2 = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc2(self.fc1(x))
        x = torch.add(x, x)
        return torch.add(x, x)


@case(ROWS)
class MulToItself(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(x)
        return F.relu(x * x)


@case(IMAGE, normal(3, 1, 1))
class BroadcastMulAdd(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.conv(x)
        return x * y + y


@case(ROWS)
class FloatFunctionals(nn.Module):
    """torch.ao.nn.quantized.FloatFunctional, as models for eager mode have it (C-22)."""

    class Add(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_func = torch.ao.nn.quantized.FloatFunctional()

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.add_func.add(x, y)

    def __init__(self):
        super().__init__()
        self.ff1 = self.Add()
        self.ff2 = torch.ao.nn.quantized.FloatFunctional()
        self.ff3 = torch.ao.nn.quantized.FloatFunctional()
        self.ff4 = torch.ao.nn.quantized.FloatFunctional()
        self.ff5 = torch.ao.nn.quantized.FloatFunctional()
        self.ff6 = torch.ao.nn.quantized.FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        x = self.ff1(x, x)
        x = self.ff2.add_scalar(x, 3.0)
        x = self.ff3.mul(x, x)
        x = self.ff4.mul_scalar(x, 3.0)
        x = self.ff5.add_relu(x, x)
        return self.ff6.cat([x])


@case(IMAGE)
class FloatFunctionalThenRelu(nn.Module):
    """A residual addition as torchvision's quantizable models write it: addition and ReLU are fused."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.add = torch.ao.nn.quantized.FloatFunctional()
        self.relu = nn.ReLU()
        self.last = nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.relu(self.add.add(self.conv(x), x)))


@case(ROWS, normal(4, 8))
class MatmulSpellings(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.fc(x)
        a = torch.matmul(x, y.t())
        b = x @ y.transpose(0, 1)
        return a + b.matmul(a)


@case(normal(2, 4, 4), normal(2, 4, 4))
class BmmOfInputs(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.bmm(x, y)


@case(IMAGE, IMAGE)
class CatOfConvs(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 2, 2)
        self.conv2 = nn.Conv2d(3, 2, 2)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([self.conv1(x), self.conv2(y)], 1)


@case(
    IMAGE,
    IMAGE,
    known_difference="2.8: TorchScript knows no keywords; FX finds the tensors among the positional arguments only",
    fx_model=CatOfConvs,
    accept_plain_fx=True,
)
class CatKeywords(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 2, 2)
        self.conv2 = nn.Conv2d(3, 2, 2)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.cat(tensors=[self.conv1(x), self.conv2(y)], dim=1)


@case(ROWS)
class CatOfOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.ones(8, 8)
        self.bias = torch.zeros(8)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat((x,), 1)
        size = x.size()
        x = F.linear(x, self.weight, self.bias)
        return x * size[0]


@case(ROWS)
class CatOfTheSameTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.last = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(x)
        return self.last(torch.cat([x, x], 1))
