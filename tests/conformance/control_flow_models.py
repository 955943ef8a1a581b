"""Models that FX cannot trace: control flow, containers, state, several methods, classes and interfaces of TorchScript.

`MODELS` maps a name to a `Model`: how to make it, the calls of forward to run one after the other, and what else users reach:
methods with their arguments, attributes.
"""

from dataclasses import dataclass, field
from typing import Callable, Dict, Final, List, NamedTuple, Optional, Tuple

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Model:
    make: Callable[[], nn.Module]
    calls: List[tuple]
    methods: List[Tuple[str, tuple]] = field(default_factory=list)
    attributes: List[str] = field(default_factory=list)


MODELS: Dict[str, Model] = {}


def rows(count: int = 4, shift: float = 0.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count + int(10 * shift))
    return torch.randn(count, 8, generator=generator) + shift


def image(batch: int = 2, size: int = 6) -> torch.Tensor:
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(batch + size))


def model(*calls, **options):
    """Registers a class; each call is a tuple of arguments, or one tensor."""

    def register(cls):
        name = "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")
        MODELS[name] = Model(cls, [call if isinstance(call, tuple) else (call,) for call in calls], **options)
        return cls

    return register


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)


# ---- prim::If


@model(rows(4), rows(1))
class IfOnShape(Base):
    def forward(self, x):
        if x.shape[0] > 1:
            y = self.first(x)
        else:
            y = self.second(x).relu()
        return y + 1


@model(rows(shift=1.0), rows(shift=-1.0))
class IfOnTensorValue(Base):
    def forward(self, x):
        if x.sum() > 0:
            x = self.first(x)
        return self.second(x)


@model((rows(), True), (rows(), False), (rows(),))
class IfOnArgument(Base):
    def forward(self, x, twice: bool = False):
        x = self.first(x)
        if twice:
            x = self.first(x)
        return x


@model(rows(4), rows(1), rows(shift=3.0))
class EarlyReturns(Base):
    def forward(self, x):
        if x.shape[0] == 1:
            return x
        y = self.first(x)
        if bool((y > 2).any()):
            return y.relu()
        z = self.second(y)
        return z - x


@model(rows(4), rows(2), rows(1), rows(6))
class NestedIfs(Base):
    def forward(self, x):
        if x.size(0) % 2 == 0:
            if x.size(0) > 3:
                y = self.first(x)
            elif x.size(0) > 5:
                y = x
            else:
                y = F.relu(self.second(x))
        else:
            y = x * 2
        return y, x.size(0)


@model(rows(4), rows(1))
class IfInsideSubmodule(nn.Module):
    class Inner(Base):
        def forward(self, x):
            if x.shape[0] > 2:
                return self.first(x)
            return self.second(x)

    def __init__(self):
        super().__init__()
        self.a = self.Inner()
        self.b = self.Inner()

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


@model(rows())
class TernaryOnNone(Base):
    scale: Optional[float]

    def __init__(self):
        super().__init__()
        self.scale = None
        self.absent: Optional[nn.Module] = None

    def forward(self, x):
        y = self.first(x)
        scale = self.scale
        if scale is not None:
            y = y * scale
        return y if self.absent is None else self.second(y)


# ---- prim::Loop


@model((rows(), 0), (rows(), 1), (rows(), 3))
class ForOverRange(Base):
    def forward(self, x, n: int):
        for _ in range(n):
            x = torch.tanh(self.first(x))
        return self.second(x)


@model(rows(shift=5.0), rows(shift=0.0))
class While(Base):
    def forward(self, x):
        steps = 0
        while float(x.abs().max()) > 1.0 and steps < 5:
            x = self.first(x) * 0.3
            steps += 1
        return x, steps


@model(([rows(1), rows(2), rows(3)],), ([],))
class ForOverTensors(Base):
    def forward(self, xs: List[torch.Tensor]):
        total = torch.zeros(8)
        for x in xs:
            total = total + self.first(x).sum(0)
        return total


@model((rows(6), 2), (rows(6), 9), (rows(6), -1))
class BreakAndContinue(Base):
    def forward(self, x, stop: int):
        outs: List[torch.Tensor] = []
        for i, row in enumerate(x.unbind(0)):
            if i == 1:
                continue
            if i == stop:
                break
            outs.append(self.first(row))
        if len(outs) == 0:
            return x
        return torch.stack(outs)


@model(rows(3), rows(5))
class ReturnInsideLoop(Base):
    def forward(self, x):
        for i in range(x.size(0)):
            x = self.first(x)
            if x[i].sum() < 0:
                return x
        return self.second(x)


