"""Models for tables drawn at random, each with the operators, chains and trees that a table for it may name."""

import dataclasses
import operator
from typing import Callable

import torch
import torch as th
import torch.nn.functional as F
import torch.nn.functional as fn
from torch import Tensor, add, cat, nn
from torch.ao.quantization.utils import MatchAllNode
from torch.nn.functional import relu as rectified

from case import normal
from suite_backends import Mixed


@dataclasses.dataclass
class Tabled:
    build: type
    inputs: Callable
    single: tuple
    chains: tuple
    trees: tuple  # in the complex format: from the last operator back


MODELS: list[Tabled] = []


def tabled(**rest) -> Callable:
    def add(build: type) -> type:
        MODELS.append(Tabled(build=build, **rest))
        return build

    return add


@tabled(
    inputs=normal(2, 4, 8, 8),
    single=(nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.MaxPool2d, nn.GELU, nn.Linear, nn.Sigmoid, torch.add, operator.add, torch.flatten, F.relu, torch.cat, operator.mul, F.linear, operator.getitem),
    chains=((nn.Conv2d, nn.BatchNorm2d), (nn.Conv2d, nn.BatchNorm2d, nn.ReLU), (nn.Conv2d, nn.ReLU), (nn.Linear, F.relu), (torch.cat, operator.getitem), (operator.mul, F.linear), (nn.MaxPool2d, operator.add), (nn.ReLU, nn.GELU), (nn.BatchNorm2d, nn.ReLU), (nn.Linear, nn.Sigmoid), (torch.add, nn.MaxPool2d)),
    trees=((nn.ReLU, (nn.BatchNorm2d, nn.Conv2d)), (operator.add, (nn.MaxPool2d, torch.add), MatchAllNode), (operator.add, (nn.MaxPool2d, (torch.add, MatchAllNode, MatchAllNode)), MatchAllNode)),
)
class Fused(Mixed):
    """Convolutions and linear layers with what follows them, functions, halves of a tensor."""

    def __init__(self):
        super().__init__()
        self.second_relu = nn.ReLU()
        self.second_fc = nn.Linear(8, 8)
        self.sigmoid = nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn(self.conv(x)))
        x = self.pool(torch.add(y, x)) + 1.0
        x = self.gelu(self.second_relu(self.second(x)))
        x = F.relu(self.fc(torch.flatten(x, 1)))
        x = torch.cat([x, self.sigmoid(self.second_fc(x))], 1)
        return F.linear(x[:, :8] * x[:, 8:], self.weight, self.bias)


