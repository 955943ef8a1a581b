"""Models that write into tensors, and that compute with whole numbers beside floats: FX refuses the former when it traces, and
the latter when they run. tsq must be near float."""

from typing import List

import torch
from torch import nn
from torch.nn import functional as F

from case import Excused, case, normal

ROWS = normal(4, 8)
NO_WRITES = "FX cannot trace an assignment to a part of a tensor"
NO_INTEGERS = "FX observes whole numbers, which no operator quantizes"


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)


@case(ROWS, known_difference=NO_WRITES)
class WritesAColumn(Layers):
    def forward(self, x):
        y = self.first(x)
        y[:, 0] = 2.0
        return self.second(y)


@case(ROWS, known_difference=NO_WRITES)
class WritesTwiceAndReadsBetween(Layers):
    def forward(self, x):
        y = self.first(x)
        z = y.relu()
        y[:, 0] = 2.0
        w = self.second(y)
        y[:, 1:3] = w[:, 1:3]
        return self.second(y) + z


@case(ROWS, known_difference=NO_WRITES)
class WritesThroughAView(Layers):
    def forward(self, x):
        y = self.first(x)
        y.view(-1).relu_()
        y.transpose(0, 1).add_(1.0)
        return self.second(y)


@case(ROWS, known_difference=NO_WRITES)
class WritesInABranch(Layers):
    def forward(self, x):
        y = self.first(x)
        if x.size(0) > 3:
            y[:, 2] += 1.0
        else:
            y.relu_()
        return self.second(y)


@case(ROWS, known_difference=NO_WRITES, min_sqnr=Excused(20, "each turn of the loop rounds what the one before it rounded"))
class WritesInALoop(Layers):
    def forward(self, x):
        y = self.first(x)
        out = torch.zeros_like(y)
        for i in range(x.size(0)):
            out[i] = self.second(out)[i] + y[i]
        return self.second(out)


@case(ROWS, known_difference=NO_WRITES)
class WritesWhatAListHolds(Layers):
    def forward(self, x):
        y = self.first(x)
        both = [y, self.second(x)]
        for i in range(x.size(0)):
            both[i % 2][i] = 0.5
        return self.second(torch.cat(both, 0))


@case(ROWS, known_difference=NO_WRITES)
class WritesIntoItsInput(Layers):
    def forward(self, x):
        y = self.first(x)
        x[:, :4] = 0.5
        return self.second(x) + y


@case(ROWS, known_difference=NO_INTEGERS)
class WholeNumbersBesideFloats(Layers):
    def forward(self, x):
        y = self.first(x)
        best = (y.argmax(1) + 1).clamp(0, 7).view(-1, 1)
        both = torch.cat([best, best], 1)
        return self.second(y), torch.gather(y, 1, both), both * 2


@case(ROWS, known_difference=NO_INTEGERS)
class DoublesBesideFloats(Layers):
    def forward(self, x):
        y = self.first(x)
        return self.second(y), F.relu(y.double() + y.double())


@case(ROWS, known_difference=NO_INTEGERS)
class LoopWithAConditionOnATensor(Layers):
    def forward(self, x):
        turn = torch.zeros(1, dtype=torch.long)
        ys: List[torch.Tensor] = []
        while bool(turn < 3):
            x = F.relu(self.first(x)) + self.second(x)
            ys.append(x)
            turn = turn + 1
        return torch.stack(ys), turn
