"""Makes random models: a tree of blocks from a seed, the tree the Python text of a module, which TorchScript can compile."""

import dataclasses
from typing import FrozenSet, List, Optional

import calls
import compounds
import layers
from program import WIDTHS, Program, Scope, Spec, Value, seeded

# name: (function, kinds of values that it takes, how often, how many lists of blocks are inside)
ANY = ("image", "signal", "sequence", "vector")
MAPS = ("image", "signal")
BLOCKS = {
    "conv": (layers.conv, MAPS, 14, 0),
    "conv_transpose": (layers.conv_transpose, MAPS, 2, 0),
    "separable": (layers.separable, MAPS, 3, 0),
    "linear": (layers.linear, ("sequence", "vector"), 14, 0),
    "linear_of_maps": (layers.linear, MAPS, 2, 0),
    "mlp": (layers.mlp, ANY, 3, 0),
    "tied": (layers.tied, ("sequence", "vector"), 2, 0),
    "twice": (layers.twice, ANY, 2, 0),
    "norm": (layers.norm, ANY, 8, 0),
    "activation": (layers.activation, ANY, 12, 0),
    "arithmetic": (layers.arithmetic, ANY, 6, 0),
    "softmax": (layers.softmax, ANY, 1, 0),
    "pool": (layers.pool, MAPS, 4, 0),
    "resize": (layers.resize, MAPS, 2, 0),
    "pad": (layers.pad, MAPS, 2, 0),
    "write": (layers.write, ANY, 3, 0),
    "shuffle": (layers.shuffle, ANY, 3, 0),
    "cut": (layers.cut, ANY, 2, 0),
    "casts": (layers.casts, ANY, 1, 0),
    "to_sequence": (compounds.to_sequence, ("image", "signal", "vector"), 2, 0),
    "to_signal": (compounds.to_signal, ("image", "sequence"), 2, 0),
    "to_image": (compounds.to_image, ("signal",), 2, 0),
    "to_vector": (compounds.to_vector, ("image", "signal", "sequence"), 2, 0),
    "attention": (compounds.attention, ("sequence",), 8, 0),
    "recurrent": (compounds.recurrent, ("sequence",), 3, 0),
    "positions": (compounds.positions, ("sequence",), 2, 0),
    "residual": (compounds.residual, ANY, 6, 1),
    "branches": (compounds.branches, ANY, 5, 2),
    "gate": (compounds.gate, ANY, 3, 0),
    "branch": (compounds.branch, ANY, 3, 2),
    "optional_step": (compounds.optional_step, ANY, 2, 1),
    "module_list": (compounds.module_list, ANY, 3, 1),
    "loop": (compounds.loop, ANY, 3, 1),
    "module_dict": (compounds.module_dict, ANY, 1, 2),
    "sequential": (compounds.sequential, ANY, 2, 2),
    "dictionary": (compounds.dictionary, ANY, 3, 2),
    "optional_argument": (compounds.optional_argument, ANY, 2, 1),
    "method": (compounds.method, ANY, 1, 1),
    "early_return": (compounds.early_return, ANY, 1, 1),
    "pair": (compounds.pair, ANY, 1, 1),
}
# Blocks that take the place of one of those above, now and then: the models of a seed from which they are left out stay as they were without them.
LATER_BLOCKS = {
    "parameters": (layers.parameters, ANY, 3, 0),
    "filter_bank": (layers.filter_bank, ("signal", "sequence", "vector"), 3, 0),
    "masked_nan": (layers.masked_nan, ANY, 2, 0),
    "masked_attention": (compounds.masked_attention, ("sequence",), 3, 0),
    "fork": (calls.fork, ANY, 3, 2),
    "interface": (calls.interface, ANY, 3, 2),
    "exported": (calls.exported, ANY, 3, 1),
    "shared": (calls.shared, ANY, 3, 0),
    "shared_between": (calls.shared_between, ANY, 2, 2),
}
ALL_BLOCKS = {**BLOCKS, **LATER_BLOCKS}
LATER = 0.12
DEEPEST = 3


