"""Blocks about how layers are called: forked, through an interface, by exported methods, and one layer from several places."""

from compounds import condition
from layers import DIMENSIONS, as_rows, from_rows
from program import Value

JOINS = ["{0} + {1}", "torch.maximum({0}, {1})", "{0} * torch.sigmoid({1})", "({0} + {1}) * 0.5", "{0} - {1}"]


def fork(s, v: Value, r):
    """Layers that run beside each other."""
    a, way = s.write_class(0, v), r.choice(["two", "inline", "list", "method"])
    first = s.attribute("forked", f"{a}()")
    if way == "two":
        second = s.attribute("forked", f"{s.write_class(1, v)}()")
        futures = s.let(f"torch.jit.fork({first}, {v.name})"), s.let(f"torch.jit.fork({second}, {v.name})")
        return v.like(name=s.let(r.choice(JOINS).format(*(f"torch.jit.wait({each})" for each in futures))))
    if way == "inline":
        future = s.let(f"torch.jit.fork({first}, {v.name})")
        beside = s.write_all(1, v, keep=True)
        return v.like(name=s.let(r.choice(JOINS).format(beside.name, f"torch.jit.wait({future})")))
    if way == "method":
        called = f"method{s.program.number()}"
        s.methods.append(f"    def {called}(self, y: Tensor, scale: float) -> Tensor:\n        return {first}(y) * scale\n")
        future = s.let(f"torch.jit.fork(self.{called}, {v.name}, {r.choice([0.5, 1.5])})")
        return v.like(name=s.let(f"{v.name} + torch.jit.wait({future})"))
    futures, total = f"futures{s.program.number()}", f"v{s.program.number()}"
    layers = s.attribute("forked", f"nn.ModuleList([{a}() for _ in range({r.choice([2, 3])})])")
    s.line(f"{futures}: List[torch.jit.Future[Tensor]] = []")
    with s.inside(f"for layer in {layers}:"):
        s.line(f"{futures}.append(torch.jit.fork(layer, {v.name}))")
    s.line(f"{total} = {v.name} * 0.5")
    with s.inside(f"for future in {futures}:"):
        s.line(f"{total} = {total} + torch.jit.wait(future)")
    return v.like(name=total)


def interface(s, v: Value, r):
    """A submodule whose class TorchScript knows by its interface only: another one takes its place, or an index chooses it."""
    a, b = s.write_class(0, v), s.write_class(1, v)
    name = f"Interface{s.program.number()}"
    s.program.classes.append(f"@torch.jit.interface\nclass {name}(nn.Module):\n    def forward(self, x: Tensor) -> Tensor:\n        pass\n")
    way = r.choice(["swapped", "swapped", "loop", "condition"])
    if way == "swapped":
        held = s.attribute("by_interface", f"{a}()")
        s.annotations.append(f"{held[len('self.'):]}: {name}")
        s.init.append(f"{held} = {b}()")
        return v.like(name=s.let(r.choice(["{0}.forward({1})", "{1} + {0}.forward({1})", "{0}.forward({0}.forward({1}))"]).format(held, v.name)))
    layers, chosen = s.attribute("by_interface", f"nn.ModuleList([{a}(), {b}()])"), f"chosen{s.program.number()}"
    out = s.let(v.name)
    if way == "loop":
        with s.inside(f"for i{chosen} in range(2):"):
            s.line(f"{chosen}: {name} = {layers}[i{chosen}]")
            s.line(f"{out} = {chosen}.forward({out})")
    else:
        s.line(f"{chosen}: {name} = {layers}[1 if {condition(s, v, r)} else 0]")
        s.line(f"{out} = {chosen}.forward({out})")
    return v.like(name=out)


def exported(s, v: Value, r):
    """An exported method, which forward calls or not, or of a submodule."""
    way = r.choice(["called", "called", "of_part", "alone"])
    layer = s.attribute("step", f"{s.write_class(0, v)}()")
    if way == "of_part":
        holder = f"Holder{s.program.number()}"
        s.program.classes.append(
            f"class {holder}(nn.Module):\n    def __init__(self, step):\n        super().__init__()\n        self.step = step\n\n"
            "    def forward(self, x: Tensor) -> Tensor:\n        return self.scaled(x, 0.5) + x\n\n"
            "    @torch.jit.export\n    def scaled(self, x: Tensor, scale: float) -> Tensor:\n        return self.step(x) * scale\n"
        )
        held = s.attribute("holder", f"{holder}({layer})")
        return v.like(name=s.let(r.choice([f"{held}({v.name})", f"{held}.scaled({v.name}, 1.5)", f"{held}.scaled({held}({v.name}), 0.7)"])))
    called = f"exported{s.program.number()}"
    s.methods.append(f"    @torch.jit.export\n    def {called}(self, y: Tensor) -> Tensor:\n        return F.relu({layer}(y)) + y\n")
    return v.like(name=s.let(f"self.{called}({v.name})" if way == "called" else f"{layer}({v.name})"))


def shared(s, v: Value, r):
    """One linear layer, called in branches, in a loop, and around other operators."""
    rows, out = as_rows(s, v), f"v{s.program.number()}"
    layer = s.attribute("shared", f"nn.Linear({v.channels}, {v.channels}, bias={r.random() < 0.8})")
    way = r.choice(["branches", "loop", "three", "before"])
    if way == "branches":
        with s.inside(f"if {condition(s, v, r)}:"):
            s.line(f"{out} = {layer}({rows.name})")
        with s.inside("else:"):
            s.line(f"{out} = {layer}(torch.tanh({layer}({rows.name})))")
    elif way == "before":
        before = s.let(f"{layer}({rows.name})")
        s.line(f"{out} = F.relu({before})")
        with s.inside(f"if {condition(s, v, r)}:"):
            s.line(f"{out} = {layer}({out}) + {before}")
    elif way == "loop":
        s.line(f"{out} = {rows.name}")
        with s.inside(f"for i{out} in range({r.choice([2, 3])}):"):
            s.line(f"{out} = {r.choice(['torch.tanh', 'F.relu', 'F.gelu'])}({layer}({out})) * 0.5")
    else:
        s.line(f"{out} = {layer}({rows.name}) + {layer}(F.relu({rows.name})) * torch.sigmoid({layer}(-{rows.name}))")
    return from_rows(s, rows.like(name=out), v)


def shared_between(s, v: Value, r):
    """One layer that two modules hold."""
    layer = s.attribute("shared", f"nn.Linear({v.channels}, {v.channels})" if v.channels_last else f"nn.Conv{DIMENSIONS[v.kind]}({v.channels}, {v.channels}, 1)")
    held = []
    for part in range(2):
        holder, inside = f"Holder{s.program.number()}", s.write_class(part, v)
        s.program.classes.append(
            f"class {holder}(nn.Module):\n    def __init__(self, layer):\n        super().__init__()\n        self.layer = layer\n        self.part = {inside}()\n\n"
            f"    def forward(self, x: Tensor) -> Tensor:\n        return {r.choice(['self.part(self.layer(x))', 'self.layer(self.part(x))', 'F.relu(self.layer(x)) + self.part(x)'])}\n"
        )
        held.append(s.attribute("holder", f"{holder}({layer})"))
    return v.like(name=s.let(r.choice([f"{held[1]}({held[0]}({v.name}))", r.choice(JOINS).format(*(f"{each}({v.name})" for each in held))])))