@tabled(
    inputs=normal(2, 4, 8, 8),
    single=(nn.ConvTranspose2d, nn.Conv2d, nn.BatchNorm2d, nn.ReLU6, nn.Hardtanh, nn.AdaptiveAvgPool2d, nn.Linear, nn.BatchNorm1d, nn.LayerNorm, nn.Dropout, operator.sub, torch.mean, F.relu, torch.flatten, operator.add, torch.relu, torch.sigmoid, "reshape", "unsqueeze", "squeeze"),
    chains=((nn.ConvTranspose2d, nn.BatchNorm2d), (nn.Conv2d, nn.ReLU6), (nn.Linear, nn.BatchNorm1d), (nn.BatchNorm2d, operator.sub), (operator.sub, F.relu), (nn.AdaptiveAvgPool2d, torch.flatten), (nn.Hardtanh, operator.add), (torch.relu, nn.Dropout), (nn.Linear, torch.sigmoid), (nn.Dropout, "reshape")),
    trees=((F.relu, (operator.sub, nn.BatchNorm2d, torch.mean)), (operator.sub, nn.BatchNorm2d, MatchAllNode), (operator.add, nn.Hardtanh, nn.LayerNorm), (operator.add, MatchAllNode, nn.LayerNorm)),
)
class Normed(nn.Module):
    """Norms, a transposed convolution, clamps, methods."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.up_bn = nn.BatchNorm2d(4)
        self.conv = nn.Conv2d(4, 6, 3)
        self.relu = nn.ReLU6()
        self.clamp = nn.Hardtanh()
        self.bn = nn.BatchNorm2d(6)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(6, 6)
        self.fc_bn = nn.BatchNorm1d(6)
        self.norm = nn.LayerNorm(6)
        self.dropout = nn.Dropout()
        self.last = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.conv(self.up_bn(self.up(x))))
        x = self.bn(x) - torch.mean(x)
        x = torch.flatten(self.average(F.relu(x, inplace=True)), 1)
        x = self.fc_bn(self.fc(x))
        x = self.clamp(x) + self.norm(x)
        x = self.dropout(torch.relu(x)).reshape(-1, 6)
        return torch.sigmoid(self.last(x)).unsqueeze(0).squeeze(0)


@tabled(
    inputs=normal(2, 4, 8, 8),
    single=(nn.Conv2d, nn.ReLU, nn.BatchNorm2d, nn.Conv1d, torch.add, F.max_pool2d, operator.add, "permute", "transpose", "flatten", F.relu, torch.matmul, F.hardswish, F.gelu),
    chains=((nn.Conv2d, nn.ReLU), (nn.Conv2d, nn.ReLU, nn.BatchNorm2d), (nn.ReLU, nn.BatchNorm2d), ("permute", "transpose"), (nn.Conv1d, F.relu), (operator.add, F.max_pool2d), (torch.add, nn.ReLU)),
    trees=((nn.ReLU, (torch.add, MatchAllNode, MatchAllNode)), (nn.ReLU, (torch.add, MatchAllNode, nn.Conv2d)), (nn.ReLU, (torch.add, nn.Conv2d, MatchAllNode)), (torch.matmul, MatchAllNode, "transpose"), (operator.add, F.hardswish, F.gelu)),
)
class Joined(nn.Module):
    """Branches that meet, products of activations."""

    def __init__(self):
        super().__init__()
        self.left = nn.Conv2d(4, 4, 1)
        self.right = nn.Conv2d(4, 4, 3, padding=1)
        self.left_relu = nn.ReLU()
        self.relu = nn.ReLU()
        self.layers = nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(), nn.BatchNorm2d(4))
        self.narrow = nn.Conv2d(4, 2, 1)
        self.line = nn.Conv1d(2, 3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(torch.add(self.left_relu(self.left(x)), self.right(x)))
        y = self.layers(F.max_pool2d(y + x, 2))
        y = self.narrow(y).permute(0, 2, 3, 1).transpose(1, 3)
        y = F.relu(self.line(y.flatten(2)))
        y = torch.matmul(y, y.transpose(1, 2))
        return F.hardswish(y) + F.gelu(y)


@tabled(
    inputs=normal(2, 4, 12),
    single=(nn.Conv1d, nn.BatchNorm1d, nn.ReLU, nn.LeakyReLU, nn.GroupNorm, nn.AvgPool1d, nn.Linear, nn.ELU, nn.Softmax, nn.Tanh, torch.chunk, torch.cat, torch.bmm, operator.add, operator.getitem, "transpose", "mean"),
    chains=((nn.Conv1d, nn.BatchNorm1d), (nn.Conv1d, nn.BatchNorm1d, nn.ReLU), (nn.Linear, nn.ELU), (torch.bmm, nn.Softmax), (torch.bmm, operator.add), (nn.GroupNorm, nn.AvgPool1d), (nn.AvgPool1d, "transpose"), (operator.add, nn.Tanh), (nn.Tanh, nn.Linear), (torch.chunk, operator.getitem)),
    trees=((nn.ReLU, (nn.BatchNorm1d, nn.Conv1d)), (operator.add, torch.bmm, nn.ELU), (operator.add, torch.bmm, MatchAllNode), (torch.bmm, nn.Softmax, MatchAllNode)),
)
class Signals(nn.Module):
    """One dimension: norms, a gate of two halves, a product with a softmax."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 3, padding=1)
        self.bn = nn.BatchNorm1d(8)
        self.relu = nn.ReLU()
        self.leaky = nn.LeakyReLU(0.2)
        self.norm = nn.GroupNorm(2, 8)
        self.pool = nn.AvgPool1d(2)
        self.fc = nn.Linear(8, 8)
        self.elu = nn.ELU()
        self.softmax = nn.Softmax(-1)
        self.tanh = nn.Tanh()
        self.out = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn(self.conv(x)))
        a, b = torch.chunk(x, 2, 1)
        x = torch.cat([self.tanh(a), self.leaky(b)], 1)
        x = self.pool(self.norm(x)).transpose(1, 2)
        y = self.elu(self.fc(x))
        s = self.softmax(torch.bmm(y, x.transpose(1, 2)))
        x = torch.bmm(s, x) + y
        return self.out(self.tanh(x)).mean(1)


