"""Shows random and awkward tensors to PyTorch's observers and writes what came of them, for pytorch_observers_test.cpp.

usage: make_cases.py OUTPUT_DIRECTORY

One file per observer class: a list of dicts with the constructor's arguments, the tensors shown, the state after them, scale and zero point.
All tensors of one dtype are stored as one, so that a file loads at once. A file newer than this script is left alone.
"""

import math
import multiprocessing
import os
import pathlib
import random
import sys
import warnings

import torch
from torch.ao.quantization import observer as observers

warnings.simplefilter("ignore")
torch.set_num_threads(1)

PER_TENSOR = ("per_tensor_affine", "per_tensor_symmetric")
PER_CHANNEL = ("per_channel_affine", "per_channel_symmetric", "per_channel_affine_float_qparams")
DTYPES = ("quint8", "qint8", "qint32", "quint4x2", "uint8", "int8", "int16", "int32", "uint16")
CUSTOM_RANGES = {
    "quint8": ((0, 127), (0, 15), (0, 200)),
    "qint8": ((-127, 127), (-8, 7), (-100, 50)),
    "qint32": ((-1000, 1000), (-(2**31), 2**31 - 1)),
    "int8": ((-127, 127),),
    "uint8": ((0, 127),),
}


def shape(rng, per_channel):
    if per_channel:
        return rng.choice(((5, 3), (4, 2, 3, 3), (8, 6), (3, 40), (2, 3, 7), (6, 33, 2)))
    return rng.choice(((1,), (), (7,), (3, 5), (2, 3, 8, 8), (1, 16, 9), (1000,), (4, 700)))


def scaled_normal(rng, size):
    return torch.randn(size) * 10.0 ** rng.uniform(-6, 6) + rng.choice((0.0, 0.0, 3.0, -50.0))


def heavy_tails(rng, size):
    return torch.randn(size) / (torch.randn(size).abs() + 0.01)


def outlier(rng, size):
    x = torch.randn(size)
    x.view(-1)[rng.randrange(x.numel())] = rng.choice((-300.0, 40.0, 1e4))
    return x


def constant(rng, size):
    return torch.full(size, rng.choice((0.0, 1.0, -3.5, 0.1, 1e30, -1e30, 1e-40, -1e-44, 1e-6, 255.0)))


def huge(rng, size):
    return torch.randn(size) * rng.choice((1e30, 1e20, 8e37))


def tiny(rng, size):
    return torch.randn(size) * rng.choice((1e-40, 1e-43, 1e-37, 1e-30))


def with_infinity(rng, size):
    x = torch.randn(size)
    x[torch.rand(size) < rng.choice((0.05, 0.5, 1.1))] = rng.choice((math.inf, -math.inf))
    return x


def with_nan(rng, size):
    x = torch.randn(size)
    x.view(-1)[rng.randrange(x.numel())] = math.nan
    return x


GENERATORS = {
    "normal": scaled_normal,
    "uniform": lambda rng, size: torch.rand(size) * rng.uniform(0.01, 50) - rng.uniform(0, 20),
    "relu": lambda rng, size: torch.randn(size).relu(),
    "relu6": lambda rng, size: (torch.randn(size) * 4).clamp(0, 6),
    "negative": lambda rng, size: -torch.rand(size) - rng.uniform(0, 3),
    "positive": lambda rng, size: torch.rand(size) + rng.uniform(0, 3),
    "heavy tails": heavy_tails,
    "outlier": outlier,
    "integers": lambda rng, size: torch.randint(-20, 20, size).float(),
    "constant": constant,
    "zero": lambda rng, size: torch.zeros(size),
    "minus zero": lambda rng, size: -torch.zeros(size),
    "huge": huge,
    "tiny": tiny,
    "infinity": with_infinity,
    "nan": with_nan,
    "empty": lambda rng, size: torch.empty((0, *size[1:])),
}


def one_batch(rng, kind, size):
    x = GENERATORS[kind](rng, size)
    return x if x.shape == torch.Size(size) or kind == "empty" else x.reshape(size)


def batches(rng, per_channel):
    """A sequence of 1 to 5 tensors: of one kind, of mixed kinds, or of a kind whose range grows or shrinks."""
    count = rng.choice((1, 1, 2, 3, 5))
    size = shape(rng, per_channel)
    kind = rng.choice(list(GENERATORS))
    style = rng.choice(("one kind", "mixed", "growing", "shrinking"))
    result = []
    for i in range(count):
        if style == "mixed":
            kind = rng.choice(list(GENERATORS))
        x = one_batch(rng, kind, size if per_channel else shape(rng, False) if style == "mixed" else size)
        factor = {"growing": 1.7**i, "shrinking": 0.6**i}.get(style, 1.0)
        result.append(x * factor if factor != 1.0 else x)
    return f"{style}/{kind}", result


def as_dtype(rng, tensors, dtypes):
    dtype = rng.choice(dtypes)
    if dtype.is_floating_point:
        return [x.to(dtype) for x in tensors]
    return [torch.nan_to_num(x * 10).clamp(-1000, 1000).to(dtype) for x in tensors]


def arguments(rng, schemes):
    dtype = rng.choice(("quint8", "qint8", "quint8", "qint8", *DTYPES))
    result = {"dtype": dtype, "qscheme": rng.choice(schemes)}
    if rng.random() < 0.3 and dtype in CUSTOM_RANGES:
        result["quant_min"], result["quant_max"] = rng.choice(CUSTOM_RANGES[dtype])
    if rng.random() < 0.3:
        result["reduce_range"] = True
    if rng.random() < 0.25:
        result["eps"] = rng.choice((2.0**-12, 1e-3, 1e-10))
    return result


