"""Outputs beside outputs: equal bit for bit, or near each other, each output by itself.

Outputs are one list of leaves for each evaluation batch, as oracle.outputs_of returns them.
"""

import functools
from pathlib import Path

import torch

# Decibels that an int8 model keeps of each output, unless its case says why it keeps less.
FLOOR = 25.0
# Without VNNI onednn's kernels add pairs of products in 16 bits, and its own mapping leaves activations all 8 bits: sums
# saturate, in FX's lowered models as in tsq's, and where large sums cancel little is left. What FX lowers is still compared
# bit for bit.
SATURATED_FLOOR = 0.0


@functools.cache
def has_vnni() -> bool:
    return "avx512_vnni" in Path("/proc/cpuinfo").read_text()


def same_leaf(a, b) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and a == b
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.is_quantized:
        return a.qscheme() == b.qscheme() and a.q_scale() == b.q_scale() and a.q_zero_point() == b.q_zero_point() and torch.equal(a.int_repr(), b.int_repr())
    if a.is_floating_point():
        return bool(((a == b) | (a.isnan() & b.isnan())).all())
    return torch.equal(a, b)


def as_float(leaf) -> torch.Tensor:
    if not isinstance(leaf, torch.Tensor):
        return torch.tensor(float(leaf)).double().reshape(1)
    return (leaf.dequantize() if leaf.is_quantized else leaf).double().reshape(-1)


def sqnr(expected, got) -> float:
    """Decibels of one output, over the values that are finite in `expected`."""
    a, b = as_float(expected), as_float(got)
    a, b = a[a.isfinite()], b[a.isfinite()]
    noise = (a - b).pow(2).sum()
    return float("inf") if noise == 0 else float(10 * torch.log10(a.pow(2).sum() / noise))


def holds_reals(leaf) -> bool:
    return isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_quantized)


def kind_of(leaf) -> str:
    return f"{leaf.dtype} {list(leaf.shape)}" if isinstance(leaf, torch.Tensor) else type(leaf).__name__


def defect(expected, got) -> str:
    """Of another type or shape than expected, or not finite where that is; empty for neither."""
    if kind_of(expected) != kind_of(got):
        return f"is {kind_of(got)}, expected {kind_of(expected)}"
    if holds_reals(expected) and not bool(as_float(got)[as_float(expected).isfinite()].isfinite().all()):
        return "has values that are not finite"
    return ""


def weakness(expected, got, floor: float) -> str:
    """Why one output is no rounding of the expected one; empty when it is. Whole numbers and answers must be equal."""
    found = defect(expected, got)
    if found:
        return found
    if not holds_reals(expected):
        return "" if same_leaf(expected, got) else f"has other values than the expected {' '.join(str(expected).split())[:60]}"
    decibels = sqnr(expected, got)
    return "" if decibels >= floor else f"has {decibels:.1f} dB, {floor:.0f} are asked for"


def first_weakness(expected: list, got: list, floor: float, batches=None) -> str:
    """Empty when each output of each batch (of `batches`, where they are named) is at least a rounding of the expected one."""
    for batch, (want, have) in enumerate(zip(expected, got)):
        if batches is not None and batch not in batches:
            continue
        if len(want) != len(have):
            return f"{len(have)} outputs, expected {len(want)}"
        for index, (a, b) in enumerate(zip(want, have)):
            weak = weakness(a, b, floor)
            if weak:
                return f"output {index} of batch {batch} {weak}"
    return ""


def least_sqnr(expected: list, got: list) -> float:
    """Decibels of the worst output of one batch."""
    pairs = [(a, b) for a, b in zip(expected, got) if holds_reals(a) and holds_reals(b)]
    if any(a.shape != b.shape for a, b in pairs):
        return float("-inf")
    return min((sqnr(a, b) for a, b in pairs), default=float("inf"))


def first_difference(expected: list, got: list, expected_by: str) -> str:
    """Empty when equal bit for bit, else the first difference."""
    for batch, (want, have) in enumerate(zip(expected, got)):
        if len(want) != len(have):
            return f"{len(have)} outputs, {expected_by} has {len(want)}"
        for index, (a, b) in enumerate(zip(want, have)):
            if not same_leaf(a, b):
                return f"output {index} of batch {batch}: {_difference_text(a, b, expected_by)}"
    return ""


def _difference_text(a, b, expected_by: str) -> str:
    if kind_of(a) != kind_of(b):
        return f"{kind_of(b)}, {expected_by} has {kind_of(a)}"
    if not isinstance(a, torch.Tensor):
        return f"{b!r}, {expected_by} has {a!r}"
    differing = int((as_float(a) != as_float(b)).sum())
    largest = float((as_float(a) - as_float(b)).abs().max())
    return f"{differing} of {a.numel()} values differ from {expected_by}'s, largest {largest:.3g}, SQNR {sqnr(a, b):.1f} dB"