@tabled(
    inputs=normal(2, 4, 8, 8),
    single=(F.conv2d, F.relu, F.avg_pool2d, nn.Conv2d, nn.ReLU6, torch.mul, F.hardsigmoid, F.interpolate, nn.Upsample, operator.sub, torch.clamp, F.adaptive_avg_pool2d, "squeeze", F.layer_norm, F.linear, F.leaky_relu),
    chains=((F.conv2d, F.relu), (nn.Conv2d, nn.ReLU6), (F.layer_norm, F.leaky_relu), (F.leaky_relu, F.linear), (operator.sub, torch.clamp), ("squeeze", "squeeze"), (nn.ReLU6, F.hardsigmoid), (F.relu, F.avg_pool2d)),
    trees=((torch.mul, F.avg_pool2d, F.hardsigmoid), (torch.mul, MatchAllNode, (F.hardsigmoid, nn.ReLU6)), (operator.sub, F.interpolate, nn.Upsample), (torch.clamp, (operator.sub, MatchAllNode, MatchAllNode))),
)
class Functions(nn.Module):
    """Functions with weights, resizing, a gate, functions whose arguments are written by position."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4, 3, 3) * 0.2)
        self.bias = nn.Parameter(torch.randn(6) * 0.1)
        self.matrix = nn.Parameter(torch.randn(5, 6) * 0.4)
        self.up = nn.Upsample(scale_factor=2.0)
        self.head = nn.Conv2d(6, 6, 1)
        self.relu6 = nn.ReLU6()

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(F.conv2d(x, self.weight, self.bias, padding=1))
        x = F.avg_pool2d(x, 2)
        y = self.relu6(self.head(x))
        x = torch.mul(x, F.hardsigmoid(y))
        x = F.interpolate(x, scale_factor=2.0) - self.up(y)
        x = torch.clamp(x, -1.0, 1.0)
        x = F.adaptive_avg_pool2d(x, 1).squeeze(-1).squeeze(-1)
        x = F.layer_norm(x, [6])
        return F.linear(F.leaky_relu(x, 0.1), self.matrix)


@tabled(
    inputs=normal(2, 4, 8, 8),
    single=(nn.Conv2d, nn.BatchNorm2d, nn.Hardswish, F.hardswish, nn.AdaptiveAvgPool2d, nn.ReLU, nn.Sigmoid, operator.mul, operator.add, torch.relu, nn.MaxPool2d, "mean", nn.Dropout, nn.Linear),
    chains=((nn.Conv2d, nn.BatchNorm2d), (nn.Conv2d, nn.BatchNorm2d, nn.Hardswish), (nn.BatchNorm2d, nn.Hardswish), (nn.BatchNorm2d, F.hardswish), (nn.Conv2d, nn.ReLU), (nn.Conv2d, nn.Sigmoid), (nn.Linear, nn.ReLU), (operator.add, torch.relu), (torch.relu, nn.MaxPool2d), (nn.ReLU, nn.Dropout)),
    trees=((operator.mul, F.hardswish, nn.Sigmoid), (operator.mul, MatchAllNode, (nn.Sigmoid, nn.Conv2d)), (operator.add, nn.BatchNorm2d, nn.Hardswish), (operator.add, (nn.BatchNorm2d, nn.Conv2d), MatchAllNode), (torch.relu, (operator.add, nn.BatchNorm2d, MatchAllNode))),
)
class Blocks(nn.Module):
    """A depthwise block with a squeeze, an excitation and a residual sum."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.Hardswish())
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.deep_bn = nn.BatchNorm2d(8)
        self.se = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 2, 1), nn.ReLU(), nn.Conv2d(2, 8, 1), nn.Sigmoid())
        self.project = nn.Conv2d(8, 8, 1)
        self.project_bn = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout()
        self.fc = nn.Linear(8, 6)
        self.fc_relu = nn.ReLU()
        self.last = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = F.hardswish(self.deep_bn(self.deep(x)))
        y = y * self.se(y)
        x = self.project_bn(self.project(y)) + x
        x = self.pool(torch.relu(x))
        x = x.mean([2, 3])
        x = self.drop(self.fc_relu(self.fc(x)))
        return self.last(x)