def construct(name, args):
    given = {k: getattr(torch, v) if k in ("dtype", "qscheme") else v for k, v in args.items()}
    return getattr(observers, name)(**given)


def finite(name, args, x):
    """What tsq's observers see of a tensor. PyTorch's ranges of NaN and infinity are NaN and infinite, or it raises; its histogram leaves
    infinity out by itself."""
    counts = ~x.isnan() if name == "HistogramObserver" else torch.isfinite(x)
    if counts.all():
        return x
    if "PerChannel" not in name:
        return x[counts]
    rows = x.transpose(0, args["ch_axis"]).flatten(1)
    smallest = torch.where(torch.isfinite(rows), rows, math.inf).amin(1)
    if torch.isinf(smallest).any():
        raise ValueError("a channel without a finite value")
    fill = smallest.reshape([-1] + [1] * (x.dim() - 1)).transpose(0, args["ch_axis"])
    return torch.where(counts, x, fill)


def replay(name, args, label, tensors):
    """What PyTorch makes of the tensors, or None when it refuses the arguments or crashes on a tensor."""
    try:
        observer = construct(name, args)
        for x in tensors:
            observer(finite(name, args, x))
        scale, zero_point = observer.calculate_qparams()
    except (NotImplementedError, RuntimeError, AssertionError, IndexError, TypeError, ValueError):
        return None
    state = {k: v for k, v in observer.state_dict().items() if k in ("min_val", "max_val", "histogram")}
    return {"label": label, "args": args, "inputs": tensors, "state": state, "scale": scale,
            "zero_point": zero_point if zero_point.is_floating_point() else zero_point.long()}


FLOATS = (torch.float32,) * 7 + (torch.float64, torch.float16, torch.bfloat16)
# In half precision torch.histc loses counts, and for bfloat16 it writes outside its buffer.
HISTOGRAM_FLOATS = (torch.float32,) * 7 + (torch.float64,)
NUMBERS = FLOATS + (torch.int64, torch.uint8)


def case_of(name, rng):
    per_channel = "PerChannel" in name
    args = arguments(rng, PER_CHANNEL if per_channel else PER_TENSOR)
    if per_channel:
        args["ch_axis"] = rng.choice((0, 0, 1, -1))
    if "MovingAverage" in name and rng.random() < 0.5:
        args["averaging_constant"] = rng.choice((0.1, 0.9, 1.0, 0.003))
    if name == "HistogramObserver" and rng.random() < 0.4:
        args["bins"] = rng.choice((128, 256, 1000, 4096))
    label, tensors = batches(rng, per_channel)
    if name == "HistogramObserver" and label.endswith(("tiny", "huge")) and rng.random() < 0.8:
        return None  # an error that overflows or vanishes never stops PyTorch's search: a second each
    return replay(name, args, label, as_dtype(rng, tensors, HISTOGRAM_FLOATS if name == "HistogramObserver" else NUMBERS))


def pooled(cases):
    """The cases with every tensor replaced by (name of its dtype, offset, shape) in one flat tensor a dtype."""
    parts = {}
    lengths = {}

    def reference(tensor):
        dtype = str(tensor.dtype).removeprefix("torch.")
        offset = lengths.get(dtype, 0)
        parts.setdefault(dtype, []).append(tensor.reshape(-1))
        lengths[dtype] = offset + tensor.numel()
        return (dtype, offset, list(tensor.shape))

    for case in cases:
        case["inputs"] = [reference(x) for x in case["inputs"]]
        case["state"] = {name: reference(value) for name, value in case["state"].items()}
        case["scale"] = reference(case["scale"])
        case["zero_point"] = reference(case["zero_point"])
    return {"values": {dtype: torch.cat(flat) for dtype, flat in parts.items()}, "cases": cases}


def large_cases(name):
    """Activations of a realistic size: the histogram's counts and float32 sums are large."""
    if "PerChannel" in name:
        return []
    result = []
    for seed, args in enumerate(({"dtype": "quint8", "qscheme": "per_tensor_affine", "reduce_range": True},
                                 {"dtype": "quint8", "qscheme": "per_tensor_affine"},
                                 {"dtype": "qint8", "qscheme": "per_tensor_symmetric"})):
        torch.manual_seed(seed)
        tensors = [torch.randn(2, 32, 28, 28) * (1 + 0.3 * i) for i in range(3)]
        result.append(replay(name, args, "large/normal", tensors))
        result.append(replay(name, args, "large/relu", [x.relu() for x in tensors]))
    return result


COUNTS = {
    "HistogramObserver": 500,
    "MinMaxObserver": 1500,
    "MovingAverageMinMaxObserver": 1500,
    "PerChannelMinMaxObserver": 1500,
    "MovingAveragePerChannelMinMaxObserver": 1000,
}


def write(name, path):
    rng = random.Random(name)
    torch.manual_seed(rng.randrange(2**31))
    cases = large_cases(name)
    for _ in range(20 * COUNTS[name]):
        if len(cases) >= COUNTS[name]:
            break
        case = case_of(name, rng)
        if case is not None:
            cases.append(case)
    unfinished = path.with_suffix(f".{os.getpid()}")
    torch.save(pooled(cases), unfinished)
    unfinished.replace(path)


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    script = pathlib.Path(__file__).stat().st_mtime
    paths = {name: directory / f"{name}.pt" for name in COUNTS}
    stale = [(name, path) for name, path in paths.items() if not path.exists() or path.stat().st_mtime < script]
    with multiprocessing.Pool(2) as pool:
        pool.starmap(write, stale, chunksize=1)


if __name__ == "__main__":
    main()
