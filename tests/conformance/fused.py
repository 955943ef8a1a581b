"""Fused programs beside the reference model that they were cut from, in recipe fx: both compute the same real numbers and round them
to the same steps. Where a sum lies between two steps, which one it becomes is up to its last bits: int8 results are equal but for
one step. Float results, after layers in which that may have happened, are equal but for one step of 8 bits over their range. Several
layers, above all of random weights, carry such a step on and make it larger: there each result has the decibels that are asked of every
case beside float. What no program computes runs on LibTorch's kernels, of which these tests say nothing.
"""

import tempfile
from pathlib import Path

import torch

import oracle
from comparison import as_float, first_weakness, holds_reals, kind_of, same_leaf
from jobs import FAILED, JobServer
from twins import Files, outputs_of
from verdict import REFUSED

NEAR, EXACT, NO_PROGRAM = "within one step of the reference", "equal to the reference", "without a program"
CARRIED = "another step in between"


def step_of(leaf: torch.Tensor, numbers: torch.Tensor, rounding: float) -> float:
    """Of its scale; of floats that were rounded before, the distance of neighbours; else of 8 bits over its range."""
    if leaf.is_quantized and leaf.qscheme() == torch.per_tensor_affine:
        return leaf.q_scale()
    if not numbers.numel():
        return 0.0
    apart = numbers.unique().diff()
    apart = apart[apart > rounding]
    levels = float(apart.min()) if 0 < apart.numel() < 256 else 0.0
    return max(levels, float(numbers.max() - numbers.min()) / 255)


def distance(reference, fused) -> float:
    """In steps; infinite for what is of another kind or not finite in the same places."""
    if kind_of(reference) != kind_of(fused):
        return float("inf")
    if not holds_reals(reference):
        return 0.0 if same_leaf(reference, fused) else float("inf")
    a, b = as_float(reference), as_float(fused)
    finite = a.isfinite()
    if not torch.equal(finite, b.isfinite()):
        return float("inf")
    largest = float((a - b)[finite].abs().max()) if bool(finite.any()) else 0.0
    # Sums of floats in another order.
    rounding = 1e-5 * float(a[finite].abs().max()) if bool(finite.any()) else 0.0
    if largest <= rounding:
        return 0.0
    return largest / max(step_of(reference, torch.cat([a[finite], b[finite]]), rounding), rounding)


def furthest(reference: list, fused: list) -> tuple:
    """(steps, which output)."""
    found = (0.0, "")
    for batch, (want, have) in enumerate(zip(reference, fused)):
        if len(want) != len(have):
            return float("inf"), f"{len(have)} outputs, the reference has {len(want)}"
        for index, (a, b) in enumerate(zip(want, have)):
            steps = distance(a, b)
            if steps > found[0]:
                found = (steps, f"output {index} of batch {batch}")
    return found


def check(job, server: JobServer, options) -> tuple:
    case, engine = job
    oracle.settle_this_process(engine)
    with tempfile.TemporaryDirectory() as folder:
        files = Files(options.cache, Path(folder), case, engine, "fx")
        reference = files.paths.own / "reference.pt"
        request = {**files.job(engine, files.scripted), "reference": str(reference), "target": "fused", "library": options.library}
        answer = server.ask(request)
        if answer["exit"] != 0:
            return (REFUSED, case.refusal) if case.refusal and case.refusal in answer["error"] else (FAILED, answer["error"])
        model = torch.jit.load(request["output"])
        fused, expected = outputs_of(model, case, engine), outputs_of(torch.jit.load(str(reference)), case, engine)
        graph = str(model.inlined_graph)
    if isinstance(expected, str) or isinstance(fused, str):
        return FAILED, f"reference {expected if isinstance(expected, str) else 'runs'}; fused {fused if isinstance(fused, str) else 'runs'}"
    steps, place = furthest(expected, fused)
    text = f"{steps:.2f} steps in {place}" if steps else ""
    if options.show:
        text += "\n" + graph
    if "tsq::run" not in graph:
        return NO_PROGRAM, text
    if steps > 1.01:
        weak = first_weakness(expected, fused, case.floor(engine))
        return (FAILED, f"{weak}; {text}") if weak else (CARRIED, text)
    return (NEAR if steps else EXACT), text
