"""Blocks that hold others or many operators: joins, branches, loops, containers, attention, recurrent layers, changes of shape."""

from layers import DIMENSIONS, as_rows, from_rows
from program import WIDTHS, Value


# ---- changes of shape


def to_sequence(s, v: Value, r):
    if s.keep:
        return None
    if v.kind == "image":
        start = int(v.batch)
        text = r.choice([f"{v.name}.flatten({start + 1}).transpose({start}, {start + 1})", f"{v.name}.permute({'0, 2, 3, 1' if v.batch else '1, 2, 0'}).flatten({start}, {start + 1})"])
        return v.like(name=s.let(text), kind="sequence", sizes=(v.sizes[0] * v.sizes[1],))
    if v.kind == "signal":
        return v.like(name=s.let(r.choice([f"{v.name}.transpose(-1, -2)", f"{v.name}.permute({'0, 2, 1' if v.batch else '1, 0'})"])), kind="sequence")
    if v.channels % 4 == 0 and v.channels >= 16:  # a vector
        lead = "-1, " if v.batch else ""
        return v.like(name=s.let(f"{v.name}.view({lead}4, {v.channels // 4})"), kind="sequence", channels=v.channels // 4, sizes=(4,))
    return None


def to_signal(s, v: Value, r):
    if s.keep:
        return None
    if v.kind == "sequence":
        return v.like(name=s.let(f"{v.name}.transpose(-1, -2)" + r.choice(["", ".contiguous()"])), kind="signal")
    if v.kind == "image":
        if r.random() < 0.5:
            return v.like(name=s.let(f"{v.name}.flatten(-2)"), kind="signal", sizes=(v.sizes[0] * v.sizes[1],))
        return v.like(name=s.let(r.choice([f"{v.name}.mean(-2)", f"{v.name}.amax(dim=-2)"])), kind="signal", sizes=v.sizes[1:])
    return None


def to_image(s, v: Value, r):
    if s.keep or not v.batch:
        return None
    if v.kind == "signal" and v.channels % 4 == 0 and v.channels > 8:
        return v.like(name=s.let(f"{v.name}.unflatten(1, ({v.channels // 4}, 4))"), kind="image", channels=v.channels // 4, sizes=(4,) + v.sizes)
    return None


def to_vector(s, v: Value, r):
    if s.keep:
        return None
    n = len(v.sizes)
    if v.kind == "sequence":
        text = r.choice([f"{v.name}.mean(-2)", f"{v.name}.max(dim=-2)[0]", f"{v.name}.amax(-2)", f"{v.name}.select(-2, 0)", f"{v.name}[{':, ' if v.batch else ''}-1]", f"torch.logsumexp({v.name}, dim=-2)", f"{v.name}.sum(-2) / {v.name}.size(-2)"])
        return v.like(name=s.let(text), kind="vector", sizes=())
    count = v.channels
    for size in v.sizes:
        count *= size
    d = DIMENSIONS[v.kind]
    dims = str([-1 - i for i in range(n)])
    if r.random() < 0.25 and count <= 768:
        s.program.free_sizes = False
        text = r.choice([f"torch.flatten({v.name}, {int(v.batch)})", f"{s.attribute('flatten', f'nn.Flatten({int(v.batch)})')}({v.name})", f"{v.name}.reshape({v.name}.size(0), -1)" if v.batch else f"{v.name}.reshape(-1)", f"{v.name}.flatten({int(v.batch)})"])
        return v.like(name=s.let(text), kind="vector", channels=count, sizes=())
    text = r.choice([f"{v.name}.mean({dims})", f"torch.flatten({s.attribute('pool', f'nn.AdaptiveAvgPool{d}(1)')}({v.name}), {int(v.batch)})", f"F.adaptive_max_pool{d}({v.name}, 1).flatten({int(v.batch)})", f"{v.name}.amax({dims})", f"{v.name}.flatten({int(v.batch) + 1}).mean(-1)"])
    return v.like(name=s.let(text), kind="vector", sizes=())


# ---- attention and recurrent layers


def attention(s, v: Value, r):
    c = v.channels
    heads = r.choice([h for h in (1, 2, 4) if c % h == 0])
    part, way = c // heads, r.random()
    if way < 0.35:
        weights = r.random() < 0.4
        first = v.batch and r.random() < 0.7
        layer = s.attribute("attention", f"nn.MultiheadAttention({c}, {heads}, batch_first={first})")
        name = v.name if first or not v.batch else s.let(f"{v.name}.transpose(0, 1)")
        out = s.let(f"{layer}({name}, {name}, {name}, need_weights={weights})[0]")
        return v.like(name=out if first or not v.batch else s.let(f"{out}.transpose(0, 1)"))
    if way < 0.5:
        layer = f"nn.TransformerEncoderLayer({c}, {heads}, {r.choice(WIDTHS)}, batch_first=True, norm_first={r.random() < 0.5}, activation='{r.choice(['relu', 'gelu'])}')"
        if r.random() < 0.5:
            layer = f"nn.TransformerEncoder({layer}, {r.choice([1, 2])}, enable_nested_tensor=False)"
        return v.like(name=s.let(f"{s.attribute('encoder', layer)}({v.name})"))
    if not v.batch:
        return None
    shape = f"{v.name}.size(0), {v.name}.size(1)"
    q, k, value = (f"v{s.program.number()}" for _ in range(3))
    if r.random() < 0.5:
        packed = s.let(f"{s.attribute('packed', f'nn.Linear({c}, {3 * c})')}({v.name})")
        if r.random() < 0.5:
            packed = s.let(f"{packed}.reshape({shape}, 3, {heads}, {part}).permute(2, 0, 3, 1, 4)")
            s.line(r.choice([f"{q}, {k}, {value} = {packed}.unbind(0)", f"{q}, {k}, {value} = {packed}[0], {packed}[1], {packed}[2]"]))
        else:
            parts = [f"v{s.program.number()}" for _ in range(3)]
            s.line(f"{', '.join(parts)} = " + r.choice([f"{packed}.chunk(3, dim=-1)", f"torch.split({packed}, {c}, dim=-1)"]))
            for name, each in zip((q, k, value), parts):
                s.line(f"{name} = {each}.view({shape}, {heads}, {part}).transpose(1, 2)")
    else:
        for name in (q, k, value):
            layer = s.attribute("project", f"nn.Linear({c}, {c})")
            s.line(f"{name} = {layer}({v.name}).view({shape}, {heads}, {part}).transpose(1, 2)")
    if r.random() < 0.4:
        mixed = s.let(f"F.scaled_dot_product_attention({q}, {k}, {value}{', is_causal=True' if r.random() < 0.3 else ''})")
    else:
        scores = s.let(r.choice([f"torch.matmul({q}, {k}.transpose(-2, -1)) / math.sqrt({part})", f"({q} * {part ** -0.5:.5f}) @ {k}.transpose(-2, -1)", f"torch.einsum('bhqc,bhkc->bhqk', {q}, {k}) * {part ** -0.5:.5f}"]))
        if r.random() < 0.3:
            mask = s.let(f"torch.ones({v.name}.size(1), {v.name}.size(1), device={v.name}.device).tril()")
            far = r.choice(["-1e4", "float('-inf')"])
            scores = s.let(f"{scores}.masked_fill({mask} == 0, {far})")
        mixed = s.let(f"torch.matmul(F.softmax({scores}, dim=-1), {value})")
    merged = s.let(f"{mixed}.transpose(1, 2).reshape({shape}, {c})")
    return v.like(name=s.let(f"{s.attribute('project', f'nn.Linear({c}, {c})')}({merged})"))


def masked_attention(s, v: Value, r):
    """Attention in which a mask leaves out all that a row could see: its NaN is taken away afterwards."""
    if not v.batch:
        return None
    c, device = v.channels, f"device={v.name}.device"
    if r.random() < 0.4:  # a sample of padding only
        lengths = s.let(f"torch.arange({v.name}.size(0), {device}) * 3")
        padding = s.let(f"torch.arange({v.name}.size(1), {device}).unsqueeze(0) >= {lengths}.unsqueeze(1)")
        layer = s.attribute("attention", f"nn.MultiheadAttention({c}, {r.choice([h for h in (1, 2, 4) if c % h == 0])}, batch_first=True)")
        mixed = s.let(f"{layer}({v.name}, {v.name}, {v.name}, key_padding_mask={padding}, need_weights=False)[0]")
        return v.like(name=s.let(r.choice([f"torch.where({padding}.unsqueeze(-1), torch.zeros_like({mixed}), {mixed})", f"{mixed}.masked_fill({padding}.unsqueeze(-1), 0.0)", f"{v.name} + torch.nan_to_num({mixed})"])))
    q, k, value = (s.let(f"{s.attribute('project', f'nn.Linear({c}, {c})')}({v.name})") for _ in range(3))
    mask = s.let(f"torch.ones({v.name}.size(1), {v.name}.size(1), {device}).triu() > 0")  # the first row sees nothing
    if r.random() < 0.3:
        mixed = s.let(f"F.scaled_dot_product_attention({q}, {k}, {value}, attn_mask=~{mask})")
        return v.like(name=s.let(f"torch.nan_to_num({mixed})"))
    scores = s.let(f"({q} @ {k}.transpose(-2, -1) * {c ** -0.5:.4f}).masked_fill({mask}, float('-inf'))")
    weights = s.let(f"F.softmax({scores}, dim=-1)")
    if r.random() < 0.5:
        kept = s.let(r.choice([f"torch.nan_to_num({weights})", f"{weights}.masked_fill({mask}, 0.0)", f"torch.where({mask}, torch.zeros_like({weights}), {weights})"]))
        return v.like(name=s.let(f"{kept} @ {value}"))
    mixed = s.let(f"torch.matmul({weights}, {value})")
    return v.like(name=s.let(r.choice([f"torch.where(torch.isnan({mixed}), {v.name}, {mixed})", f"{v.name} + torch.nan_to_num({mixed})"])))


def recurrent(s, v: Value, r):
    both = r.random() < 0.3 and v.channels % 2 == 0
    hidden = v.channels // (2 if both else 1) if s.keep else r.choice([8, 16, 24])
    kind, layers = r.choice(["LSTM", "LSTM", "GRU"]), r.choice([1, 1, 2])
    if r.random() < 0.15 and v.batch:
        cell = s.attribute("cell", f"nn.GRUCell({v.channels}, {hidden})")
        out = hidden
        state = s.let(f"torch.zeros({v.name}.size(0), {hidden}, device={v.name}.device, dtype={v.name}.dtype)")
        states = f"states{s.program.number()}"
        s.line(f"{states}: List[Tensor] = []")
        with s.inside(f"for i{states} in range({v.name}.size(1)):"):
            s.line(f"{state} = {cell}({v.name}[:, i{states}], {state})")
            s.line(f"{states}.append({state})")
        return v.like(name=s.let(f"torch.stack({states}, dim=1)"), channels=out) if out == v.channels or not s.keep else None
    out = hidden * (2 if both else 1)
    layer = s.attribute("recurrent", f"nn.{kind}({v.channels}, {hidden}, {layers}, batch_first=True, bidirectional={both})")
    return v.like(name=s.let(f"{layer}({v.name})[0]"), channels=out)


def positions(s, v: Value, r):
    table = s.attribute("positions", f"nn.Parameter(torch.randn(512, {v.channels}) * 0.3)") if r.random() < 0.6 else s.buffer(f"torch.randn(512, {v.channels}) * 0.3")
    if r.random() < 0.3:
        layer = s.attribute("positions", f"nn.Embedding(512, {v.channels})")
        return v.like(name=s.let(f"{v.name} + {layer}(torch.arange({v.name}.size(-2), device={v.name}.device)) * 0.3"))
    return v.like(name=s.let(f"{v.name} + {table}[:{v.name}.size(-2)]"))


# ---- joins


def residual(s, v: Value, r):
    out = s.write_all(0, v, keep=True)
    return v.like(name=s.let(r.choice([f"{v.name} + {out.name}", f"{out.name} + {v.name}", f"torch.add({v.name}, {out.name})", f"F.relu({v.name} + {out.name})", f"{out.name}.add({v.name})", f"({v.name} + {out.name}) * 0.7", f"torch.add({v.name}, {out.name}, alpha=0.5)"])))


def branches(s, v: Value, r):
    a, b = s.write_all(0, v, keep=True), s.write_all(1, v, keep=True)
    d = v.channel_dim
    if not s.keep and v.channels <= 32 and r.random() < 0.5:
        return v.like(name=s.let(r.choice([f"torch.cat([{a.name}, {b.name}], dim={d})", f"torch.cat(({a.name}, {b.name}), {d})", f"torch.concat([{b.name}, {a.name}], {d})"])), channels=2 * v.channels)
    return v.like(name=s.let(r.choice([f"{a.name} + {b.name}", f"{a.name} * torch.sigmoid({b.name})", f"torch.maximum({a.name}, {b.name})", f"torch.stack([{a.name}, {b.name}]).mean(0)", f"torch.stack([{a.name}, {b.name}], dim={d}).amax({d})", f"{a.name} - {b.name}", f"torch.lerp({a.name}, {b.name}, 0.3)", f"({a.name} + {b.name}) / 2"])))


def gate(s, v: Value, r):
    """Squeeze and excitation."""
    few = max(4, v.channels // 4)
    if v.channels_last:
        scale = f"torch.sigmoid({s.attribute('gate', f'nn.Linear({v.channels}, {v.channels})')}({v.name}))"
        return v.like(name=s.let(r.choice([f"{v.name} * {scale}", f"{scale} * {v.name}"])))
    d, dims = DIMENSIONS[v.kind], str([-1 - i for i in range(len(v.sizes))])
    mean = s.let(r.choice([f"{v.name}.mean({dims}, keepdim=True)", f"F.adaptive_avg_pool{d}({v.name}, 1)"]))
    inner = s.let(f"F.relu({s.attribute('squeeze', f'nn.Conv{d}({v.channels}, {few}, 1)')}({mean}))")
    return v.like(name=s.let(f"{v.name} * {r.choice(['torch.sigmoid', 'F.hardsigmoid'])}({s.attribute('excite', f'nn.Conv{d}({few}, {v.channels}, 1)')}({inner}))"))


# ---- branches, loops, containers


def condition(s, v: Value, r) -> str:
    """On shapes, or on values that entered the model, which quantizing does not change: either way is right to take."""
    ways = [f"{v.name}.size({r.choice([0, -1])}) % 2 == 0" if v.batch else f"{v.name}.size(-1) > 4", f"{v.name}.dim() == {v.rank}", f"{v.name}.size(-1) > {max(1, (v.sizes or (v.channels,))[-1] - 1)}"]
    if s.first:
        ways += [f"float({s.first}.mean()) > 0.0", f"bool({s.first}.sum() > 0)", f"{s.first}.mean().item() > 0.02"]
    return r.choice(ways)


def branch(s, v: Value, r):
    out = f"v{s.program.number()}"
    with s.inside(f"if {condition(s, v, r)}:"):
        s.line(f"{out} = {s.write_all(0, v, keep=True).name}")
    with s.inside("else:"):
        s.line(f"{out} = {s.write_all(1, v, keep=True).name}")
    return v.like(name=out)


def optional_step(s, v: Value, r):
    out = s.let(v.name + r.choice(["", " * 1.0"]))
    with s.inside(f"if {condition(s, v, r)}:"):
        s.line(f"{out} = {s.write_all(0, v.like(name=out), keep=True).name}")
    return v.like(name=out)


def module_list(s, v: Value, r):
    n = r.choice([2, 3])
    name = s.write_class(0, v)
    layers = s.attribute("layers", f"nn.ModuleList([{name}() for _ in range({n})])")
    out = s.let(v.name)
    way = r.choice(["plain", "residual", "enumerate", "index", "list", "break"])
    if way == "list":
        outs = f"outs{s.program.number()}"
        s.line(f"{outs}: List[Tensor] = []")
        with s.inside(f"for layer in {layers}:"):
            s.line(f"{out} = layer({out})")
            s.line(f"{outs}.append({out})")
        return v.like(name=s.let(r.choice([f"{outs}[0] + {outs}[-1]", f"torch.stack({outs}).mean(0)", f"torch.stack({outs}, dim=0).sum(dim=0) * 0.5"])))
    if way == "enumerate" or way == "break":
        with s.inside(f"for i, layer in enumerate({layers}):"):
            with s.inside("if i % 2 == 0:"):
                s.line(f"{out} = layer({out})")
            with s.inside("else:"):
                s.line(f"{out} = {out} + layer({out})")
    elif way == "index":
        with s.inside(f"for i in range({n}):"):
            with s.inside(f"for k, each in enumerate({layers}):"):
                with s.inside("if k == i:"):
                    s.line(f"{out} = each({out})")
    else:
        with s.inside(f"for layer in {layers}:"):
            s.line(f"{out} = " + (f"layer({out})" if way == "plain" else f"{out} + layer({out})"))
    return v.like(name=out)


def loop(s, v: Value, r):
    """A module in a loop that stays one."""
    layer = s.attribute("step", f"{s.write_class(0, v)}()")
    out, way = s.let(v.name), r.choice(["range", "while", "break", "continue", "size"])
    i, step = f"i{s.program.number()}", f"0.5 * ({out} + {layer}({out}))"
    if way == "range":
        with s.inside(f"for {i} in range({r.choice([2, 3])}):"):
            s.line(f"{out} = {step}")
    elif way == "size":
        with s.inside(f"for {i} in range(min(3, {v.name}.size(-1))):"):
            with s.inside(f"if {i} > 0:"):
                s.line(f"{out} = {step}")
    elif way == "while":
        s.line(f"{i} = 0")
        with s.inside(f"while {i} < {r.choice([2, 3])}:"):
            s.line(f"{out} = {step}")
            s.line(f"{i} += 1")
    elif way == "break":
        s.line(f"{i} = 0")
        with s.inside("while True:"):
            s.line(f"{out} = {step}")
            s.line(f"{i} += 1")
            with s.inside(f"if {i} >= 2:"):
                s.line("break")
    else:
        with s.inside(f"for {i} in range(4):"):
            with s.inside(f"if {i} % 2 == 1:"):
                s.line("continue")
            s.line(f"{out} = {step}")
    return v.like(name=out)


def module_dict(s, v: Value, r):
    a, b = s.write_class(0, v), s.write_class(1, v)
    layers = s.attribute("by_name", f"nn.ModuleDict({{'a': {a}(), 'b': {b}()}})")
    if r.random() < 0.5:
        return v.like(name=s.let(f"{layers}['b']({layers}['a']({v.name}))"))
    out = s.let(v.name)
    with s.inside(f"for name, layer in {layers}.items():"):
        s.line(f"{out} = layer({out})")
    return v.like(name=out)


def sequential(s, v: Value, r):
    a, b = s.write_class(0, v), s.write_class(1, v)
    layers = s.attribute("sequence", f"nn.Sequential({a}(), {b}())")
    out = s.let(v.name)
    if r.random() < 0.3:
        with s.inside(f"for layer in {layers}:"):
            s.line(f"{out} = layer({out})")
        return v.like(name=out)
    return v.like(name=s.let(f"{layers}({v.name})"))


def dictionary(s, v: Value, r):
    """Values that go through a dict or a list."""
    a, b = s.write_all(0, v, keep=True), s.write_all(1, v, keep=True)
    held = f"held{s.program.number()}"
    if r.random() < 0.5:
        s.line(f"{held}: Dict[str, Tensor] = {{}}")
        s.line(f"{held}['a'] = {a.name}")
        s.line(f"{held}['b'] = {b.name}")
        if r.random() < 0.5:
            return v.like(name=s.let(f"{held}['a'] + {held}['b']"))
        total = s.let(f"{v.name} * 0.5")
        with s.inside(f"for key in {held}.keys():"):
            s.line(f"{total} = {total} + {held}[key]")
        return v.like(name=total)
    s.line(f"{held} = [{a.name}, {b.name}]")
    way = r.choice(["index", "loop", "write", "pop"])
    if way == "index":
        return v.like(name=s.let(f"{held}[1] * 0.5 + {held}[0]"))
    if way == "write":
        s.line(f"{held}[0] = {held}[0] * torch.sigmoid({held}[1])")
        return v.like(name=s.let(f"{held}[0]"))
    if way == "pop":
        last = s.let(f"{held}.pop()")
        return v.like(name=s.let(f"{last} + {held}[0]"))
    total = s.let(f"torch.zeros_like({v.name})")
    with s.inside(f"for each in {held}:"):
        s.line(f"{total} = {total} + each")
    return v.like(name=total)


def optional_argument(s, v: Value, r):
    """A module with an argument that may be None."""
    name = s.write_class(0, v, ", skip: Optional[Tensor] = None", "{0} if skip is None else {0} + skip")
    layer = s.attribute("step", f"{name}()")
    return v.like(name=s.let(r.choice([f"{layer}({v.name})", f"{layer}({v.name}, {v.name})", f"{layer}({layer}({v.name}), {v.name})", f"{layer}({v.name}, skip=None)"])))


def method(s, v: Value, r):
    """A method beside forward, which forward calls."""
    name = s.write_class(0, v)
    layer = s.attribute("step", f"{name}()")
    called = f"method{s.program.number()}"
    s.methods.append(f"    def {called}(self, y: Tensor, scale: float = 0.5) -> Tensor:\n        if scale == 1.0:\n            return y\n        return {layer}(y) * scale\n")
    return v.like(name=s.let(r.choice([f"self.{called}({v.name})", f"{v.name} + self.{called}({v.name}, 0.3)"])))


def early_return(s, v: Value, r):
    """A module that may return early."""
    name = s.write_class(0, v, "", "{0}", f"if {'x.size(-1) % 2 == 1' if r.random() < 0.5 else 'x.dim() > 7'}:")
    return v.like(name=s.let(f"{s.attribute('step', f'{name}()')}({v.name})"))


def pair(s, v: Value, r):
    """A module that returns several values."""
    name = s.write_class(0, v, "", "({0}, x)")
    a, b = f"v{s.program.number()}", f"v{s.program.number()}"
    s.line(f"{a}, {b} = {s.attribute('step', f'{name}()')}({v.name})")
    return v.like(name=s.let(r.choice([f"{a} + {b}", f"{a} * 0.5 - {b}", f"torch.max({a}, {b})"])))


