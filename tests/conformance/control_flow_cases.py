"""Quantization in and around control flow, which FX cannot trace.

Where the data takes one way through a model, tsq must equal FX on that way written out (`fx_model`); elsewhere it must be near
float.
"""

from typing import List, Optional, Tuple

import torch
from torch import nn
from torch.nn import functional as F

from case import Excused, add_case, case, normal, without_vnni

ROWS = normal(4, 8)
IMAGE = normal(2, 3, 8, 8)
NO_FX = "FX cannot trace control flow"
SEVEN_BITS = Excused(22, "values go around a loop, on x86 and fbgemm with activations of 7 bits")


def flow(name: str, model, straight, *inputs, **options) -> None:
    """A model whose data takes the way of `straight`."""
    add_case(name, model, *inputs, fx_model=straight, fx_model_is_one_way=True, known_difference=NO_FX, **options)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.third = nn.Linear(8, 8)


# ---- if


class IfBothBranches(Layers):
    def forward(self, x):
        if x.shape[0] > 1:
            y = self.first(x)
        else:
            y = self.second(x)
        return self.third(y)


class IfBothBranchesStraight(IfBothBranches):
    def forward(self, x):
        return self.third(self.first(x))


flow("if_both_branches", IfBothBranches, IfBothBranchesStraight, ROWS)


class IfOtherBranchStraight(IfBothBranches):
    def forward(self, x):
        return self.third(self.second(x))


flow("if_other_branch", IfBothBranches, IfOtherBranchStraight, normal(1, 8))


class IfChain(nn.Module):
    """Fusions inside of branches; a pool after the join keeps its range."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.other = nn.Conv2d(3, 4, 3)
        self.pool = nn.MaxPool2d(2)
        self.last = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        if x.shape[0] > 1:
            y = self.relu(self.bn(self.conv(x)))
        else:
            y = torch.relu(self.other(x))
        return self.last(self.pool(y))


class IfChainStraight(IfChain):
    def forward(self, x):
        return self.last(self.pool(self.relu(self.bn(self.conv(x)))))


flow("if_chain", IfChain, IfChainStraight, IMAGE)


class IfWithoutElse(Layers):
    """The value that goes round the branch is rounded on its way."""

    def forward(self, x):
        if x.shape[0] > 1:
            x = self.first(x)
        return self.second(x)


class IfWithoutElseStraight(IfWithoutElse):
    def forward(self, x):
        return self.second(self.first(x))


flow("if_without_else", IfWithoutElse, IfWithoutElseStraight, ROWS)


class IfSkippedStraight(IfWithoutElse):
    def forward(self, x):
        return self.second(x)


flow("if_skipped", IfWithoutElse, IfSkippedStraight, normal(1, 8))


class NestedIfs(Layers):
    def forward(self, x):
        if x.shape[0] > 1:
            if x.shape[1] == 8:
                y = self.first(x)
            else:
                y = self.second(x)
        else:
            y = self.third(x)
        return self.second(y)


class NestedIfsStraight(NestedIfs):
    def forward(self, x):
        return self.second(self.first(x))


flow("nested_ifs", NestedIfs, NestedIfsStraight, ROWS)


class IfWithRaise(Layers):
    def forward(self, x):
        if x.shape[0] == 4:
            y = self.first(x)
        elif x.shape[0] == 5:
            y = self.second(x)
        else:
            raise ValueError("four or five rows")
        return self.third(y)


flow("if_with_raise", IfWithRaise, IfBothBranchesStraight, ROWS)


class EarlyReturn(Layers):
    def forward(self, x):
        if x.shape[0] == 1:
            return self.second(x)
        y = self.first(x)
        return self.third(y)


flow("early_return", EarlyReturn, IfBothBranchesStraight, ROWS)


class EarlyReturnTakenStraight(Layers):
    def forward(self, x):
        return self.second(x)


flow("early_return_taken", EarlyReturn, EarlyReturnTakenStraight, normal(1, 8))


@case(ROWS, known_difference=NO_FX)
class IfOnValues(Layers):
    """Both branches are taken; each round of data may take another."""

    def forward(self, x):
        outs: List[torch.Tensor] = []
        for row in x.split(1):
            if bool(row.sum() > 0):
                y = self.first(row)
            else:
                y = self.second(row).relu()
            outs.append(self.third(y))
        return torch.cat(outs)


@case(ROWS, known_difference=NO_FX)
class JoinReadTwice(Layers):
    def forward(self, x):
        if x.sum() > 0:
            y = self.first(x)
        else:
            y = self.second(x)
        return self.third(y) + y, torch.sin(y)


@case(ROWS, known_difference=NO_FX)
class JoinOfFixedRanges(Layers):
    """A sigmoid has a range of its own."""

    def forward(self, x):
        if x.sum() > 0:
            y = torch.sigmoid(self.first(x))
        else:
            y = self.second(x)
        return self.third(y)


@case(ROWS, known_difference=NO_FX)
class JoinOfTwoValues(Layers):
    def forward(self, x):
        if x.sum() > 0:
            a, b = self.first(x), self.second(x)
        else:
            a, b = self.second(x), torch.sin(x)
        return self.third(a), self.third(b)


# ---- loops


class LoopOnce(Layers):
    def forward(self, x):
        for _ in range(x.shape[0] - 3):
            x = self.first(x)
        return self.second(x)


class LoopOnceStraight(LoopOnce):
    def forward(self, x):
        return self.second(self.first(x))


flow("loop_once", LoopOnce, LoopOnceStraight, ROWS)


@case(normal(3, 8), known_difference=NO_FX)
class LoopOverRows(Layers):
    def forward(self, x):
        for _ in range(x.shape[0]):
            x = torch.relu(self.first(x)) + self.second(x)
        return self.third(x)


@case(normal(3, 8), known_difference=NO_FX)
class WhileBig(Layers):
    def forward(self, x):
        steps = 0
        while float(x.abs().max()) > 0.5 and steps < 3:
            x = self.second(torch.relu(self.first(x)))
            steps += 1
        return self.third(x), steps


@case(normal(40, 8), known_difference=NO_FX, min_sqnr=SEVEN_BITS, layer_reads_fixed_range=True)
class RecurrentState(nn.Module):
    """The state goes round as float."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.state = nn.Linear(8, 8)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        hidden = torch.zeros(1, 8)
        outs: List[torch.Tensor] = []
        for step in x.split(1):
            hidden = torch.tanh(self.inner(step) + self.state(hidden))
            outs.append(self.out(hidden))
        return torch.cat(outs), hidden


class UnrolledLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x):
        outs = [layer(x) for layer in self.layers]
        for layer in self.layers:
            x = torch.relu(layer(x))
        return torch.cat(outs, 1), x


class UnrolledLayersStraight(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.layers_copy = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x):
        outs = [layer(x) for layer in self.layers]
        for layer in self.layers_copy:
            x = torch.relu(layer(x))
        return torch.cat(outs, 1), x


flow("layers_in_a_comprehension", UnrolledLayers, UnrolledLayersStraight, ROWS)


# ---- reuse


@case(ROWS, known_difference=NO_FX, min_sqnr=SEVEN_BITS)
class ReuseInAndOutOfLoop(Layers):
    def forward(self, x):
        y = self.first(x)
        for _ in range(x.shape[0]):
            y = self.first(y)
        return self.first(y * 4)


class TiedWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8, bias=False)
        self.b = nn.Linear(8, 8, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


add_case("tied_weights", TiedWeights, ROWS)


class TwoNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = self.a

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class TwoNamesStraight(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.a_copy = nn.Linear(8, 8)

    def forward(self, x):
        return self.a_copy(torch.relu(self.a(x)))


flow("two_names", TwoNames, TwoNamesStraight, ROWS)


# ---- arguments, state


class OptionalArgument(Layers):
    def forward(self, x, mask: Optional[torch.Tensor] = None):
        y = self.first(x)
        if mask is not None:
            y = y * mask
        return self.second(y)


class OptionalArgumentStraight(OptionalArgument):
    def forward(self, x):
        return self.second(self.first(x))


flow("optional_argument_left_out", OptionalArgument, OptionalArgumentStraight, ROWS)


class OptionalArgumentGivenStraight(OptionalArgument):
    def forward(self, x, mask):
        return self.second(self.first(x) * mask)


flow("optional_argument_given", OptionalArgument, OptionalArgumentGivenStraight, ROWS, ROWS)


class Asserts(Layers):
    def forward(self, x):
        assert x.dim() == 2
        if x.size(1) != 8:
            raise ValueError("eight columns")
        return self.second(self.first(x))


flow("asserts", Asserts, OptionalArgumentStraight, ROWS)


@case(ROWS, known_difference=NO_FX, min_sqnr={engine: without_vnni(22, "a layer reads tanh's 8 bits") for engine in ("x86", "fbgemm")})
class HiddenState(Layers):
    """The first evaluation batch must meet the state of the file, not that of calibration."""

    hidden: Optional[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.hidden = None
        self.register_buffer("total", torch.zeros(8))
        self.count = 0

    def forward(self, x):
        hidden = self.hidden
        y = self.first(x)
        if hidden is not None:
            y = y + self.second(hidden)
        y = torch.tanh(y)
        self.hidden = y
        self.count += 1
        self.total += y.sum(0)
        return self.third(y), self.count, self.total.clone()
