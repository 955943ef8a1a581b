"""Operators that only move or pool values, normalisations, clamps and fixed-range activations, in every spelling."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Excused, add_case, case, normal, without_vnni

IMAGE = normal(2, 4, 8, 8)
SIGNAL = normal(2, 4, 18)
VOLUME = normal(2, 3, 6, 6, 6)
ROWS = normal(4, 8)
QNNPACK_CLAMP = {"qnnpack": "section 6: qnnpack's clamp, hardtanh and relu6 are wrong on channels-last tensors"}
PRELU = "section 6: quantized::prelu is wrong once a slope's code is above 127"
FIXED_INPUT = dict(
    known_difference="D-37: FX observes a float input of a fixed-qparams operator with the output's range and clips it",
    accept_plain_fx=True,
)


@case(IMAGE, min_sqnr={"onednn": Excused(5, "D-34: each sum keeps the range of what it was added to, and clips")})
class ScalarArithmetic(nn.Module):
    """conv, then scalars added and multiplied out of place and in place, with and without ReLU, then conv."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 3)
        self.conv2 = nn.Conv2d(4, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        x = x + 3
        x = x * 3
        x += 3
        x *= 3
        x = F.relu(x + 3)
        x += 3
        x = F.relu(x)
        x = F.relu(x * 3)
        x *= 3
        x = F.relu(x)
        return self.conv2(x)


@case(IMAGE)
class ShapeMethods(nn.Module):
    """Every shape operator between two convolutions, each undone by the next."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 3)
        self.conv2 = nn.Conv2d(4, 4, 3)
        self.dropout = nn.Dropout()
        self.pool = nn.MaxPool2d(2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.conv1(x))
        x = torch.flatten(x, 2)
        x = x.reshape([2, 4, 5, 5])
        x = x.transpose(1, 2).contiguous().transpose(1, 2)
        x = F.dropout(x, training=False)
        x = self.dropout(x)
        x = x.permute(0, 2, 3, 1)
        x = x.permute(0, 3, 1, 2)
        x = x.repeat_interleave(2, 1)
        x = torch.repeat_interleave(x, 2, 1)
        x = x[:, ::4]
        x = x.unsqueeze(0)
        x = x.squeeze(0)
        x = torch.unsqueeze(x, 0)
        x = torch.squeeze(x, 0)
        x = x.detach()
        x = x.repeat(1, 1, 2, 1)
        return self.conv2(x)


@case(IMAGE)
class ShapeMethodsInplace(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 3)
        self.conv2 = nn.Conv2d(4, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        x = x.unsqueeze_(0)
        x = x.squeeze_(0)
        x = x.detach_()
        return self.conv2(x)


@case(IMAGE)
class ListsAndTuples(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 3)
        self.conv2 = nn.Conv2d(4, 4, 3)
        self.conv3 = nn.Conv2d(4, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        xs = [x, x]
        x, y = xs
        pair = (x, y)
        x, y = pair
        return self.conv2(x) + self.conv3(y)


@case(SIGNAL)
class Pools1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3)
        self.last = nn.Conv1d(4, 4, 3)
        self.max = nn.MaxPool1d(2, 1)
        self.avg = nn.AvgPool1d(2, 1)
        self.adaptive = nn.AdaptiveAvgPool1d(9)

    def forward(self, x: Tensor) -> Tensor:
        x = self.adaptive(self.avg(self.max(self.conv(x))))
        x = F.max_pool1d(x, 2, 1)
        x = F.avg_pool1d(x, 2, 1)
        x = F.adaptive_avg_pool1d(x, 6)
        return self.last(x)


@case(IMAGE)
class Pools2d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.last = nn.Conv2d(4, 4, 3, padding=1)
        self.max = nn.MaxPool2d(3, 1, 1)
        self.avg = nn.AvgPool2d(2, 1)
        self.adaptive = nn.AdaptiveAvgPool2d((6, 5))

    def forward(self, x: Tensor) -> Tensor:
        x = self.adaptive(self.avg(self.max(self.conv(x))))
        x = F.max_pool2d(x, 2, 1)
        x = F.avg_pool2d(x, 2, 1)
        x = F.adaptive_avg_pool2d(x, (3, 3))
        return self.last(x)


@case(IMAGE)
class PoolVariants2d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.last = nn.Conv2d(4, 4, 3, padding=1)
        self.avg = nn.AvgPool2d(3, 2, 1, ceil_mode=True)
        self.max = nn.MaxPool2d(2, stride=1, dilation=2, ceil_mode=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.max(self.avg(self.last(x))))


@case(VOLUME)
class Pools3d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(3, 3, 1)
        self.last = nn.Conv3d(3, 3, 1)
        self.avg = nn.AvgPool3d(2, 1)
        self.adaptive = nn.AdaptiveAvgPool3d((4, 4, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.adaptive(self.avg(self.conv(x)))
        x = F.avg_pool3d(x, 2, 1)
        x = F.adaptive_avg_pool3d(x, (2, 2, 2))
        return self.last(x)


@case(IMAGE, min_sqnr={"onednn": without_vnni(-1, "the product of two means of saturated sums; FX's model ends the process")})
class MeansAndInterpolations(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.last = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        a = torch.mean(x, [2, 3], True)
        b = x.mean([2, 3], True)
        x = F.interpolate(x, 4, mode="nearest")
        x = F.interpolate(x, scale_factor=2.0, mode="bilinear")
        return self.last(x) + a * b


@case(SIGNAL)
class InterpolateLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 1)
        self.last = nn.Conv1d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.interpolate(self.conv(x), 4, mode="linear")
        return self.last(F.interpolate(x, 9))


@case(IMAGE)
class MeanOfEverything(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return torch.mean(x) + x.mean()


for name, pool in (
    ("avg_pool1d_alone", lambda: nn.Sequential(nn.Flatten(2), nn.AvgPool1d(3))),
    ("avg_pool2d_alone", lambda: nn.Sequential(nn.AvgPool2d(3))),
    ("adaptive_avg_pool2d_alone", lambda: nn.Sequential(nn.AdaptiveAvgPool2d((1, 1)))),
    ("channel_shuffle_module_alone", lambda: nn.Sequential(nn.ChannelShuffle(2))),
    ("pixel_shuffle_module_alone", lambda: nn.Sequential(nn.PixelShuffle(2))),
    ("pixel_unshuffle_module_alone", lambda: nn.Sequential(nn.PixelUnshuffle(2))),
):
    add_case(name, pool, IMAGE, source=__file__)


@case(IMAGE)
class ShufflesByFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.last = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.pixel_unshuffle(self.conv(x), 2)
        x = F.pixel_shuffle(x, 2)
        x = F.channel_shuffle(x, 2)
        x = torch.narrow(x, 1, 1, 2)
        x = torch.cat([x, x.narrow(1, 0, 2)], 1)
        return self.last(x)


@case(IMAGE)
class SplitChunkUnbind(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.small = nn.Conv2d(2, 2, 1)
        self.other = nn.Conv2d(2, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        a, b = torch.split(x, 2, 1)
        c, d = torch.chunk(x, 2, dim=1)
        e, f = x.split([1, 3], 1)
        return torch.cat([self.small(a), b + c, self.other(d), e, f], 1)


@case(normal(2, 2, 2, 2))
class ChunkThenAdd(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x, y = torch.chunk(x, 2)
        return x + y


@case(IMAGE)
class StackThenSum(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 1)
        self.conv2 = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.stack([self.conv1(x)])
        x = torch.sum(x, dim=0)
        return self.conv2(x)


@case(IMAGE)
class SumOfEverything(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sum(torch.stack([self.conv1(x)]))


@case(normal(2, 3, 4))
class SumKeepdim(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = torch.sum(x, [1], keepdim=True)
        return torch.sum(x, [1])


# ---- clamps


@case(IMAGE, lowered_difference=QNNPACK_CLAMP)
class EveryClamp(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 2)
        self.relu6 = nn.ReLU6()
        self.hardtanh = nn.Hardtanh()

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        x = self.relu6(x)
        x = F.relu6(x)
        x = torch.clamp(x, -3, 3)
        x = x.clamp(-2.5, 2.5)
        x = self.hardtanh(x)
        return F.hardtanh(x)


@case(IMAGE, lowered_difference=QNNPACK_CLAMP)
class ClampsInplace(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 2)
        self.relu6 = nn.ReLU6(True)
        self.hardtanh = nn.Hardtanh(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu6(self.conv(x) + 1.0)
        x = self.hardtanh(x)
        return F.hardtanh(x, inplace=True)


# ---- fixed ranges


@case(IMAGE)
class FixedRangesInARow(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3)
        self.sigmoid = nn.Sigmoid()
        self.hardsigmoid = nn.Hardsigmoid()
        self.tanh = nn.Tanh()
        self.softmax = nn.Softmax(dim=0)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        x = self.sigmoid(x)
        x = torch.sigmoid(x)
        x = x.sigmoid()
        x = self.hardsigmoid(x)
        x = F.hardsigmoid(x)
        x = F.hardsigmoid(x, inplace=True)
        x = self.tanh(x)
        x = torch.tanh(x)
        x = x.tanh()
        return self.softmax(x)


@case(IMAGE, **FIXED_INPUT)
class FixedRangesOfFloat(nn.Module):
    def __init__(self):
        super().__init__()
        self.sigmoid = nn.Sigmoid()
        self.tanh = nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        x = self.sigmoid(x)
        x = torch.sigmoid(x)
        x = x.sigmoid()
        x = self.tanh(x)
        x = torch.tanh(x)
        return x.tanh()


# ---- activations and normalisations, module and function


class ModuleThenFunction(nn.Module):
    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.module(x))

    def function(self, x: Tensor) -> Tensor:
        return x


def both(make, **options):
    def register(cls):
        add_case(f"both_{cls.__name__.lower()}", lambda: cls(make()), IMAGE, source=__file__, **options)
        return cls

    return register


@both(lambda: nn.Hardswish())
class Hardswish(ModuleThenFunction):
    def function(self, x: Tensor) -> Tensor:
        return F.hardswish(x)


@both(lambda: nn.ELU())
class Elu(ModuleThenFunction):
    def function(self, x: Tensor) -> Tensor:
        return F.elu(x)


@both(lambda: nn.LeakyReLU())
class LeakyRelu(ModuleThenFunction):
    def function(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x)


@both(lambda: nn.GELU())
class Gelu(ModuleThenFunction):
    def function(self, x: Tensor) -> Tensor:
        return F.gelu(x)


@both(lambda: nn.SiLU())
class Silu(ModuleThenFunction):
    def function(self, x: Tensor) -> Tensor:
        return F.silu(x)


@both(lambda: nn.Mish())
class Mish(ModuleThenFunction):
    def function(self, x: Tensor) -> Tensor:
        return F.mish(x)


@both(lambda: nn.LayerNorm([4, 8, 8]))
class LayerNorm(ModuleThenFunction):
    def function(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, [4, 8, 8])


@both(lambda: nn.InstanceNorm2d(4, affine=True))
class InstanceNorm(ModuleThenFunction):
    def function(self, x: Tensor) -> Tensor:
        return F.instance_norm(x)


@both(lambda: nn.GroupNorm(2, 4), lowered_difference="L-17: FX does not lower F.group_norm, though its table has it; tsq does")
class GroupNorm(ModuleThenFunction):
    def function(self, x: Tensor) -> Tensor:
        return F.group_norm(x, 2)


@both(lambda: nn.Softmax(dim=1))
class Softmax(ModuleThenFunction):
    def function(self, x: Tensor) -> Tensor:
        return F.softmax(x * 2, dim=1)


@case(normal(8, 8))
class LayerNormOfAttributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.randn(8, 8)
        self.b = torch.zeros(8)
        self.scale = torch.randn(8, 8)
        self.bias = torch.randn(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = F.linear(x, self.w, self.b)
        return F.layer_norm(x, [8, 8], weight=self.scale, bias=self.bias)


add_case("instance_norm3d_affine", lambda: nn.Sequential(nn.InstanceNorm3d(3, affine=True)), VOLUME, source=__file__)
add_case("prelu_of_one_slope", lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.PReLU()), IMAGE, source=__file__, lowered_difference=PRELU)