def drawn(blocks: dict, value: Value, deep: int, without: FrozenSet[str], r) -> str:
    names = [name for name, (_, kinds, _, inner) in blocks.items() if value.kind in kinds and (inner == 0 or deep < DEEPEST)]
    weights = [0 if name in without else blocks[name][2] for name in names]
    return r.choices(names, weights)[0] if any(weights) else ""


def choose_kind(seed: str, value: Value, deep: int, without: FrozenSet[str], r) -> str:
    kind = drawn(BLOCKS, value, deep, without, r)
    later = seeded(seed + "/later")
    other = drawn(LATER_BLOCKS, value, deep, frozenset(), later) if later.random() < LATER else ""
    return kind if other in without else other or kind


class Writer(Scope):
    """A scope in which blocks of a tree are written."""

    def __init__(self, program: Program, keep: bool, depth: int) -> None:
        super().__init__(program, keep, depth)
        self.spec: Optional[Spec] = None

    def inner(self, index: int) -> List[Spec]:
        """What is inside of the present block; drawn when it is first asked for."""
        spec = self.spec
        if spec.inner is None:
            r = seeded(spec.seed + "/inner")
            spec.inner = [[Spec(f"{spec.seed}/{part}/{each}") for each in range(r.choice([1, 1, 2, 3]))] for part in range(ALL_BLOCKS[spec.kind][3])]
        return spec.inner[index]

    def write(self, specs: List[Spec], value: Value) -> Value:
        for spec in specs:
            r = seeded(spec.seed)
            kind = choose_kind(spec.seed, value, self.depth, self.program.without, r)
            spec.kind = spec.kind or kind
            function, kinds = ALL_BLOCKS[spec.kind][:2]
            if value.kind not in kinds:
                continue
            outer, self.spec, self.depth = self.spec, spec, self.depth + 1
            made = function(self, value, r)
            self.spec, self.depth = outer, self.depth - 1
            if made is not None and not (self.keep and not made.like(name=value.name) == value):
                value = made
        return value

    def write_all(self, index: int, value: Value, keep: bool) -> Value:
        before, self.keep = self.keep, keep
        made = self.write(self.inner(index), value)
        self.keep = before
        return made

    def write_class(self, index: int, value: Value, arguments: str = "", result: str = "{0}", early: str = "") -> str:
        """A class of its own, whose forward has the blocks; its name."""
        name = f"Part{self.program.number()}"
        part = Writer(self.program, True, self.depth)
        part.first, part.spec = "", self.spec
        made = part.write(self.inner(index), value.like(name="x"))
        if early:
            part.lines[:0] = [early, "    return x * 0.5"]
        part.finish(name, "x: Tensor" + arguments, result.format(made.name))
        return name


@dataclasses.dataclass
class Input:
    """An argument of forward: `kind` as of values, or tokens."""

    name: str
    kind: str
    channels: int
    sizes: tuple
    batch: bool = True


@dataclasses.dataclass
class Model:
    """What the text of a model says, and what it takes."""

    text: str
    inputs: List[Input]
    free_batch: bool
    free_sizes: bool
    scripts: bool
    precision: str
    distribution: str
    spec: Spec


def entry_value(program: Program, s: Writer, given: Input, r) -> Value:
    if given.kind != "tokens":
        return Value("x", given.kind, given.channels, given.sizes, given.batch)
    width = r.choice(WIDTHS)
    if r.random() < 0.2 and given.batch:
        bag = s.attribute("bag", f"nn.EmbeddingBag(100, {width}, mode='{r.choice(['mean', 'sum'])}')")
        return Value(s.let(f"{bag}(x)"), "vector", width, (), True)
    table = s.attribute("embedding", f"nn.Embedding(100, {width}{r.choice(['', ', padding_idx=0'])})")
    s.table = table
    return Value(s.let(r.choice([f"{table}(x)", f"{table}(x) * {width ** 0.5:.3f}", f"F.embedding(x, {table}.weight)"])), "sequence", width, given.sizes, given.batch)