@tabled(
    inputs=normal(2, 4, 8, 8),
    single=(nn.Conv2d, nn.ReLU, nn.Linear, nn.GELU, nn.LayerNorm, torch.split, torch.stack, "sum", F.pad, operator.getitem, "contiguous", "view", "permute", "reshape", "size", operator.add, "mean"),
    chains=((nn.Conv2d, nn.ReLU), (nn.Linear, nn.GELU), (nn.GELU, nn.Linear), (operator.add, nn.LayerNorm), ("permute", "reshape"), (F.pad, operator.getitem), (torch.stack, "sum"), (nn.LayerNorm, "mean"), (operator.getitem, "contiguous"), ("mean", nn.Linear)),
    trees=((operator.add, MatchAllNode, nn.Linear), (operator.add, MatchAllNode, (nn.Linear, nn.GELU)), (nn.LayerNorm, (operator.add, MatchAllNode, MatchAllNode))),
)
class Shapes(nn.Module):
    """Splits, stacks, views, a residual of linear layers."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.point = nn.Conv2d(8, 8, 1)
        self.fc1 = nn.Linear(16, 12)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(12, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.conv(x))
        a, b = torch.split(self.point(x), 4, 1)
        x = torch.stack([a, b], 1).sum(1)
        x = F.pad(x, [0, 0, 1, 1])
        x = x[:, :, 1:-1].contiguous()
        x = x.view(x.size(0), 4, 16, 4).permute(0, 3, 1, 2).reshape(x.shape[0], -1, 16)
        x = x + self.fc2(self.act(self.fc1(x)))
        x = self.norm(x)
        return self.head(x.mean(dim=1))


@tabled(
    inputs=normal(2, 4, 8, 8),
    single=(nn.Conv2d, nn.BatchNorm2d, nn.SiLU, nn.Linear, operator.iadd, operator.add, F.relu, operator.sub, operator.imul, operator.truediv, torch.maximum, F.max_pool2d, torch.mean, "relu", F.softmax),
    chains=((nn.Conv2d, operator.iadd), (nn.BatchNorm2d, F.relu), (nn.Conv2d, operator.sub), (nn.SiLU, operator.truediv), (F.max_pool2d, torch.mean), ("relu", operator.add), (nn.Linear, F.softmax), (torch.maximum, F.max_pool2d), (torch.mean, "relu")),
    trees=((operator.iadd, nn.Conv2d, nn.Conv2d), (operator.iadd, nn.Conv2d, MatchAllNode), (torch.maximum, operator.truediv, MatchAllNode), (F.relu, (nn.BatchNorm2d, operator.iadd))),
)
class Inplace(nn.Module):
    """Operators that write into their argument, numbers on the left."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(4, 6, 3, padding=1)
        self.b = nn.Conv2d(4, 6, 1)
        self.bn = nn.BatchNorm2d(6)
        self.c = nn.Conv2d(6, 6, 1)
        self.act = nn.SiLU()
        self.fc = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        y += self.b(x)
        y = F.relu(self.bn(y), inplace=True)
        z = 1.0 - self.c(y)
        z *= 0.5
        y = self.act(z) / 2.0
        y = torch.maximum(y, z)
        y = F.max_pool2d(y, 2)
        y = torch.mean(y, [2, 3])
        y = y.relu() + 0.25
        return F.softmax(self.fc(y), dim=1)