@model(rows(3), rows(1))
class ListBuiltInLoop(Base):
    def forward(self, x):
        parts = []
        for i in range(x.size(0)):
            parts.append(self.first(x[i]))
        parts.append(self.second(x[0]))
        return torch.stack(parts), parts


@model(rows(3))
class ListChangedInLoop(Base):
    def forward(self, x):
        parts = [x, x + 1]
        for i in range(x.size(0)):
            parts[i % 2] = self.first(parts[i % 2])
        last = parts.pop()
        parts.extend([last, last])
        parts.insert(0, x)
        del parts[1]
        parts.reverse()
        return parts


@model(rows(3))
class Comprehensions(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x):
        ys = [layer(x) for layer in self.layers]
        zs = [y.relu() for y in ys]
        sizes = {i: z.size(0) for i, z in enumerate(zs)}
        return torch.cat(zs, 1), sizes


@model((rows(), 2), (rows(), 0))
class LoopsInLoops(Base):
    def forward(self, x, n: int):
        for i in range(n):
            for j in range(i + 1):
                if j % 2 == 0:
                    x = self.first(x)
                else:
                    x = self.second(x) + i
        return x


@model(rows(5))
class RecurrentCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(8, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        h, c = torch.zeros(1, 8), torch.zeros(1, 8)
        outs = torch.jit.annotate(List[torch.Tensor], [])
        for step in x.split(1, 0):
            h, c = self.cell(step, (h, c))
            outs += [self.out(h)]
        return torch.cat(outs), (h, c)


# ---- containers and signatures


class Boxes(NamedTuple):
    left: torch.Tensor
    right: Optional[torch.Tensor]
    count: int = 3


@model(rows())
class ReturnsNamedTuple(Base):
    def forward(self, x):
        y = self.first(x)
        return Boxes(y, None, y.size(0)), Boxes(y, self.second(y))


@model((Boxes(rows(), None, 1),), (Boxes(rows(), rows(), 2),))
class TakesNamedTuple(Base):
    def forward(self, boxes: Boxes):
        y = self.first(boxes.left) * boxes.count
        right = boxes.right
        if right is not None:
            y = y + self.second(right)
        return y


@model(({"a": rows(), "b": rows()},), ({"a": rows()},))
class TakesDict(Base):
    def forward(self, features: Dict[str, torch.Tensor]):
        out: Dict[str, torch.Tensor] = {}
        for name, x in features.items():
            out[name] = self.first(x)
        if "b" in features:
            out["sum"] = out["a"] + features["b"]
        return out


@model((rows(), (rows(), [rows()])))
class TakesNestedTuples(Base):
    def forward(self, x, more: Tuple[torch.Tensor, List[torch.Tensor]]):
        y, zs = more
        return (self.first(x), [self.second(z) for z in zs], {"y": (y, x)})


@model((rows(),), (rows(), rows()), (rows(), None, 2.0, "add"), (rows(), rows(), 0.5, "mul"))
class OptionalsAndDefaults(Base):
    def forward(self, x, mask: Optional[torch.Tensor] = None, scale: float = 1.0, mode: str = "mul", power: int = 2):
        y = self.first(x)
        if mask is not None:
            y = y * mask if mode == "mul" else y + mask
        return y * scale**power, mode


@model(rows())
class ReturnsNothingSometimes(Base):
    def forward(self, x) -> Tuple[torch.Tensor, Optional[torch.Tensor], None, str]:
        return self.first(x), None, None, "text"


@model(rows())
class ReturnsItsInput(Base):
    def forward(self, x):
        self.first(x)
        return x


@model(rows(), rows(1))
class Asserts(Base):
    def forward(self, x):
        assert x.dim() == 2, "two dimensions"
        assert x.size(0) > 1, f"got {x.size(0)} rows"
        if x.size(1) != 8:
            raise ValueError("eight columns")
        return self.first(x)


@model((torch.randn(2, 3, 8),), (torch.randn(1, 3, 9),), (torch.randn(8),))
class LibraryChecks(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        y = self.norm(x)
        return self.attention(y, y, y)[0]


# ---- state


@model(rows(), rows(), rows(), attributes=["count", "total"])
class CounterAndBuffer(Base):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.register_buffer("total", torch.zeros(8))

    def forward(self, x):
        self.count += 1
        y = self.first(x)
        self.total += y.mean(0)
        return y * self.count, self.total.clone()


@model(rows(1), rows(1), rows(1), methods=[("reset", ()), ("forward", (rows(1),))], attributes=["hidden"])
class HiddenState(Base):
    hidden: Optional[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.hidden = None

    @torch.jit.export
    def reset(self):
        self.hidden = None

    def forward(self, x):
        hidden = self.hidden
        y = self.first(x)
        if hidden is not None:
            y = y + self.second(hidden)
        y = torch.tanh(y)
        self.hidden = y
        return y


@model(rows(), rows(), rows(), attributes=["ring"])
class BufferWrittenByIndex(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("ring", torch.zeros(3, 8))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        self.ring[int(self.position)] = self.first(x).mean(0)
        self.position.add_(1).remainder_(3)
        return self.ring + 0


@model(rows(), rows(), rows())
class ListAndDictState(Base):
    history: List[torch.Tensor]
    seen: Dict[str, int]

    def __init__(self):
        super().__init__()
        self.history = []
        self.seen = {"rows": 0}

    def forward(self, x):
        self.history.append(self.first(x))
        self.seen["rows"] += x.size(0)
        self.seen["calls"] = self.seen.get("calls", 0) + 1
        return torch.stack(self.history).sum(0), self.seen


@model(rows(), rows())
class StateOfASubmodule(nn.Module):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 1

        def forward(self, x):
            self.count = self.count + 1
            return x * self.count

    def __init__(self):
        super().__init__()
        self.counters = nn.ModuleList([self.Counter(), self.Counter()])
        self.linear = nn.Linear(8, 8)
        self.count = 5

    def forward(self, x):
        for counter in self.counters:
            x = self.linear(counter(x))
        x = self.counters[0](x)
        return x, self.count, self.counters[1].count


@model(rows(), rows())
class StateWrittenByAnotherModule(nn.Module):
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.value = torch.zeros(1)
            self.flag = False

        def forward(self, x):
            return x + self.value if self.flag else x

    def __init__(self):
        super().__init__()
        self.inner = self.Inner()

    def forward(self, x):
        y = self.inner(x)
        self.inner.value = y.mean().reshape(1)
        self.inner.flag = not self.inner.flag
        return y


@model(rows(), rows())
class InPlaceOnViews(Base):
    def forward(self, x):
        y = self.first(x)
        left = y[:, :4]
        left.relu_()
        y[:, 4] = 7.0
        z = y.t()
        z.mul_(2)
        y.clamp_(-1, 3)
        return y, left


@model((rows().clone(),))
class InPlaceInBranches(Base):
    def forward(self, x):
        y = self.first(x)
        z = y.view(-1)
        if x.size(0) > 2:
            y += 1
        for i in range(x.size(0)):
            y[i] *= i
        return y, z


# ---- methods and attributes


@model(
    rows(),
    methods=[("encode", (rows(),)), ("encode", (rows(), 2.0)), ("decode", (rows(),)), ("names", ()), ("info", (3,))],
    attributes=["class_names", "version", "rate", "table", "mean", "settings", "final", "training"],
)
class SeveralMethods(Base):
    version: Optional[str]
    final: Final[List[int]]

    def __init__(self):
        super().__init__()
        self.class_names = ["cat", "dog"]
        self.version = "1.2"
        self.final = [4, 5]
        self.rate = 16000
        self.table = {"a": 1, "b": 2}
        self.settings = (1, 2.5, "x")
        self.register_buffer("mean", torch.arange(8.0))
        self.third = nn.Linear(8, 3)

    def _inner(self, x):
        return self.second(x).relu()

    @torch.jit.export
    def encode(self, x, scale: float = 0.5):
        return self._inner(x - self.mean) * scale

    @torch.jit.export
    def decode(self, y: torch.Tensor, bias: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, int]:
        z = self.third(self.first(y))
        return (z if bias is None else z + bias), self.rate

    @torch.jit.export
    def names(self) -> List[str]:
        return self.class_names

    @torch.jit.export
    def info(self, count: int = 1) -> Dict[str, int]:
        return {"count": count, "rate": self.rate}

    def forward(self, x):
        return self.third(self.first(self.encode(x, 1.0)))


@model(rows(), rows(), methods=[("step", (2,)), ("forward", (rows(),)), ("current", ())], attributes=["count"])
class MethodThatChangesState(Base):
    def __init__(self):
        super().__init__()
        self.count = 1

    @torch.jit.export
    def step(self, by: int = 1):
        self.count += by

    @torch.jit.export
    def current(self) -> int:
        return self.count

    def forward(self, x):
        return self.first(x) * self.count


@model(rows())
class MethodOfASubmodule(nn.Module):
    class Coder(Base):
        def forward(self, x):
            return self.decode(self.encode(x))

        @torch.jit.export
        def encode(self, x):
            return self.first(x)

        @torch.jit.export
        def decode(self, x):
            return self.second(x)

    def __init__(self):
        super().__init__()
        self.coder = self.Coder()
        self.between = nn.Linear(8, 8)

    def forward(self, x):
        return self.coder.decode(self.between(self.coder.encode(x))), self.coder(x)


# ---- reuse


@model(rows())
class CalledThreeTimes(Base):
    def forward(self, x):
        y = self.first(x)
        y = self.first(torch.relu(y))
        return self.first(y) + self.second(x)


@model(rows())
class TwoNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = self.a
        self.layers = nn.ModuleList([self.a, nn.ReLU(), self.b])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.a(x) + self.b(x)


@model(rows())
class TiedWeights(Base):
    def __init__(self):
        super().__init__()
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x)) + F.linear(x, self.first.weight)


@model(image())
class ListAndNamed(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleDict({"a": nn.Conv2d(3, 3, 1), "b": nn.Sequential(nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3), nn.ReLU())})
        self.tail = self.stages["a"]

    def forward(self, x):
        for name, stage in self.stages.items():
            x = stage(x)
            if name == "a":
                x = x + 1
        return self.tail(x)


@model((rows(), 3), (rows(), 0))
class ReuseInLoop(Base):
    def forward(self, x, n: int):
        y = self.first(x)
        for _ in range(n):
            y = self.first(y) + self.second(y)
        return self.first(y)


# ---- classes, interfaces, operators


@torch.jit.script
class Accumulator:
    def __init__(self, start: torch.Tensor):
        self.total = start
        self.count = 0

    def add(self, x: torch.Tensor):
        self.total = self.total + x
        self.count += 1

    def mean(self) -> torch.Tensor:
        return self.total / self.count


@model(rows())
class UsesAClass(Base):
    def forward(self, x):
        accumulator = Accumulator(torch.zeros(8))
        for row in self.first(x).unbind(0):
            accumulator.add(row)
        return self.second(accumulator.mean()), accumulator.count


@model(rows(), rows())
class HoldsAnObject(Base):
    def __init__(self):
        super().__init__()
        self.accumulator = Accumulator(torch.zeros(4, 8))

    def forward(self, x):
        self.accumulator.add(self.first(x))
        return self.accumulator.mean()


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


@model((rows(), 0), (rows(), 1))
class Interfaces(nn.Module):
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = 3.0
            self.inner = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) * self.factor

    class Shift(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    layer: Layer

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([self.Scale(), self.Shift()])
        self.layer = self.Scale()

    def forward(self, x, index: int):
        chosen: Layer = self.layers[index]
        return self.layer.forward(chosen.forward(x))


@model((rows(), 0), (rows(), 1), (rows(), 2))
class ChosenByBranches(nn.Module):
    left: Layer
    right: Layer

    def __init__(self):
        super().__init__()
        self.left = Interfaces.Scale()
        self.right = Interfaces.Shift()
        self.named = nn.ModuleDict({"left": Interfaces.Scale(), "right": Interfaces.Scale()})

    def forward(self, x, index: int):
        layer = self.left if index == 0 else (self.right if index == 1 else self.left)
        named: Layer = self.named["left" if index == 0 else "right"]
        listed: List[Layer] = [self.right, self.left, self.right]
        return listed[index].forward(named.forward(layer.forward(x)))


@model((rows(), 2), (rows(3), 0))
class Forks(Base):
    def halves(self, x):
        other = torch.jit.fork(self.first, x)
        return self.second(x), torch.jit.wait(other)

    def forward(self, x, n: int):
        pair = torch.jit.fork(self.halves, x)
        started: List[torch.jit.Future[torch.Tensor]] = []
        for i in range(n):
            started.append(torch.jit.fork(self.second, x + i))
        named: Dict[str, torch.jit.Future[torch.Tensor]] = {}
        named["first"] = torch.jit.fork(self.first, x)
        total = torch.jit.wait(named["first"])
        for each in started:
            total = total + torch.jit.wait(each)
        left, right = torch.jit.wait(pair)
        return total, left - right


@model(rows())
class UnknownOperators(Base):
    def forward(self, x):
        y = torch.special.bessel_j0(self.first(x))
        values, indices = torch.topk(y, 3)
        z = torch.ops.aten._softmax(values, 1, False)
        return z.to(torch.float64), indices, torch.fft.rfft(x).abs(), y.double().sum().item()


@model(rows())
class StringsAndNumbers(Base):
    def forward(self, x):
        text = "rows: {}".format(x.size(0))
        parts = text.split(" ")
        ratio = float(x.size(0)) / 3
        return self.first(x) * ratio, parts, [int(p) for p in parts[1:]], text.upper(), str(x.dtype)


@model(rows(), rows())
class NoGrad(Base):
    def forward(self, x):
        with torch.no_grad():
            y = self.first(x)
        return self.second(y)


@torch.jit.script
def smooth(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    for _ in range(times):
        x = (x + x.roll(1, 0)) / 2
    return x


@model(rows(), rows(1))
class FreeFunctions(Base):
    def forward(self, x):
        y = smooth(self.first(x))
        return smooth(y, x.size(0)), torch.jit._unwrap_optional(F.relu(y))


@model(rows())
class Slices(Base):
    def forward(self, x):
        a, b = x.chunk(2, 1)
        y = torch.cat([b, a], 1)
        first, *rest = (y, x)
        return self.first(y)[:, ::2], first[..., None, -1:], len(rest), (a, b)[0]


@model(rows(), rows())
class RandomNumbers(Base):
    def forward(self, x):
        return F.dropout(self.first(x), 0.5, True) + torch.rand_like(x)


@model((torch.randn(5, 2, 8),), (torch.randn(3, 1, 8),))
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8, 2)
        self.gru = nn.GRU(8, 4)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        z, g = self.gru(y)
        return z, h, c, g


@model(rows(), rows(2))
class HooksAndIgnored(Base):
    def __init__(self):
        super().__init__()
        self.first.register_forward_hook(add_one)

    @torch.jit.unused
    def debug(self, x: torch.Tensor) -> torch.Tensor:
        return x.numpy()

    def forward(self, x):
        if x.size(0) == 0:
            return self.debug(x)
        return self.first(x)


def add_one(self, inputs: Tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    return output + 1


@model(image(2), image(1))
class ResidualWithCondition(nn.Module):
    def __init__(self, downsample: bool = True):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.bn = nn.BatchNorm2d(3)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Conv2d(3, 3, 1) if downsample else None

    def forward(self, x):
        y = self.relu(self.bn(self.conv(x)))
        if self.downsample is not None:
            x = self.downsample(x)
        if x.shape[0] > 1:
            x = F.avg_pool2d(x, 3, 1, 1)
        y += x
        return self.relu(y)


# ---- writes into tensors that others see, and several of the above at once


@model(rows(4), rows(2))
class WritesInBranchesAndLoops(Base):
    def forward(self, x):
        y = self.first(x)
        out = torch.zeros_like(y)
        both = [y, out]
        for i in range(x.size(0)):
            out[i] = self.second(out)[i] + y[i]
            if i % 2 == 0:
                out[i, 1:3].relu_()
        y.masked_fill_(y < 0, 0.5)
        y.transpose(0, 1).add_(1.0)
        return torch.cat(both), x


@model((rows(), None), (rows(), rows()))
class StatesOfLayers(nn.Module):
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x, h: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
            if h is None:
                h = torch.zeros_like(x)
            gate = torch.sigmoid(self.linear(x + h))
            return gate * x, gate

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([self.Gate() for _ in range(3)])

    def forward(self, x, h: Optional[torch.Tensor] = None):
        states: List[torch.Tensor] = []
        for layer in self.layers:
            x, h = layer(x, h)
            states.append(h)
        return x, torch.stack(states), {"last": h}


@model(({"a": rows(), "b": rows()},), ({"b": rows()},))
class LayersByKey(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"a": nn.Linear(8, 4), "b": nn.Linear(8, 4)})

    def forward(self, features: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        out: Dict[str, torch.Tensor] = {}
        for name, layer in self.layers.items():
            if name in features:
                out[name] = torch.tanh(layer(features[name]))
        total = torch.zeros(4)
        for value in out.values():
            total = total + value.mean(0)
        out["total"] = total
        return out


@model((rows(), 3), (rows(), 6))
class WhileOnTensors(Base):
    def forward(self, x, n: int):
        i, limit = torch.tensor(0), torch.tensor(n)
        while bool(i < limit):
            x = F.relu(self.first(x)) if bool(i % 2 == 0) else self.second(x)
            i = i + 1
        return x, i


@model(rows(), rows(), rows(), attributes=["average", "steps"])
class RunningAverage(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.zeros(8))
        self.steps = 0

    def forward(self, x):
        y = self.first(x)
        before = self.average
        self.average.mul_(0.9).add_(y.mean(0), alpha=0.1)
        self.steps += 1
        return self.second(y + before), self.steps


@model(torch.arange(15).reshape(3, 5) % 10)
class TiedEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.middle = nn.Linear(8, 8)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids)
        mask = (ids != 0).unsqueeze(-1)
        return self.head((F.gelu(self.middle(x)) + x) * mask), ids + 1, mask.sum()