def entry_input(r) -> Input:
    kind = r.choice(["image", "image", "image", "signal", "sequence", "sequence", "vector", "tokens"])
    batch = r.random() > 0.1
    sizes = {"image": lambda: (r.choice([8, 12, 16]), r.choice([8, 12, 16])), "vector": tuple}.get(kind, lambda: (r.choice([8, 12, 16, 20]),))()
    channels = {"image": r.choice([3, 3, 4, 8]), "signal": r.choice([2, 4, 8, 16])}.get(kind, r.choice([16, 24, 32]))
    return Input("x", kind, channels, sizes, batch)


def second_input(s: Writer, value: Value, r) -> Optional[Input]:
    """Another tensor that joins the first one."""
    return Input("y", value.kind, value.channels, value.sizes, value.batch)


def results(s: Writer, value: Value, middle: Value, r) -> str:
    way = r.random()
    if way < 0.7:
        return value.name
    if way < 0.8:
        return f"({value.name}, {middle.name})"
    if way < 0.87:
        return f"{{'out': {value.name}, 'middle': {middle.name}}}"
    if way < 0.94:
        return f"[{middle.name}, {value.name}]"
    return f"({value.name}, [{middle.name}], {value.name}.size(-1))"


def write_model(seed: str, spec: Spec, without: FrozenSet[str] = frozenset()) -> Model:
    """`spec` holds the blocks of forward, in `inner[0]`."""
    program, r = Program(without), seeded(seed + "/model")
    precision = r.choices(["float", "half", "bfloat16", "double"], [92, 3, 3, 2])[0]
    distribution = r.choice(["normal", "normal", "uniform", "relu", "wide"])
    s = Writer(program, False, 0)
    given = entry_input(r)
    if given.kind == "tokens" or precision != "float":
        s.first = "" if given.kind == "tokens" else "x"
    inputs, value = [given], entry_value(program, s, given, r)
    blocks = spec.inner[0]
    half = len(blocks) // 2
    middle = s.write(blocks[:half], value)
    two = seeded(seed + "/second")
    if two.random() < 0.1 and middle.name not in ("x",) and not middle.kind == "vector" and given.kind == "signal" and middle.same_shape(value):
        inputs.append(second_input(s, middle, two))
        middle = middle.like(name=s.let(f"{middle.name} + y"))
    last = s.write(blocks[half:], middle)
    if hasattr(s, "table") and last.kind == "sequence" and two.random() < 0.3 and last.channels == value.channels:
        last = last.like(name=s.let(f"F.linear({last.name}, {s.table}.weight)"), channels=100)
    arguments = ", ".join(f"{each.name}: Tensor" for each in inputs)
    s.finish("Model", arguments, results(s, last, middle, seeded(seed + "/results")))
    return Model(program.text(), inputs, program.free_batch, program.free_sizes, program.scripts, precision, distribution, spec)


def random_model(seed: str, without: FrozenSet[str] = frozenset()) -> Model:
    r = seeded(seed)
    spec = Spec(seed, "model", [[Spec(f"{seed}/{each}") for each in range(r.randint(3, 12))]])
    return write_model(seed, spec, without)


def smaller(spec: Spec) -> List[Spec]:
    """The trees with one block less, or with a block's inside in its place; those that lose most come first."""
    found = []

    def visit(root: Spec, lists_of) -> None:
        for part, blocks in enumerate(lists_of(root)):
            for index in range(len(blocks)):
                copy = spec_root.copy()
                here = locate(copy, path + [(part, index)])
                del here[0][here[1]]
                found.append(copy)
                if blocks[index].inner:
                    for inner in blocks[index].inner:
                        copy = spec_root.copy()
                        place, at = locate(copy, path + [(part, index)])
                        place[at : at + 1] = [each.copy() for each in inner]
                        found.append(copy)
                    path.append((part, index))
                    visit(blocks[index], lists_of)
                    path.pop()

    def locate(root: Spec, steps):
        for part, index in steps[:-1]:
            root = root.inner[part][index]
        part, index = steps[-1]
        return root.inner[part], index

    spec_root, path = spec, []
    visit(spec, lambda each: each.inner or [])
    return sorted(found, key=Spec.count)
