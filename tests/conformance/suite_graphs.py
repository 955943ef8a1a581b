"""What stands around operators: shapes as values, asserts, dictionaries, attributes, values that nobody reads."""

from typing import Dict, List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Excused, booleans, case, integers, normal

IMAGE = normal(2, 4, 8, 8)
ROWS = normal(4, 8)


@case(normal(4, 4, 4, 4))
class AddOfNumberFromNdim(nn.Module):
    """An operand that is computed from x.ndim is no tensor (D-02)."""

    def forward(self, x: Tensor) -> Tensor:
        dims = x.ndim
        dims_sub = dims - 1
        dims_sub2 = dims_sub - 1
        return torch.add(x, dims_sub2)


@case(normal(4, 4, 4, 4))
class ViewOfComputedShape(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        dims = x.ndim - 2
        return x.view([-1, x.size(1)] + [1] * dims)


@case(normal(4, 4, 4, 4))
class ViewOfOwnShape(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(x.shape)


@case(IMAGE)
class AssertOnSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        assert x.size(1) == 4, "channels"
        return x


@case(IMAGE)
class ShapeBetweenConvs(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 2)
        self.conv2 = nn.Conv2d(4, 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        shape = x.shape
        assert shape == x.shape
        return self.conv2(x)


@case(ROWS)
class LinearSizeView(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        return x.view(x.size(0), 1, 4, 4)


@case(ROWS)
class LinearShapeView(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        return x.view(x.shape[0], 1, 4, 4)


@case(IMAGE, min_sqnr=Excused(14, "D-34: a product with a number has the scale of what was multiplied, whose step times 8 is the result's"))
class SizesOfQuantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.last = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        n, c, h, w = x.size()
        x = x.reshape(n, 2, c // 2, h, w)
        x = x.transpose(1, 2).reshape(n, c, h, w)
        return self.last(x) * float(h)


@case(normal(6, 4, 2, 2))
class ChunkedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        q, k, v = x.chunk(3, dim=0)
        q = q.contiguous().view(-1, 1).transpose(0, 1)
        k = k.contiguous().view(-1, 1).transpose(0, 1)
        v = v.contiguous().view(-1, 1)
        r = torch.mm(k, v)
        return q * k + r


@case(IMAGE)
class DictThroughTheGraph(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.last = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        values = {"a": self.conv(x)}
        values["b"] = F.relu(values["a"])
        return {"output": self.last(values["b"]), "early": values["a"]}


@case(IMAGE)
class ListsInDictsInTuples(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tuple[Dict[str, List[Tensor]], List[Dict[str, List[List[Tensor]]]]]:
        x = self.conv(x)
        return {"foo": [x]}, [{"foo": [[x]]}]


@case(IMAGE)
class ConvWithoutUse(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 1)
        self.conv2 = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv2(x)
        z = y.transpose(1, 2)
        return self.conv1(x)


@case(normal(2, 3, 4, 4), booleans(4, 4))
class MaskUnsqueezed(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        mask = mask.unsqueeze(0)
        mask = mask.unsqueeze(1)
        return x.masked_fill(mask, 1)


@case(IMAGE, booleans(8, 8))
class MaskAfterConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 1)
        self.conv2 = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.conv1(x).masked_fill(mask, 0.5)
        return self.conv2(x)


@case(integers(10, 4), integers(8, 4, 2))
class EmbeddingWithoutWeightOnly(nn.Module):
    """A static QConfig leaves embeddings float."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10, 12)
        self.bag = nn.EmbeddingBag(10, 12, mode="sum")
        self.fc = nn.Linear(12, 3)
        self.last = nn.Linear(12, 3)

    def forward(self, ids: Tensor, more: Tensor) -> Tensor:
        return self.fc(self.emb(ids)) + self.last(self.bag(more))


@case(ROWS)
class QuantStubs(nn.Module):
    """QuantStub and DeQuantStub of eager mode are identities here."""

    def __init__(self):
        super().__init__()
        self.quant = torch.ao.quantization.QuantStub()
        self.fc = nn.Linear(8, 8)
        self.dequant = torch.ao.quantization.DeQuantStub()

    def forward(self, x: Tensor) -> Tensor:
        return self.dequant(F.relu(self.fc(self.quant(x))))


@case(ROWS)
class TwoReadersOfOneLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.linear1 = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        y = self.linear(x)
        z = self.linear1(x)
        return y, torch.mul(z, 5), torch.add(z, 5)


@case(ROWS)
class SharedWeightOfTwoFunctions(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.linear(x, self.w)
        return F.linear(torch.sigmoid(x), self.w)


@case(ROWS)
class ComputedWeight(nn.Module):
    """The weight of the functional is computed in forward."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8) * 0.3)
        self.s = nn.Parameter(torch.rand(8, 1) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.w * self.s)


@case(ROWS, normal(6, 8))
class WeightFromInput(nn.Module):
    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        return F.linear(x, w)


@case(IMAGE)
class ConvNoBiasReluOnlyOnce(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, bias=False)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        y = self.conv(x)
        return self.relu(y), y


@case(ROWS)
class SigmoidOfSharedInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 8)
        self.fc2 = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        return torch.sigmoid(x) * torch.tanh(x) + self.fc2(x)


@case(IMAGE)
class ReluOnly(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x)


@case(ROWS)
class Identity(nn.Module):
    def __init__(self):
        super().__init__()
        self.identity = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.identity(x)


@case(normal(2, 3, 5, 5))
class SmallNet(nn.Module):
    """conv, relu, flatten by view, linear."""

    def __init__(self):
        super().__init__()
        self.relu1 = nn.ReLU()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.linear1 = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu1(self.conv1(x))
        return self.linear1(x.reshape(-1, 6))


@case(normal(3, 8, 8))
class LstmWithStates(nn.Module):
    """An LSTM has no static kernels: float between quantized layers."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.lstm = nn.LSTM(8, 8, 1)
        self.last = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(1, 8, 8)
        y, (h, c) = self.lstm(self.fc(x), (state, state))
        return self.last(y) + h


@case(IMAGE)
class ConvArgumentsInAttributes(nn.Module):
    """The functional's stride, padding and dilation are tuples that the module holds."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 3, 3) * 0.2)
        self.bias = nn.Parameter(torch.randn(4))
        self.stride = (1, 1)
        self.padding = (1, 1)
        self.dilation = (1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, 1))
