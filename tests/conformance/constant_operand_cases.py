"""Sums, differences, products and quotients with tensors of the model's own: buffers, parameters and literals.

FX sees the tensor itself: `y + self.row` is operator.add with a get_attr, which is observed and quantized as any other
operand; `self.row + y` is a call of the tensor's method, which no row names; torch.tensor(...) is evaluated when FX traces,
and is a get_attr as well.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import case, normal

ROWS = normal(6, 8)


class WithConstant(nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(17)
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 4)
        self.register_buffer("row", torch.randn(8, generator=generator) * 2 + 0.5)
        self.register_buffer("matrix", torch.randn(6, 8, generator=generator))
        self.register_buffer("one", torch.randn(1, generator=generator))
        self.register_buffer("scalar", torch.tensor(1.7))
        self.weight = nn.Parameter(torch.rand(8, generator=generator) + 0.1)

    def join(self, y: Tensor) -> Tensor:
        return y

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.join(self.first(x)))


@case(ROWS)
class AddBuffer(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y + self.row


@case(ROWS)
class AddBufferOfAllRows(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y + self.matrix


@case(ROWS)
class AddBufferOfOne(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y + self.one


@case(ROWS)
class AddScalarBuffer(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y + self.scalar


@case(ROWS)
class AddParameter(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y + self.weight


@case(ROWS)
class BufferAdd(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return self.row + y


@case(ROWS)
class ScalarBufferAdd(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return self.scalar + y


@case(ROWS)
class MulBuffer(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y * self.row


@case(ROWS)
class MulScalarBuffer(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y * self.scalar


@case(ROWS)
class MulParameter(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y * self.weight


@case(ROWS)
class BufferMul(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return self.row * y


@case(ROWS)
class ParameterMul(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return self.weight * y


@case(ROWS)
class SubBuffer(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y - self.row


@case(ROWS)
class BufferSub(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return self.row - y


@case(ROWS)
class DivBuffer(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y / self.weight


@case(ROWS)
class BufferDiv(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return self.weight / (y * y + 1.0)


@case(ROWS)
class TorchAddBuffer(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return torch.add(y, self.row)


@case(ROWS)
class TorchAddBufferFirst(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return torch.add(self.row, y)


@case(ROWS)
class TorchMulBufferFirst(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return torch.mul(self.row, y)


@case(ROWS)
class MethodMulBuffer(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y.mul(self.row)


@case(ROWS)
class AddBufferRelu(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return F.relu(y + self.row)


@case(ROWS)
class MulBufferRelu(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return F.relu(y * self.row)


@case(ROWS)
class AddLiteral(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y + torch.tensor([1.0, 2.0, 3.0, 4.0, -1.0, -2.0, -3.0, -4.0])


@case(ROWS)
class AddRepeatedLiteral(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y + torch.tensor([1.0, -2.0] * 4)


@case(ROWS)
class AddScalarLiteral(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y + torch.tensor(1.5)


@case(ROWS)
class MulLiteral(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y * torch.tensor([0.5, 2.0] * 4)


@case(ROWS)
class LiteralAdd(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return torch.tensor([1.0, -2.0] * 4) + y


@case(ROWS)
class SubLiteral(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y - torch.tensor([1.0, -2.0] * 4)


@case(ROWS)
class AddOnes(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y + torch.ones(8)


@case(ROWS)
class AddFull(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return torch.add(y, torch.full([1, 8], 0.3))


@case(ROWS)
class AddLiteralReshaped(WithConstant):
    def join(self, y: Tensor) -> Tensor:
        return y + torch.tensor([1.0, -2.0] * 4).view(1, 8)
