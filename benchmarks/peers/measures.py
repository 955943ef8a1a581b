"""Figures: SQNR and agreement of outputs, ratios of times with their intervals."""
from __future__ import annotations

import math
import random
import statistics
from dataclasses import dataclass

import torch
from torch import Tensor

RESAMPLES = 2000
Outputs = list[list[Tensor]]  # sample by sample


class Different(Exception):
    """Outputs that cannot be compared: one sentence."""


@dataclass(frozen=True)
class Interval:
    ratio: float
    low: float
    high: float


def decibels(signal: float, noise: float) -> float:
    return 10 * math.log10(signal / noise) if noise > 0 and signal > 0 else math.inf if noise == 0 else -math.inf


def check(wanted: Outputs, got: Outputs) -> None:
    for i, (right, found) in enumerate(zip(wanted, got, strict=True)):
        if [x.shape for x in right] != [x.shape for x in found]:
            shapes = [[tuple(x.shape) for x in result] for result in (found, right)]
            raise Different(f'its outputs for test sample {i} have shapes {shapes[0]}, those of float {shapes[1]}')
        if any(not x.isfinite().all() and y.isfinite().all() for x, y in zip(found, right)):
            raise Different(f'its outputs for test sample {i} are not finite')


def sqnr(wanted: Outputs, got: Outputs) -> float:
    """Of the worst output, over all samples."""
    def of_output(i: int) -> float:
        signal = sum(right[i].double().square().sum().item() for right in wanted)
        noise = sum((right[i].double() - found[i].double()).square().sum().item() for right, found in zip(wanted, got))
        return decibels(signal, noise)

    return min(of_output(i) for i in range(len(wanted[0])))


def looks_like_scores(outputs: list[Tensor]) -> bool:
    """A matrix of two columns or more whose rows are not all of length 1, as those of embeddings are."""
    if any(x.dim() != 2 or x.size(1) < 2 for x in outputs):
        return False
    lengths = torch.cat([x.double().norm(dim=1) for x in outputs])
    return not torch.allclose(lengths, torch.ones_like(lengths), atol=1e-4)


def agreement(wanted: Outputs, got: Outputs) -> float | None:
    """Share of rows whose largest number is in the same column; of the worst output. None where no output looks like scores."""
    shares = []
    for i in range(len(wanted[0])):
        right, found = [x[i] for x in wanted], [x[i] for x in got]
        if looks_like_scores(right):
            same = [x.argmax(1) == y.argmax(1) for x, y in zip(right, found)]
            shares.append(torch.cat(same).double().mean().item())
    return min(shares, default=None)


def ratio(times: list[float], base: list[float], seed: int) -> Interval:
    """Median over rounds of a column's time divided by that of the base in the same round, with a 95 % bootstrap interval over rounds."""
    ratios, source = [x / y for x, y in zip(times, base, strict=True)], random.Random(seed)
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return Interval(statistics.median(ratios), medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1])
