"""Blocks of one or few operators: layers, norms, activations, pools, arithmetic, writes into tensors."""

from program import SPATIAL, WIDTHS, Value

DIMENSIONS = {"image": "2d", "signal": "1d"}
NORMS = ("nn.utils.weight_norm", "nn.utils.parametrizations.weight_norm", "nn.utils.parametrizations.spectral_norm", "nn.utils.spectral_norm")


def width(s, v, r) -> int:
    return v.channels if s.keep else r.choice(WIDTHS)


def maybe_normed(s, layer: str, r) -> str:
    """Now and then a layer computes its weight, which TorchScript can trace only."""
    if r.random() > 0.025:
        return layer
    s.program.scripts = False
    return f"{r.choice(NORMS)}({layer})"


def conv(s, v: Value, r):
    out, k = width(s, v, r), r.choice([1, 3, 3, 3, 5])
    dilation = r.choice([1, 1, 1, 2]) if k > 1 else 1
    reach = dilation * (k - 1)
    groups = r.choice([g for g in (1, 1, 1, 1, 2, 4, v.channels) if v.channels % g == 0 and out % g == 0])
    stride = 2 if not s.keep and min(v.sizes) >= 12 and r.random() < 0.3 else 1
    pad = reach // 2 if s.keep or min(v.sizes) <= reach + 4 or r.random() < 0.8 else 0
    mode = r.choice(["zeros"] * 5 + ["reflect", "replicate", "circular"])
    if mode != "zeros" and pad >= min(v.sizes):
        mode = "zeros"
    padding = "'same'" if stride == 1 and pad == reach // 2 and r.random() < 0.15 else str(pad)
    bias = r.random() < 0.8
    d = DIMENSIONS[v.kind]
    sizes = tuple((n + 2 * pad - reach - 1) // stride + 1 for n in v.sizes)
    if r.random() < 0.12 and padding != "'same'" and mode == "zeros":
        kernel = ", ".join([str(k)] * SPATIAL[v.kind])
        weight = s.attribute("weight", f"nn.Parameter(torch.randn({out}, {v.channels // groups}, {kernel}) * {(v.channels // groups * k ** SPATIAL[v.kind]) ** -0.5:.4f})")
        bias_text = s.attribute("bias", f"nn.Parameter(torch.randn({out}) * 0.1)") if bias else "None"
        return v.like(name=s.let(f"F.conv{d}({v.name}, {weight}, {bias_text}, stride={stride}, padding={pad}, dilation={dilation}, groups={groups})"), channels=out, sizes=sizes)
    options = f", stride={stride}, padding={padding}, dilation={dilation}, groups={groups}, bias={bias}, padding_mode='{mode}'"
    layer = s.attribute("conv", maybe_normed(s, f"nn.Conv{d}({v.channels}, {out}, {k}{options})", r))
    return v.like(name=s.let(f"{layer}({v.name})"), channels=out, sizes=sizes)


def conv_transpose(s, v: Value, r):
    if s.keep:
        layer = s.attribute("up", f"nn.ConvTranspose{DIMENSIONS[v.kind]}({v.channels}, {v.channels}, 3, padding=1, groups={r.choice([1, v.channels])})")
        return v.like(name=s.let(f"{layer}({v.name})"))
    if max(v.sizes) > 24:
        return None
    out = r.choice(WIDTHS)
    layer = s.attribute("up", f"nn.ConvTranspose{DIMENSIONS[v.kind]}({v.channels}, {out}, 2, stride=2, bias={r.random() < 0.8})")
    return v.like(name=s.let(f"{layer}({v.name})"), channels=out, sizes=tuple(2 * n for n in v.sizes))


def separable(s, v: Value, r):
    out = width(s, v, r)
    d, k = DIMENSIONS[v.kind], r.choice([3, 5])
    batch_norm = f"nn.BatchNorm{d}({out}), " if v.batch else ""
    act = r.choice(["nn.ReLU()", "nn.ReLU6()", "nn.Hardswish()", "nn.SiLU()", "nn.ReLU(inplace=True)"])
    layer = s.attribute("separable", f"nn.Sequential(nn.Conv{d}({v.channels}, {v.channels}, {k}, padding={k // 2}, groups={v.channels}, bias=False), nn.Conv{d}({v.channels}, {out}, 1), {batch_norm}{act})")
    return v.like(name=s.let(f"{layer}({v.name})"), channels=out)


def as_rows(s, v: Value) -> Value:
    """With channels as the last dimension."""
    if v.channels_last:
        return v
    order = ", ".join(str(d) for d in ([0] if v.batch else []) + list(range(v.channel_dim + 1, v.rank)) + [v.channel_dim])
    return v.like(name=s.let(f"{v.name}.permute({order})"))


def from_rows(s, rows: Value, v: Value) -> Value:
    """`rows`, whose last dimension has its channels, as `v` has its dimensions."""
    if v.channels_last:
        return v.like(name=rows.name, channels=rows.channels)
    order = ", ".join(str(d) for d in ([0] if v.batch else []) + [v.rank - 1] + list(range(int(v.batch), v.rank - 1)))
    return v.like(name=s.let(f"{rows.name}.permute({order})"), channels=rows.channels)


def linear(s, v: Value, r):
    out = width(s, v, r)
    rows = as_rows(s, v)
    c, way = v.channels, r.random()
    scale = f"{c ** -0.5:.4f}"
    if way < 0.7:
        layer = s.attribute("linear", maybe_normed(s, f"nn.Linear({c}, {out}, bias={r.random() < 0.85})", r))
        text = f"{layer}({rows.name})"
    elif way < 0.78:
        text = f"F.linear({rows.name}, {s.attribute('weight', f'nn.Parameter(torch.randn({out}, {c}) * {scale})')}, {s.attribute('bias', f'nn.Parameter(torch.randn({out}) * 0.1)')})"
    elif way < 0.9 or v.rank != 2:
        weight = s.attribute("weight", f"nn.Parameter(torch.randn({c}, {out}) * {scale})")
        text = r.choice([f"{rows.name} @ {weight} + {{}}", f"torch.matmul({rows.name}, {weight})", f"torch.einsum('...c,cd->...d', {rows.name}, {weight})"])
        text = text.format(s.attribute("bias", f"nn.Parameter(torch.randn({out}) * 0.1)")) if "{}" in text else text
    else:
        weight, bias = s.attribute("weight", f"nn.Parameter(torch.randn({c}, {out}) * {scale})"), s.attribute("bias", f"nn.Parameter(torch.randn({out}) * 0.1)")
        text = r.choice([f"torch.addmm({bias}, {rows.name}, {weight})", f"torch.mm({rows.name}, {weight}) + {bias}"])
    return from_rows(s, rows.like(name=s.let(text), channels=out), v)


def mlp(s, v: Value, r):
    rows, hidden = as_rows(s, v), r.choice(WIDTHS)
    act = r.choice(["F.gelu({})", "F.relu({})", "F.silu({})", "torch.tanh({})", "F.leaky_relu({}, 0.1)", "torch.relu_({})", "{}.sigmoid()"])
    first, second = s.attribute("linear", f"nn.Linear({v.channels}, {hidden})"), s.attribute("linear", f"nn.Linear({hidden}, {v.channels})")
    middle = s.let(f"{first}({rows.name})")
    return from_rows(s, rows.like(name=s.let(f"{second}({act.format(middle)})")), v)


def tied(s, v: Value, r):
    rows = as_rows(s, v)
    first, second = s.attribute("linear", f"nn.Linear({v.channels}, {v.channels})"), s.attribute("linear", f"nn.Linear({v.channels}, {v.channels})")
    s.init.append(f"{second}.weight = {first}.weight")
    text = r.choice([f"{second}(torch.relu({first}({rows.name})))", f"{first}({rows.name}) * torch.sigmoid({second}({rows.name}))", f"F.linear(torch.tanh({first}({rows.name})), {first}.weight.t())"])
    return from_rows(s, rows.like(name=s.let(text)), v)


def twice(s, v: Value, r):
    """One module, called twice."""
    if v.channels_last:
        layer = s.attribute("shared", f"nn.Linear({v.channels}, {v.channels})")
    else:
        layer = s.attribute("shared", f"nn.Conv{DIMENSIONS[v.kind]}({v.channels}, {v.channels}, 3, padding=1)")
    text = r.choice([f"{layer}(F.relu({layer}({v.name})))", f"{layer}({v.name}) + {layer}(torch.tanh({v.name}))", f"torch.max({layer}({v.name}), {layer}(-{v.name}))"])
    return v.like(name=s.let(text))


def norm(s, v: Value, r):
    affine = r.random() < 0.7
    if v.channels_last:
        ways = ["layer", "layer", "written", "rms", "functional"] + (["batch"] if v.kind == "vector" and v.batch else [])
    else:
        ways = ["instance", "frozen", "first"] + (["batch", "batch", "batch", "group"] if v.batch else [])
    way = r.choice(ways)
    d, c = DIMENSIONS.get(v.kind, "1d"), v.channels
    if way == "batch":
        return v.like(name=s.let(f"{s.attribute('norm', f'nn.BatchNorm{d}({c}, affine={affine})')}({v.name})"))
    if way == "layer":
        return v.like(name=s.let(f"{s.attribute('norm', f'nn.LayerNorm({c}, elementwise_affine={affine})')}({v.name})"))
    if way == "functional":
        return v.like(name=s.let(f"F.layer_norm({v.name}, ({c},))"))
    if way == "instance" and min(v.sizes) > 1:
        return v.like(name=s.let(f"{s.attribute('norm', f'nn.InstanceNorm{d}({c}, affine={affine})')}({v.name})"))
    if way == "group" and min(v.sizes) > 1:
        return v.like(name=s.let(f"{s.attribute('norm', f'nn.GroupNorm({r.choice([g for g in (1, 2, 4) if c % g == 0])}, {c}, affine={affine})')}({v.name})"))
    if way == "first":  # over channels, as ConvNeXt has it
        mean = s.let(f"{v.name}.mean({v.channel_dim}, keepdim=True)")
        centred = s.let(f"{v.name} - {mean}")
        return v.like(name=s.let(f"{centred} / torch.sqrt({centred}.pow(2).mean({v.channel_dim}, keepdim=True) + 1e-5)"))
    if way == "rms":
        weight = s.attribute("gain", f"nn.Parameter(torch.rand({c}) + 0.5)")
        return v.like(name=s.let(f"{v.name} * torch.rsqrt({v.name}.pow(2).mean(-1, keepdim=True) + 1e-6) * {weight}"))
    if way == "written":
        mean = s.let(f"{v.name}.mean(-1, keepdim=True)")
        return v.like(name=s.let(f"({v.name} - {mean}) / ({v.name}.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()"))
    scale, shift = s.buffer(f"torch.rand({v.broadcast}) + 0.5"), s.buffer(f"torch.randn({v.broadcast}) * 0.2")
    return v.like(name=s.let(f"{v.name} * {scale} + {shift}"))


MODULES = ["ReLU()", "ReLU(inplace=True)", "ReLU6()", "Hardswish()", "Hardsigmoid()", "SiLU()", "GELU()", "GELU(approximate='tanh')", "ELU()", "CELU()", "SELU()", "LeakyReLU(0.1)", "PReLU()", "Sigmoid()", "Tanh()", "Mish()", "Softplus()", "Hardtanh()", "Softsign()", "Dropout(0.1)", "Identity()", "LogSigmoid()"]
FUNCTIONS = ["F.relu({})", "torch.relu({})", "{}.relu()", "F.relu6({})", "F.hardswish({})", "F.silu({})", "F.gelu({})", "F.elu({})", "F.leaky_relu({}, 0.2)", "torch.sigmoid({})", "{}.sigmoid()", "torch.tanh({})", "{}.tanh()", "F.softplus({})", "F.mish({})", "torch.clamp({}, -1.0, 1.0)", "{}.clamp(min=0.0)", "{}.clamp(-2.0, 3.0)", "F.hardtanh({}, -1.0, 2.0)", "{0} * torch.sigmoid({0})", "{0} * F.relu6({0} + 3) / 6", "0.5 * {0} * (1 + torch.erf({0} / math.sqrt(2.0)))", "torch.where({0} > 0, {0}, 0.1 * {0})", "torch.maximum({0}, 0.1 * {0})", "{}.abs()", "F.dropout({}, 0.1, self.training)"]
WRITES = ["torch.relu_({})", "{}.relu_()", "{}.clamp_(-2.0, 2.0)", "{}.sigmoid_()", "{}.tanh_()", "F.relu({}, inplace=True)", "F.leaky_relu_({}, 0.1)", "{}.mul_(0.5)", "{}.add_(0.25)"]


def activation(s, v: Value, r):
    way = r.random()
    if way < 0.4:
        module = r.choice(MODULES)
        if module == "PReLU()" and v.batch and v.kind != "sequence" and r.random() < 0.7:
            module = f"PReLU({v.channels})"
        # What came in is not to be written: it may be the caller's.
        if "inplace" in module and v.name in ("x", s.first):
            module = "ReLU()"
        return v.like(name=s.let(f"{s.attribute('act', 'nn.' + module)}({v.name})"))
    if way < 0.85 or v.name in ("x", s.first):
        return v.like(name=s.let(r.choice(FUNCTIONS).format(v.name)))
    return v.like(name=s.let(r.choice(WRITES).format(v.name)))


SCALARS = ["{} * 0.5", "{} + 1", "1 - {}", "{} - 0.3", "{} / 2.0", "2.0 * {} + 0.1", "-{}", "{}.mul(0.7)", "torch.add({}, 0.5)", "torch.sub({}, 0.25)", "{}.div(1.5)", "{} * torch.tensor(0.8)", "{0} + 0.5 * {0}", "{0} + {0}"]
CURVES = ["{}.pow(2) * 0.3", "{0} * {0} * 0.3", "torch.exp(-{}.abs())", "1.0 / (1.0 + {}.pow(2))", "torch.sqrt(1.0 + {}.pow(2))", "torch.log1p({}.abs())", "torch.sin({})", "torch.cos({})", "torch.rsqrt(1.0 + {}.abs())"]


def arithmetic(s, v: Value, r):
    way = r.random()
    if way < 0.4:
        return v.like(name=s.let(r.choice(SCALARS).format(v.name)))
    if way < 0.6:
        return v.like(name=s.let(r.choice(CURVES).format(v.name)))
    shape = r.choice([v.broadcast, "1"])
    make, text = r.choice([("torch.randn({}) * 0.3", "{0} + {1}"), ("torch.rand({}) + 0.3", "{0} * {1}"), ("torch.rand({}) + 0.3", "{1} * {0}"), ("torch.randn({})", "{0} - {1}"), ("torch.rand({}) + 0.5", "{0} / {1}"), ("torch.randn({})", "torch.add({0}, {1}, alpha=0.5)"), ("torch.randn({})", "{1} - {0}")])
    made = make.format(shape)
    other = s.buffer(made) if r.random() < 0.6 else s.attribute("parameter", f"nn.Parameter({made})")
    return v.like(name=s.let(text.format(v.name, other)))


def softmax(s, v: Value, r):
    return v.like(name=s.let(r.choice([f"F.softmax({v.name}, dim=-1)", f"{v.name}.softmax({v.channel_dim})", f"{s.attribute('softmax', f'nn.Softmax(dim={v.channel_dim})')}({v.name})", f"torch.log_softmax({v.name}, {v.channel_dim}) * 0.1", f"F.normalize({v.name}, dim={v.channel_dim})"])))


def pool(s, v: Value, r):
    d = DIMENSIONS[v.kind]
    if s.keep:
        way = r.choice([f"nn.MaxPool{d}(3, stride=1, padding=1)", f"nn.AvgPool{d}(3, stride=1, padding=1)", f"nn.AvgPool{d}(3, stride=1, padding=1, count_include_pad=False)"])
        return v.like(name=s.let(f"{s.attribute('pool', way)}({v.name})"))
    if min(v.sizes) < 6:
        return None
    half = tuple(n // 2 for n in v.sizes)
    way = r.choice(["max", "function", "average", "adaptive", "max_ceil"])
    if way == "adaptive":
        n = r.choice([2, 4])
        return v.like(name=s.let(r.choice([f"{s.attribute('pool', f'nn.AdaptiveAvgPool{d}({n})')}({v.name})", f"F.adaptive_avg_pool{d}({v.name}, {n})", f"F.adaptive_max_pool{d}({v.name}, {n})"])), sizes=(n,) * len(v.sizes))
    if way == "max_ceil":
        return v.like(name=s.let(f"F.max_pool{d}({v.name}, 2, ceil_mode=True)"), sizes=tuple(-(-n // 2) for n in v.sizes))
    text = {"max": f"{s.attribute('pool', f'nn.MaxPool{d}(2)')}({v.name})", "function": f"F.max_pool{d}({v.name}, 2)", "average": f"F.avg_pool{d}({v.name}, 2)"}[way]
    return v.like(name=s.let(text), sizes=half)


def resize(s, v: Value, r):
    if s.keep:
        modes = ("bilinear", "nearest") if v.kind == "image" else ("linear", "nearest")
        if not v.batch:
            return None
        small = s.let(f"F.{'max' if r.random() < 0.5 else 'avg'}_pool{DIMENSIONS[v.kind]}({v.name}, 2)") if min(v.sizes) >= 4 else v.name
        mode = r.choice(modes)
        corners = "" if mode == "nearest" else f", align_corners={r.random() < 0.3}"
        return v.like(name=s.let(f"F.interpolate({small}, size={v.name}.shape[{1 + v.batch}:], mode='{mode}'{corners})"))
    if not v.batch or max(v.sizes) > 16:
        return None
    if v.kind == "image" and v.channels % 4 == 0 and v.channels >= 32 and r.random() < 0.4:
        return v.like(name=s.let(r.choice([f"F.pixel_shuffle({v.name}, 2)", f"{s.attribute('shuffle', 'nn.PixelShuffle(2)')}({v.name})"])), channels=v.channels // 4, sizes=tuple(2 * n for n in v.sizes))
    mode = r.choice(["nearest", "bilinear" if v.kind == "image" else "linear"])
    corners = "" if mode == "nearest" else ", align_corners=False"
    text = r.choice([f"F.interpolate({v.name}, scale_factor=2.0, mode='{mode}'{corners})", f"{s.attribute('upsample', f'nn.Upsample(scale_factor=2.0, mode={mode!r}{corners})')}({v.name})"])
    return v.like(name=s.let(text), sizes=tuple(2 * n for n in v.sizes))


def pad(s, v: Value, r):
    if s.keep:
        return None
    n = SPATIAL[v.kind]
    amounts = [r.choice([0, 1, 2]) for _ in range(2 * n)]
    mode = r.choice(["constant", "constant", "reflect", "replicate"])
    if min(v.sizes) < 4:
        mode = "constant"
    sizes = tuple(v.sizes[i] + amounts[2 * (n - 1 - i)] + amounts[2 * (n - 1 - i) + 1] for i in range(n))
    return v.like(name=s.let(f"F.pad({v.name}, {amounts}, mode='{mode}')"), sizes=sizes)


def write(s, v: Value, r):
    """Writes into a tensor or a view of it."""
    if v.channels < 4:
        return None
    half, d, name = v.channels // 2, v.channel_dim, v.name
    copy = s.let(r.choice([f"{name}.clone()", f"{name} * 1.0", f"torch.relu({name})", f"{name} + 0.1"]))
    way = r.choice(["slice", "view", "masked", "add", "narrow", "zeros", "chunk"])
    left = ", ".join([":"] * d + [f":{half}"])
    if way == "slice":
        s.line(f"{copy}[{left}] = torch.tanh({copy}[{left}])")
    elif way == "view":
        view = s.let(f"{copy}.flatten()")
        s.line(f"{copy}[{left}] *= 0.5")
        return v.like(name=s.let(f"{copy} + {view}.mean() * 0.1"))
    elif way == "masked":
        s.line(f"{copy}.masked_fill_({copy} < 0, 0.0)")
    elif way == "add":
        s.line(f"{copy}[{left}] += {name}[{left}]")
    elif way == "narrow":
        s.line(f"{copy}.narrow({d}, 0, {half}).mul_(0.5)")
    elif way == "zeros":
        empty = s.let(f"torch.zeros_like({name})")
        s.line(f"{empty}[{left}] = {copy}[{left}]")
        return v.like(name=s.let(f"{name} + {empty}"))
    else:
        parts = s.let(f"{copy}.chunk(2, dim={d})")
        s.line(f"{parts}[0].add_(1.0)")
    return v.like(name=copy)


def shuffle(s, v: Value, r):
    """Moves values about, and keeps the shape."""
    name, d, c = v.name, v.channel_dim, v.channels
    ways = [f"torch.flip({name}, [{d}])", f"torch.roll({name}, 1, {d})", f"torch.cat({name}.chunk(2, dim={d})[::-1], dim={d})", f"torch.cat([{name}.narrow({d}, {c // 2}, {c - c // 2}), {name}.narrow({d}, 0, {c // 2})], {d})", f"torch.stack({name}.unbind({d}), dim={d})", f"{name}.unsqueeze({d}).squeeze({d})", f"{name}.transpose({d}, -1).contiguous().transpose({d}, -1)", f"torch.index_select({name}, {d}, {{}})", f"{name}[{':, ' * d}{{}}]"]
    if v.channels_last and c % 4 == 0:
        ways += [f"{name}.unflatten(-1, (4, {c // 4})).transpose(-1, -2).flatten(-2)"]
    if v.kind == "image" and v.batch and c % 2 == 0:
        ways += [f"{name}.view({name}.size(0), 2, {c // 2}, {name}.size(2), {name}.size(3)).transpose(1, 2).reshape({name}.size(0), {c}, {name}.size(2), {name}.size(3))"]
    text = r.choice(ways)
    if "{}" in text:
        text = text.format(s.buffer(f"torch.randperm({c})"))
    return v.like(name=s.let(text))


def cut(s, v: Value, r):
    """A part of the channels."""
    if s.keep or v.channels < 16 or v.channels % 2:
        return None
    half, d = v.channels // 2, v.channel_dim
    left = ", ".join([":"] * d + [f":{half}"])
    text = r.choice([f"{v.name}[{left}]", f"{v.name}.narrow({d}, {half}, {half})", f"{v.name}.chunk(2, dim={d})[1]", f"torch.split({v.name}, {half}, dim={d})[0]", f"F.glu({v.name}, dim={d})"])
    if r.random() < 0.4:
        a, b = f"v{s.program.number()}", f"v{s.program.number()}"
        s.line(f"{a}, {b} = " + r.choice([f"{v.name}.chunk(2, dim={d})", f"torch.split({v.name}, {half}, dim={d})", f"{v.name}.split([{half}, {half}], dim={d})"]))
        text = r.choice([f"{a} * torch.sigmoid({b})", f"torch.tanh({a}) + {b}", f"torch.max({a}, {b})"])
    return v.like(name=s.let(text), channels=half)


def casts(s, v: Value, r):
    text = r.choice(["({0}.double() * 0.5).float()", "{0}.to(torch.float64).tanh().to({0}.dtype)", "{0} * ({0} > 0)", "{0} + torch.arange({1}, device={0}.device).to({0}.dtype) * 0.05" if v.channels_last else "{0} + 0.0", "{0} * (1 + {0}.shape[-1]) / 10", "{0}.contiguous()", "{0}.detach()"])
    return v.like(name=s.let(text.format(v.name, v.channels)))


def parameters(s, v: Value, r):
    """Linear layers as functions of parameters: parts of one, one in several calls, or what is computed from one."""
    rows, c, way = as_rows(s, v), v.channels, r.choice(["packed", "chunk", "computed", "list", "transposed", "twice", "loop"])
    x, scale = rows.name, f"{c ** -0.5:.4f}"
    many = 2 * c if way in ("packed", "chunk") else c
    weight = s.attribute("weight", f"nn.Parameter(torch.randn({many}, {c}) * {scale})")
    bias = s.attribute("bias", f"nn.Parameter(torch.randn({many}) * 0.1)")
    if way == "packed":
        text = f"F.linear({x}, {weight}[:{c}], {bias}[:{c}]) + torch.tanh(F.linear({x}, {weight}[{c}:], {bias}[{c}:]))"
    elif way == "chunk":
        parts = [f"v{s.program.number()}" for _ in range(2)]
        s.line(f"{', '.join(parts)} = {weight}.chunk(2)")
        text = f"F.linear({x}, {parts[0]}) * torch.sigmoid(F.linear({x}, {parts[1]}))"
    elif way == "computed":
        gain = s.attribute("gain", f"nn.Parameter(torch.rand({c}, 1) + 0.5)")
        text = f"F.linear({x}, " + r.choice([f"{weight} * {gain}", f"F.normalize({weight}, dim=1) * {gain}", f"{weight} - {weight}.mean(1, keepdim=True)"]) + f", {bias})"
    elif way == "list":
        held = s.attribute("weights", f"nn.ParameterList([nn.Parameter(torch.randn({c}, {c}) * {scale}) for _ in range(2)])")
        text = f"F.linear(F.relu(F.linear({x}, {held}[0], {bias})), {held}[1])"
    elif way == "transposed":
        text = f"F.linear(torch.tanh(F.linear({x}, {weight}, {bias})), {weight}.t())"
    elif way == "twice":
        text = f"F.linear(F.relu(F.linear({x}, {weight}, {bias})), {weight}, {bias})"
    else:
        text = s.let(x)
        with s.inside(f"for i{text} in range(2):"):
            s.line(f"{text} = torch.tanh(F.linear({text}, {weight}, {bias}))")
    return from_rows(s, rows.like(name=s.let(text)), v)


LOGARITHMS = ["torch.log(torch.clamp({}, min=1e-5))", "{}.clamp(min=1e-4).log()", "torch.log10(torch.clamp({}, min=1e-6))", "torch.log({} + 1e-4)", "torch.log(torch.clamp_min({}, 1e-5))"]


def filter_bank(s, v: Value, r):
    """Bands of a spectrum, and their logarithm."""
    out = width(s, v, r)
    if v.kind == "signal":
        k = r.choice([5, 9])
        waves = [s.buffer(f"torch.{wave}(torch.arange({out}).view(-1, 1, 1) * torch.arange({k}) * {3.1416 / out:.5f}).repeat(1, {v.channels}, 1) / {k}") for wave in ("cos", "sin")]
        real, imaginary = (s.let(f"F.conv1d({v.name}, {wave}, padding={k // 2})") for wave in waves)
        power = s.let(r.choice([f"{real}.pow(2) + {imaginary}.pow(2)", f"{real} * {real} + {imaginary} * {imaginary}"]))
        if r.random() < 0.5:
            power = s.let(f"torch.matmul({s.buffer(f'torch.rand({out}, {out}) / {out}')}, {power})")
    else:
        bank = s.buffer(f"torch.rand({v.channels}, {out}) / {v.channels}")
        squared = s.let(r.choice([f"{v.name}.pow(2)", f"{v.name}.abs()", f"{v.name} * {v.name}"]))
        power = s.let(r.choice([f"torch.matmul({squared}, {bank})", f"{squared} @ {bank}", f"F.linear({squared}, {bank}.t())"]))
    return v.like(name=s.let(r.choice(["{}", "{} * 0.2", "({} + 4.0) / 4.0"]).format(r.choice(LOGARITHMS).format(power))), channels=out)


def masked_nan(s, v: Value, r):
    """NaN that is taken away again: of what a mask leaves out, and of rows that it leaves out as a whole."""
    x = v.name
    ways = ["torch.where({0} > 0, torch.sqrt({0}), torch.zeros_like({0}))", "torch.sqrt({0}).masked_fill({0} < 0, 0.0)", "torch.nan_to_num(torch.sqrt({0} + 0.5), nan=0.0)", "torch.where({0} > 0.2, torch.log({0}), 0.5 * {0})"]
    if v.rank == 1 or r.random() < 0.4:
        return v.like(name=s.let(r.choice(ways).format(x)))
    rows = s.let(f"(torch.arange({x}.size(-2), device={x}.device) % 3 == 1).unsqueeze(-1)")
    mask = s.let(f"{rows} | (torch.arange({x}.size(-1), device={x}.device) % 4 == 3)")
    scores = s.let(f"F.softmax({x}.masked_fill({mask}, float('-inf')), dim=-1)")
    return v.like(name=s.let(r.choice(["torch.nan_to_num({0})", "{0}.masked_fill({1}, 0.0)", "torch.where({1}, torch.zeros_like({0}), {0})", "torch.where(torch.isnan({0}), torch.zeros_like({0}), {0})"]).format(scores, rows)))