@tabled(
    inputs=normal(2, 5, 8),
    single=(nn.Linear, nn.Dropout, nn.LayerNorm, F.gelu, "view", "transpose", torch.matmul, operator.mul, torch.softmax, operator.matmul, "contiguous", operator.add, torch.add, F.relu, operator.getitem),
    chains=((nn.Linear, F.gelu), (nn.Linear, "view"), ("view", "transpose"), (torch.matmul, operator.mul), (torch.softmax, nn.Dropout), (nn.Linear, F.relu), (F.relu, nn.Linear), (operator.add, nn.LayerNorm), (torch.add, nn.LayerNorm), ("contiguous", "view")),
    trees=((operator.add, MatchAllNode, nn.Linear), (nn.LayerNorm, (operator.add, MatchAllNode, nn.Linear)), (torch.add, nn.LayerNorm, nn.Linear), (operator.matmul, nn.Dropout, MatchAllNode), (torch.matmul, "transpose", "transpose")),
)
class Attention(nn.Module):
    """A transformer layer written out."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 12)
        self.q = nn.Linear(12, 12)
        self.k = nn.Linear(12, 12)
        self.v = nn.Linear(12, 12, bias=False)
        self.drop = nn.Dropout(0.1)
        self.o = nn.Linear(12, 12)
        self.n1 = nn.LayerNorm(12)
        self.n2 = nn.LayerNorm(12)
        self.up = nn.Linear(12, 24)
        self.down = nn.Linear(24, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.embed(x))
        b, t, d = x.shape
        q = self.q(x).view(b, t, 2, 6).transpose(1, 2)
        k = self.k(x).view(b, t, 2, 6).transpose(1, 2)
        v = self.v(x).view(b, t, 2, 6).transpose(1, 2)
        s = torch.matmul(q, k.transpose(-2, -1)) * 0.4
        s = self.drop(torch.softmax(s, -1))
        y = (s @ v).transpose(1, 2).contiguous().view(b, t, d)
        x = self.n1(x + self.o(y))
        x = self.n2(torch.add(x, self.down(F.relu(self.up(x)))))
        return x


@tabled(
    inputs=normal(2, 4, 8, 8),
    single=(nn.Conv2d, nn.ReLU, nn.BatchNorm2d, nn.ConvTranspose2d, nn.Sigmoid, nn.LeakyReLU, nn.Linear, F.leaky_relu, torch.cat, torch.mul, operator.add, operator.sub, F.adaptive_avg_pool2d, "flatten", torch.tanh),
    chains=((nn.Conv2d, nn.ReLU), (nn.Conv2d, nn.BatchNorm2d), (nn.BatchNorm2d, F.leaky_relu), (nn.ConvTranspose2d, nn.LeakyReLU), (torch.cat, nn.Conv2d), (F.adaptive_avg_pool2d, "flatten"), (nn.Linear, torch.tanh), (nn.LeakyReLU, nn.Sigmoid), (torch.mul, operator.add)),
    trees=((operator.add, torch.mul, torch.mul), (torch.mul, nn.Conv2d, nn.Sigmoid), (torch.mul, MatchAllNode, operator.sub), (operator.add, torch.mul, MatchAllNode), (nn.ReLU, nn.Conv2d)),
)
class Several(nn.Module):
    """Two outputs, a transposed convolution, a mask of 1 - g."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.relu = nn.ReLU()
        self.down = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.sigmoid = nn.Sigmoid()
        self.mix = nn.Conv2d(12, 4, 1)
        self.leaky = nn.LeakyReLU(0.1)
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Tensor):
        x = self.relu(self.conv(x))
        y = F.leaky_relu(self.bn(self.down(x)), 0.2)
        z = self.leaky(self.up(y))
        g = self.sigmoid(z[:, :4])
        m = self.mix(torch.cat((x, z), dim=1))
        m = torch.mul(m, g) + torch.mul(x, 1 - g)
        p = F.adaptive_avg_pool2d(m, (1, 1)).flatten(1)
        return m, torch.tanh(self.fc(p))


