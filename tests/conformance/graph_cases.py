"""Small cases about the shape of the graph: branches, shared modules, shape operators, several inputs and outputs."""

from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Excused, add_case, booleans, case, constant, integers, normal, uniform

IMAGE = normal(2, 3, 12, 12)
ROWS = normal(4, 16)
FIXED_INPUT = dict(
    known_difference="D-37: FX observes a float input of a fixed-qparams operator with the output's range and clips it",
    accept_plain_fx=True,
)
TOKENS = normal(2, 6, 16)


class TwoConvs(nn.Module):
    """Two parallel convolutions; `join` combines them."""

    def __init__(self):
        super().__init__()
        self.left = nn.Conv2d(3, 8, 3, padding=1)
        self.right = nn.Conv2d(3, 8, 1)
        self.last = nn.Conv2d(8, 4, 1)
        self.relu = nn.ReLU()

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.join(self.left(x), self.right(x)))


ADD_METHOD = "2.8: aten::add has one spelling in TorchScript; the method is quantized as the operator is"

UNUSED = {"onednn": Excused(1, "nobody reads what the second convolution computes")}

# ---- two-input operators


@case(IMAGE)
class AddOperator(TwoConvs):
    pass


@case(IMAGE)
class AddFunction(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.add(a, b)


@case(IMAGE)
class AddInplace(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        a += b
        return a


@case(IMAGE, known_difference=ADD_METHOD, fx_model=AddOperator, accept_plain_fx=True)
class AddMethod(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a.add(b)


@case(IMAGE, known_difference=ADD_METHOD, fx_model=AddOperator, accept_plain_fx=True)
class AddInplaceMethod(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a.add_(b)


@case(IMAGE)
class AddReluModule(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return self.relu(a + b)


@case(IMAGE)
class AddReluFunction(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return F.relu(torch.add(a, b))


@case(IMAGE)
class AddTorchRelu(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.relu(a + b)


@case(IMAGE)
class MulOperator(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b


@case(IMAGE)
class MulFunctionRelu(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return F.relu(torch.mul(a, b))


@case(IMAGE)
class MulInplace(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        a *= b
        return a


@case(IMAGE)
class SubOperator(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a - b


@case(IMAGE)
class DivOperator(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a / (1.0 + b * b)


@case(IMAGE)
class MaximumFunction(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.maximum(a, b)


@case(IMAGE)
class MulSigmoid(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a * torch.sigmoid(b)


@case(
    IMAGE,
    lowered_difference="section 6: FX drops alpha of add when it lowers; tsq keeps it, or leaves the add in float",
    reference_difference={"onednn": "FX drops alpha where it fuses the addition with the convolution"},
)
class AddAlpha(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.add(a, b, alpha=0.5)


@case(IMAGE, float_layers=UNUSED)
class AddToItself(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a + a


WRONG_ROOT = {"onednn": "FX finds its fuser by the classes of both addends: the left convolution takes the place of the right one"}


@case(IMAGE, reference_difference=WRONG_ROOT, lowered_difference=WRONG_ROOT)
class AddThreeWays(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b + a


@case(IMAGE, float_layers=UNUSED)
class AddScalar(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a + 0.5


@case(IMAGE, float_layers=UNUSED)
class AddScalarLeft(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return 1.5 + a


@case(IMAGE, float_layers=UNUSED)
class AddScalarRelu(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return F.relu(a + 0.5)


@case(IMAGE, float_layers=UNUSED)
class AddIntegerScalar(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a + 3


@case(IMAGE)
class MulScalar(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a * 2.0


@case(IMAGE)
class MulNegativeScalar(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a * -0.7


@case(IMAGE)
class SubDivScalar(TwoConvs):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return (a - 0.5) / 0.25


@case(IMAGE)
class NormalisedInput(nn.Module):
    """Preprocessing with constants inside the model."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.1, -0.1, 0.2]).reshape(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.9, 1.1, 1.0]).reshape(1, 3, 1, 1))
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv((x - self.mean) / self.std)


@case(IMAGE)
class ScaledInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x * 0.5 + 0.1)


@case(IMAGE)
class BufferScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 8).reshape(8, 1, 1))
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.conv(x) * self.scale)


@case(IMAGE)
class ParameterBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, bias=False)
        self.shift = nn.Parameter(torch.randn(1, 8, 1, 1))
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.conv(x) + self.shift))


# ---- residual blocks, cat


class Residual(nn.Module):
    def __init__(self, channels: int = 8):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x
        return self.relu(out)


@case(IMAGE)
class ResidualTwoBlocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.block1 = Residual()
        self.block2 = Residual()

    def forward(self, x: Tensor) -> Tensor:
        return self.block2(self.block1(self.stem(x)))


add_case("residual_on_the_input", Residual, normal(2, 8, 10, 10))


@case(IMAGE)
class ResidualWithoutRelu(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.last(x + self.conv(x))


@case(IMAGE)
class ConvAddRelu(nn.Module):
    """onednn: conv + add + relu in one kernel."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(3, 8, 1)
        self.pool = nn.MaxPool2d(3, 1, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.bn(self.conv1(x)) + self.pool(self.conv2(x)))


@case(IMAGE)
class CatTwoBranches(TwoConvs):
    def __init__(self):
        super().__init__()
        self.last = nn.Conv2d(16, 4, 1)

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.cat([a, b], 1)


@case(IMAGE)
class CatTuple(CatTwoBranches):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.cat((a, b), dim=1)


@case(IMAGE)
class CatNegativeDim(CatTwoBranches):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.cat([a, self.relu(b)], dim=-3)


@case(IMAGE)
class ConcatFunction(CatTwoBranches):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.concat([a, b], 1)


@case(IMAGE)
class ProductByOtherNames(TwoConvs):
    """FX's tables have one name of each; TorchScript writes aten::mul and aten::neg."""

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.multiply(a, torch.negative(b)).multiply(a * b)


@case(IMAGE)
class CatOfInput(nn.Module):
    """The first element of the cat is the graph's input (D-31)."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, padding=1)
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.cat([x, self.conv(x)], 1))


@case(IMAGE)
class CatOfInputLast(CatOfInput):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.cat([self.conv(x), x], 1))


@case(IMAGE)
class CatAsOutput(CatOfInput):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.conv(x), self.conv(x)], 1) if self.training else torch.cat([self.conv(x)], 1)


@case(IMAGE)
class DenseBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv0 = nn.Conv2d(3, 4, 3, padding=1)
        self.conv1 = nn.Conv2d(4, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 4, 3, padding=1)
        self.pool = nn.AvgPool2d(2)
        self.last = nn.Conv2d(12, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = F.relu(self.conv0(x))
        b = F.relu(self.conv1(a))
        c = F.relu(self.conv2(torch.cat([a, b], 1)))
        return self.last(self.pool(torch.cat([a, b, c], 1)))


@case(IMAGE)
class InceptionBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(3, 4, 1)
        self.three = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(3, 4, 1))
        self.last = nn.Conv2d(12, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(torch.cat([self.one(x), self.three(x), self.pool(x)], 1)))


@case(TOKENS)
class StackFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 8)
        self.b = nn.Linear(16, 8)
        self.last = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.stack([self.a(x), self.b(x)], 1))


# ---- shape operators between layers


class Shape(nn.Module):
    """linear, `tail`, linear, on (2, 6, 16)."""

    features = 12

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 12)
        self.last = nn.Linear(self.features, 4)

    def tail(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.tail(self.first(x)))


@case(TOKENS)
class ShapeNone(Shape):
    pass


@case(TOKENS)
class ViewMethod(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return x.view(-1, 12)


@case(TOKENS)
class ViewWithSizes(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return x.view(x.size(0) * x.size(1), x.size(2))


@case(TOKENS)
class ReshapeMethod(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return x.reshape(-1, 12)


@case(TOKENS)
class ReshapeWithShape(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], 3, 4).reshape(x.shape[0], x.shape[1], 12)


RESHAPE = "2.8: aten::reshape has one spelling in TorchScript; the method's reuse-input QConfig serves torch.reshape"


@case(TOKENS, known_difference=RESHAPE, fx_model=ReshapeMethod, accept_plain_fx=True)
class ReshapeFunction(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return torch.reshape(x, (-1, 12))


@case(TOKENS)
class PermuteMethod(Shape):
    features = 6

    def tail(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 1)


@case(TOKENS, known_difference="2.8: aten::permute has one spelling in TorchScript", fx_model=PermuteMethod, accept_plain_fx=True)
class PermuteFunction(PermuteMethod):
    def tail(self, x: Tensor) -> Tensor:
        return torch.permute(x, (0, 2, 1))


@case(TOKENS)
class TransposeMethod(PermuteMethod):
    def tail(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


@case(TOKENS)
class TransposeFunction(PermuteMethod):
    def tail(self, x: Tensor) -> Tensor:
        return torch.transpose(x, 1, 2)


@case(TOKENS)
class TransposeContiguous(PermuteMethod):
    def tail(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).contiguous()


@case(TOKENS)
class SqueezeUnsqueezeMethods(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return x.unsqueeze(1).squeeze(1)


@case(TOKENS)
class SqueezeUnsqueezeFunctions(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return torch.squeeze(torch.unsqueeze(x, 1), 1)


@case(TOKENS)
class FlattenFunction(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return torch.flatten(x, 0, 1)


@case(TOKENS, known_difference="2.8: aten::flatten has one spelling in TorchScript", fx_model=FlattenFunction, accept_plain_fx=True)
class FlattenMethod(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return x.flatten(0, 1)


@case(TOKENS)
class ChunkMethod(Shape):
    features = 6

    def tail(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=2)
        return a


@case(TOKENS)
class ChunkFunctionBothUsed(Shape):
    features = 6

    def tail(self, x: Tensor) -> Tensor:
        a, b = torch.chunk(x, 2, dim=2)
        return a * torch.sigmoid(b)


@case(TOKENS)
class SplitSizes(Shape):
    features = 4

    def tail(self, x: Tensor) -> Tensor:
        a, b = torch.split(x, [4, 8], dim=2)
        return a


@case(TOKENS)
class GetItemSlice(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return x[:, 0]


@case(TOKENS)
class GetItemRange(Shape):
    features = 6

    def tail(self, x: Tensor) -> Tensor:
        return x[:, 1:4, ::2]


@case(TOKENS)
class RepeatMethod(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return x.repeat(1, 2, 1)


@case(TOKENS)
class RepeatInterleave(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return torch.repeat_interleave(x, 2, dim=1)


@case(TOKENS)
class ExpandMethod(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return x[:, :1].expand(-1, 3, -1)


@case(TOKENS)
class MeanOverTokens(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return x.mean(1)


@case(TOKENS)
class MeanOfAll(Shape):
    def forward(self, x: Tensor) -> Tensor:
        return self.first(x).mean()


@case(TOKENS)
class SumOverTokens(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return x.sum(1)


@case(TOKENS)
class MaxOverTokens(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return torch.max(x, 1)[0]


@case(TOKENS)
class MaskedFillConstant(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return x.masked_fill(x > 1.0, 1.0)


@case(TOKENS)
class WhereFunction(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x, x * 0.1)


@case(TOKENS)
class ToFloatMethod(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return x.to(torch.float32)


@case(TOKENS)
class ExpLogSqrt(Shape):
    def tail(self, x: Tensor) -> Tensor:
        return torch.log(torch.exp(x) + 1.0).sqrt()


@case(IMAGE)
class ChannelShuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        batch, channels, height, width = x.size(0), x.size(1), x.size(2), x.size(3)
        x = x.reshape(batch, 2, channels // 2, height, width)
        x = x.transpose(1, 2).reshape(batch, channels, height, width)
        return self.last(x)


@case(IMAGE)
class ConvViewLinear(nn.Module):
    """FX's model fails at run time: quantized convolutions return channels-last (section 7)."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.fc = nn.Linear(800, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv(x))
        return self.fc(x.view(x.size(0), -1))


@case(IMAGE)
class ConvReshapeLinear(ConvViewLinear):
    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv(x))
        return self.fc(x.reshape(x.shape[0], -1))


@case(IMAGE)
class ConvPoolFlattenLinear(nn.Module):
    """One observer at four places (D-29)."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(200, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.flatten(self.pool(self.conv(x)), 1))


# ---- matmul, attention, squeeze-excite


@case(TOKENS)
class MatmulFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 8)
        self.b = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(self.a(x), self.b(x).transpose(1, 2))


@case(TOKENS, known_difference="2.8: aten::matmul has one spelling in TorchScript", fx_model=MatmulFunction, accept_plain_fx=True)
class MatmulOperator(MatmulFunction):
    def forward(self, x: Tensor) -> Tensor:
        return self.a(x) @ self.b(x).transpose(1, 2)


@case(TOKENS)
class BmmFunction(MatmulFunction):
    def forward(self, x: Tensor) -> Tensor:
        return torch.bmm(self.a(x), self.b(x).transpose(1, 2))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = 2
        self.query = nn.Linear(16, 16)
        self.key = nn.Linear(16, 16)
        self.value = nn.Linear(16, 16)
        self.out = nn.Linear(16, 16)
        self.softmax = nn.Softmax(dim=-1)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, 8).permute(0, 2, 1, 3)

    def weights(self, scores: Tensor) -> Tensor:
        return self.softmax(scores)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(query, key.transpose(-2, -1)) / 2.83
        mixed = torch.matmul(self.weights(scores), value)
        mixed = mixed.permute(0, 2, 1, 3).reshape(x.size(0), x.size(1), 16)
        return self.out(mixed)


add_case("attention_softmax_module", Attention, TOKENS, **FIXED_INPUT)


@case(TOKENS, known_difference="2.8: aten::softmax may take nn.Softmax's row", fx_model=Attention, accept_plain_fx=True)
class AttentionSoftmaxFunction(Attention):
    def weights(self, scores: Tensor) -> Tensor:
        return F.softmax(scores, dim=-1)


@case(TOKENS)
class TransformerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(16)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


@case(TOKENS, booleans(2, 1, 6), **FIXED_INPUT)
class MaskedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(16, 16)
        self.key = nn.Linear(16, 16)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        scores = torch.matmul(self.query(x), self.key(x).transpose(1, 2))
        return self.softmax(scores.masked_fill(mask, -10.0))


@case(IMAGE)
class SqueezeExcite(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.reduce = nn.Conv2d(8, 4, 1)
        self.expand = nn.Conv2d(4, 8, 1)
        self.relu = nn.ReLU()
        self.gate = nn.Sigmoid()
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        scale = self.gate(self.expand(self.relu(self.reduce(self.pool(x)))))
        return self.last(x * scale)


@case(IMAGE)
class SqueezeExciteHardsigmoid(SqueezeExcite):
    def __init__(self):
        super().__init__()
        self.gate = nn.Hardsigmoid(inplace=True)
        self.activation = nn.Hardswish(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.activation(self.conv(x))
        scale = self.gate(self.expand(F.relu(self.reduce(F.adaptive_avg_pool2d(x, 1)), inplace=True)))
        return self.last(scale * x)


# ---- modules and tensors used more than once


@case(IMAGE)
class SharedRelu(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.conv2(self.relu(self.conv1(x))))


class ConvCalledTwiceAsTwo(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.conv_copy = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv_copy(F.relu(self.conv(self.first(x)) * 0.25))


@case(IMAGE, known_difference="D-38: a module called twice; each call keeps its own output range", fx_model=ConvCalledTwiceAsTwo)
class ConvCalledTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.conv = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.relu(self.conv(self.first(x)) * 0.25))


class LinearOnTwoInputsAsTwo(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 8)
        self.fc_copy = nn.Linear(16, 8)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.fc(a) + self.fc_copy(b)


@case(ROWS, uniform(4, 16), known_difference="D-38: a module called twice; each call keeps its own output range", fx_model=LinearOnTwoInputsAsTwo)
class SiameseLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 8)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.fc(a) + self.fc(b)


@case(IMAGE)
class ConvReadTwice(nn.Module):
    """Its ReLU is not fused: the convolution has another reader (C-08)."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.relu = nn.ReLU()
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.last(self.relu(y) + y)


@case(IMAGE)
class InputReadTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3)
        self.conv2 = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv1(x) + self.conv2(x)


@case(IMAGE, **FIXED_INPUT)
class InputOfConvAndSigmoid(nn.Module):
    """D-22, D-37: two observers on one input, one of them with fixed parameters."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) * torch.sigmoid(x)


@case(IMAGE)
class SwishByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 1)
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.last(y * torch.sigmoid(y))


@case(IMAGE)
class UnusedBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.unused = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.unused(x)
        return self.conv(x)


@case(IMAGE)
class UnusedModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.unused = nn.Linear(3, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)


# ---- inputs and outputs


@case(ROWS, normal(4, 12))
class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 8)
        self.b = nn.Linear(12, 8)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.a(x) + self.b(y)


@case(ROWS, ROWS)
class AddTwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 8)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.fc(x + y)


@case(ROWS)
class TupleOutput(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 8)
        self.b = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        y = self.a(x)
        return y, self.b(y)


@case(ROWS)
class ListOutput(TupleOutput):
    def forward(self, x: Tensor) -> List[Tensor]:
        y = self.a(x)
        return [y, self.b(y), x]


@case(ROWS)
class DictOutput(TupleOutput):
    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        y = self.a(x)
        return {"hidden": y, "out": self.b(y)}


@case(ROWS)
class NestedOutput(TupleOutput):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        y = self.a(x)
        return y, (self.b(y), torch.sigmoid(y))


@case(ROWS)
class InputAsOutput(TupleOutput):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return x, self.a(x)


@case(ROWS)
class SameTensorOutputTwice(TupleOutput):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        y = F.relu(self.a(x))
        return y, y


@case(ROWS)
class OptionalArgument(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 8)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        return self.fc(x)


@case(ROWS)
class DefaultArgument(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 8)

    def forward(self, x: Tensor, factor: float = 0.5) -> Tensor:
        return self.fc(x) * factor


@case(integers(10, 4, 16))
class IntegerInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x.float() * 0.1)


@case(integers(10, 4), ROWS)
class IndexInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 16)
        self.fc = nn.Linear(16, 8)

    def forward(self, index: Tensor, x: Tensor) -> Tensor:
        return self.fc(x + self.embedding(index))


@case(integers(12, 2, 5))
class PositionsByShape(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(12, 16)
        self.positions = nn.Embedding(8, 16)
        self.register_buffer("ids", torch.arange(8))
        self.norm = nn.LayerNorm(16)
        self.fc = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.norm(self.words(x) + self.positions(self.ids)[: x.size(1)]))


@case(constant(0.0, 4, 16))
class ZeroInput(nn.Module):
    """Calibrated with zeros only: the scale is eps (M-01)."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


add_case("constant_input", ZeroInput, constant(0.75, 4, 16))
add_case("negative_constant_input", ZeroInput, constant(-2.0, 4, 16))
add_case("tiny_input", ZeroInput, ROWS, calibration_ranges=((1e-9, 0.0), (2e-9, 0.0)))
add_case("huge_input", ZeroInput, ROWS, calibration_ranges=((1e18, 0.0), (3e18, 1e17)))
add_case("one_calibration_batch", ZeroInput, ROWS, calibration_ranges=((1.0, 0.0),))
add_case("many_calibration_batches", ZeroInput, ROWS, calibration_ranges=tuple((0.2 * i + 0.2, 0.1 * (i % 5) - 0.2) for i in range(20)))
add_case("shrinking_calibration_batches", ZeroInput, ROWS, calibration_ranges=((4.0, 0.0), (2.0, 0.0), (1.0, 0.0)))


# ---- structure of modules


class ConvNormRelu(nn.Sequential):
    def __init__(self, channels_in: int, channels: int):
        super().__init__(nn.Conv2d(channels_in, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True))


@case(IMAGE)
class NestedSequentials(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(ConvNormRelu(3, 8), nn.Sequential(ConvNormRelu(8, 8), nn.MaxPool2d(2)))
        self.classifier = nn.Sequential(nn.Dropout(0.1), nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


@case(IMAGE)
class ModuleListLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([ConvNormRelu(3, 8), ConvNormRelu(8, 8), ConvNormRelu(8, 4)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@case(IMAGE)
class ModuleListOutputs(ModuleListLoop):
    def forward(self, x: Tensor) -> List[Tensor]:
        outputs = []
        for layer in self.layers:
            x = layer(x)
            outputs.append(x)
        return outputs


@case(ROWS)
class ModuleDictMember(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"a": nn.Linear(16, 8), "b": nn.Linear(16, 4)})

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return self.heads["a"](x), self.heads["b"](x)


class Fire(nn.Module):
    def __init__(self, channels_in: int, squeeze: int, expand: int):
        super().__init__()
        self.squeeze = nn.Conv2d(channels_in, squeeze, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        return torch.cat([self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], 1)


@case(normal(2, 3, 20, 20))
class SqueezeNetLike(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(16, 4, 8), Fire(16, 4, 8)
        )
        self.classifier = nn.Sequential(nn.Dropout(0.5), nn.Conv2d(16, 10, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1)))

    def forward(self, x: Tensor) -> Tensor:
        return torch.flatten(self.classifier(self.features(x)), 1)


@case(normal(2, 3, 16, 16), float_layers={"onednn": Excused(1, "oneDNN has no transposed convolution with output padding")})
class UNetLike(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = ConvNormRelu(3, 8)
        self.pool = nn.MaxPool2d(2)
        self.middle = ConvNormRelu(8, 8)
        self.up = nn.ConvTranspose2d(8, 8, 3, stride=2, padding=1, output_padding=1)
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.down(x)
        b = self.up(self.middle(self.pool(a)))
        return self.out(torch.cat([a, b], 1))


@case(normal(2, 3, 16, 16))
class FeaturePyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = ConvNormRelu(3, 8)
        self.c2 = nn.Sequential(nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.ReLU())
        self.lateral = nn.Conv2d(8, 8, 1)
        self.out = nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: Tensor) -> List[Tensor]:
        a = self.c1(x)
        b = self.c2(a)
        top = F.interpolate(b, scale_factor=2.0, mode="nearest")
        return [self.out(self.lateral(a) + top), b]


@case(TOKENS)
class LstmInTheMiddle(nn.Module):
    """An LSTM has no static row: it stays float."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 12)
        self.lstm = nn.LSTM(12, 10, batch_first=True)
        self.last = nn.Linear(10, 4)

    def forward(self, x: Tensor) -> Tensor:
        y, state = self.lstm(self.first(x))
        return self.last(y)


@case(TOKENS)
class GruInTheMiddle(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(16, 10, batch_first=True)
        self.last = nn.Linear(10, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.gru(x)[0])


@case(normal(2, 1, 64))
class WaveformNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(1, 8, 9, stride=2, padding=4)
        self.bn1 = nn.BatchNorm1d(8)
        self.conv2 = nn.Conv1d(8, 8, 3, dilation=2, padding=2, groups=8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.conv2(x)) + x
        return self.fc(x.mean(2))


@case(IMAGE)
class NoQuantizableLayer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x) - 0.5 * x


@case(IMAGE)
class PathAggregation(nn.Module):
    """Shape operators and pools in a chain, then a cat: one observer through all of it (D-28)."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.avg = nn.AvgPool2d(2)
        self.last = nn.Conv2d(16, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.last(torch.cat([F.relu(self.pool(y)), self.avg(y)], 1))
