"""The text of a random model while it is written: values with their shapes, classes, and the tree of blocks that makes them."""

import dataclasses
import random
from typing import FrozenSet, List, Optional

WIDTHS = (8, 12, 16, 24, 32, 48)
# Dimensions after the batch: where channels are, and what else there is.
SPATIAL = {"image": 2, "signal": 1, "sequence": 1, "vector": 0}


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of the model: `name` is its variable, `sizes` are height and width, or the length."""

    name: str
    kind: str  # image [B, C, H, W], signal [B, C, T], sequence [B, T, C] or vector [B, C]
    channels: int
    sizes: tuple = ()
    batch: bool = True  # whether there is a dimension of the batch

    @property
    def rank(self) -> int:
        return 1 + SPATIAL[self.kind] + self.batch

    @property
    def channels_last(self) -> bool:
        return self.kind in ("sequence", "vector")

    @property
    def channel_dim(self) -> int:
        """Counted from the start."""
        return self.rank - 1 if self.channels_last else int(self.batch)

    @property
    def broadcast(self) -> str:
        """The shape of a tensor of one number a channel."""
        return ", ".join([str(self.channels)] + ["1"] * (0 if self.channels_last else SPATIAL[self.kind]))

    def like(self, **changes) -> "Value":
        return dataclasses.replace(self, **changes)

    def same_shape(self, other: "Value") -> bool:
        return self.like(name="") == other.like(name="")


class Spec:
    """A block of the tree. Its kind and what is inside are chosen when it is first written, and stay: a tree from which
    blocks were taken away writes those that are left as before, as far as they fit."""

    def __init__(self, seed: str, kind: Optional[str] = None, inner: Optional[List[List["Spec"]]] = None) -> None:
        self.seed, self.kind, self.inner = seed, kind, inner

    def copy(self) -> "Spec":
        inner = None if self.inner is None else [[each.copy() for each in blocks] for blocks in self.inner]
        return Spec(self.seed, self.kind, inner)

    def count(self) -> int:
        return 1 + sum(each.count() for blocks in self.inner or [] for each in blocks)

    def __str__(self) -> str:
        inside = "; ".join(" ".join(map(str, blocks)) for blocks in self.inner or [])
        return f"{self.kind}({inside})" if inside else str(self.kind)


class Program:
    """All classes of a model, and what holds for the whole of it. `without`: names of blocks that are not drawn."""

    def __init__(self, without: FrozenSet[str] = frozenset()) -> None:
        self.without = without
        self.classes: List[str] = []
        self.free_batch = True  # other batch sizes run
        self.free_sizes = True  # other lengths, heights and widths run
        self.scripts = True  # torch.jit.script takes it
        self.counter = 0

    def number(self) -> int:
        self.counter += 1
        return self.counter

    def text(self) -> str:
        head = "import math\nfrom typing import Dict, List, NamedTuple, Optional, Tuple\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import Tensor, nn\n"
        return head + "".join("\n\n" + text for text in self.classes)


class Scope:
    """One class while its `__init__` and `forward` are written. `keep`: blocks must keep the shape of what they get."""

    def __init__(self, program: Program, keep: bool, depth: int) -> None:
        self.program, self.keep, self.depth = program, keep, depth
        self.init: List[str] = []
        self.lines: List[str] = []
        self.methods: List[str] = []
        self.annotations: List[str] = []  # of the class's attributes
        self.indent = 0
        self.first: str = "x"  # the value that entered the model, for conditions on values

    def attribute(self, prefix: str, expression: str) -> str:
        name = f"{prefix}{self.program.number()}"
        self.init.append(f"self.{name} = {expression}")
        return f"self.{name}"

    def buffer(self, expression: str) -> str:
        name = f"buffer{self.program.number()}"
        self.init.append(f'self.register_buffer("{name}", {expression})')
        return f"self.{name}"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def let(self, expression: str) -> str:
        name = f"v{self.program.number()}"
        self.line(f"{name} = {expression}")
        return name

    def inside(self, header: str) -> "Indented":
        return Indented(self, header)

    def finish(self, name: str, arguments: str, result: str, base: str = "nn.Module") -> None:
        init = "".join(f"        {line}\n" for line in self.init)
        body = "".join(f"        {line}\n" for line in self.lines)
        methods = "".join("\n" + text for text in self.methods)
        annotations = "".join(f"    {line}\n" for line in self.annotations) + ("\n" if self.annotations else "")
        self.program.classes.append(
            f"class {name}({base}):\n{annotations}    def __init__(self):\n        super().__init__()\n{init}\n    def forward(self, {arguments}):\n{body}        return {result}\n{methods}"
        )


class Indented:
    def __init__(self, scope: Scope, header: str) -> None:
        self.scope, self.header = scope, header

    def __enter__(self) -> None:
        self.scope.line(self.header)
        self.scope.indent += 1

    def __exit__(self, *_) -> None:
        self.scope.indent -= 1


def seeded(text: str) -> random.Random:
    return random.Random(text)