@tabled(
    inputs=normal(2, 4, 8, 8),
    single=(nn.Conv2d, nn.ReLU, nn.BatchNorm2d, torch.add, operator.add, "add", torch.relu, F.relu, "relu", operator.mul, torch.mul, "mul", torch.cat, F.avg_pool2d, nn.Linear, "flatten", torch.flatten),
    chains=((nn.Conv2d, nn.BatchNorm2d), (nn.Conv2d, nn.ReLU), (torch.add, torch.relu), (operator.add, F.relu), ("add", "relu"), (torch.mul, operator.add), (nn.Linear, F.relu), (F.avg_pool2d, "flatten")),
    trees=((torch.relu, (torch.add, MatchAllNode, nn.Conv2d)), (operator.add, torch.mul, MatchAllNode), (F.relu, (operator.add, MatchAllNode, MatchAllNode))),
)
class Spelled(nn.Module):
    """Sums and products in every spelling, by other names, in loops and in statements of several lines."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(4, 6, 3, padding=1)
        self.b = nn.Conv2d(6, 6, 1)
        self.bn = nn.BatchNorm2d(6)
        self.c = nn.Conv2d(6, 6, 1)
        self.c2 = nn.Conv2d(6, 6, 1)
        self.r = nn.ReLU()
        self.fc = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn(self.a(x))
        y = th.relu(th.add(x, self.b(x))) + x.relu()
        x = (
            torch.mul(y, x)
            + y.add(x)
            * 0.5
        )
        x = rectified(x + self.c(x)).mul(0.7)
        x = rectified(x + self.c2(x)).mul(0.7)
        for _ in range(2):
            x = torch.mul(x, 1.1) + y
        z = fn.avg_pool2d(x, 2) * fn.avg_pool2d(y, 2)
        z = cat([z, add(z, 1.0)], 1)
        z = torch.relu(z).mean([2, 3]).flatten(1)
        return fn.relu(self.fc(z))


@tabled(
    inputs=normal(2, 6, 12),
    single=(nn.Linear, nn.LayerNorm, torch.matmul, operator.matmul, "matmul", torch.softmax, F.softmax, "softmax", torch.transpose, "transpose", operator.truediv, torch.div, "view", "reshape", torch.reshape, operator.sub, torch.sub, nn.GELU, F.gelu, nn.Dropout, torch.tanh, "tanh"),
    chains=((nn.Linear, nn.GELU), (nn.Linear, F.gelu), (torch.matmul, operator.truediv), (operator.truediv, "softmax"), ("transpose", "reshape"), (torch.sub, nn.LayerNorm), (torch.tanh, nn.Linear)),
    trees=((operator.matmul, "softmax", MatchAllNode), (torch.sub, MatchAllNode, torch.tanh)),
)
class Heads(nn.Module):
    """Attention in methods, functions and operators of Python."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(12, 36)
        self.o = nn.Linear(12, 12)
        self.n = nn.LayerNorm(12)
        self.m = nn.LayerNorm(12)
        self.u = nn.Linear(12, 20)
        self.g = nn.GELU()
        self.d = nn.Linear(20, 12)
        self.drop = nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        s = torch.matmul(q, th.transpose(k, 1, 2)) / 3.0
        s = self.drop(s.softmax(-1))
        y = (s @ v).reshape(x.size(0), -1, 12)
        x = self.n(x - self.o(y))
        a, b = th.chunk(self.u(x), 2, dim=-1)
        z = torch.cat((fn.gelu(a), self.g(b)), -1)
        z = torch.sub(x, torch.tanh(self.d(z))) - z.mean(-1, keepdim=True).tanh()
        w = th.softmax(z, -1).matmul(z.transpose(1, 2)).div(2.0)
        return self.m(torch.reshape(w @ z, (2, 6, 12)))


@tabled(
    inputs=normal(2, 3, 10, 10),
    single=(nn.Conv2d, nn.BatchNorm2d, nn.Hardswish, nn.Sigmoid, torch.sigmoid, "sigmoid", operator.imul, operator.mul, "mul_", operator.iadd, operator.add, "add_", F.relu, F.hardsigmoid, nn.AdaptiveAvgPool2d, F.adaptive_avg_pool2d, F.interpolate, torch.cat, nn.ReLU6, "clamp", torch.clamp, "clamp_", nn.MaxPool2d, F.max_pool2d, torch.squeeze, "squeeze", torch.unsqueeze, "unsqueeze"),
    chains=((nn.Conv2d, nn.BatchNorm2d), (nn.Conv2d, nn.Hardswish), (nn.Conv2d, nn.ReLU6), (operator.iadd, F.relu), (operator.imul, torch.clamp), (F.max_pool2d, operator.add), (nn.Sigmoid, operator.mul), ("sigmoid", operator.mul)),
    trees=((operator.mul, MatchAllNode, nn.Sigmoid), (operator.mul, MatchAllNode, "sigmoid"), (operator.iadd, nn.Conv2d, MatchAllNode), (F.relu, (operator.iadd, MatchAllNode, nn.Conv2d))),
)
class Gates(nn.Module):
    """Gates, resizing, operators that write into their argument."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.an = nn.BatchNorm2d(8)
        self.h = nn.Hardswish()
        self.b = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.s = nn.Conv2d(8, 8, 1)
        self.sig = nn.Sigmoid()
        self.c = nn.Conv2d(8, 4, 1)
        self.six = nn.ReLU6()
        self.max = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.h(self.an(self.a(x)))
        y = self.b(x)
        y += x
        y = F.relu(y, inplace=True)
        y = y * self.sig(self.s(self.pool(y))) + x.sigmoid() * 0.25
        z = self.six(self.c(self.max(y)))
        z *= 0.5
        z = torch.clamp(z, 0.0, 1.5) + F.max_pool2d(z, 3, stride=1, padding=1)
        u = F.interpolate(z, scale_factor=2.0)
        w = torch.cat([u, y], dim=1).clamp(-1.0, 2.0)
        w = F.adaptive_avg_pool2d(w, 1) if self.training else F.adaptive_avg_pool2d(w, (1, 1))
        w = torch.squeeze(w, -1).squeeze(-1)
        return torch.unsqueeze(torch.sigmoid(w), 1).add_(1.0)
