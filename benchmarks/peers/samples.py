"""Samples: reading files of them, and making batches out of their rows."""
from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import torch
from torch import Tensor

Sample = tuple[Tensor, ...]
MOST_BATCHES = 16  # different ones of a size: turns go through them


class Unusable(Exception):
    """A fault of the user's files: one sentence."""


def read(path: str) -> list[Sample]:
    if not Path(path).is_file():
        raise Unusable(f"there is no file '{path}'")
    try:
        content = torch.load(path, map_location='cpu', weights_only=True)
    except Exception as error:
        raise Unusable(f"'{path}' is no file of torch.save that holds tensors alone: {first_line(error).split('. ')[0]}") from error
    if not isinstance(content, list) or not content:
        raise Unusable(f"'{path}' holds {described(content)}: it must hold a list of samples, each a tensor or a tuple of tensors")
    return [sample_of(element, i, path) for i, element in enumerate(content)]


def sample_of(element: object, position: int, path: str) -> Sample:
    sample = (element,) if isinstance(element, Tensor) else element
    if not isinstance(sample, (tuple, list)) or not sample or not all(isinstance(x, Tensor) for x in sample):
        raise Unusable(f"sample {position} of '{path}' is {described(element)}: it must be a tensor or a tuple of tensors")
    return tuple(sample)


def described(value: object) -> str:
    if isinstance(value, (tuple, list)):
        kinds = sorted({type(x).__name__ for x in value})
        return f'an empty {type(value).__name__}' if not kinds else f'a {type(value).__name__} of {", ".join(kinds)}'
    return f'a {type(value).__name__}'


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


def shapes_of(sample: Sample) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(x.shape) for x in sample)


def rows_of(sample: Sample) -> int:
    return sample[0].size(0) if sample[0].dim() else 1


def has_rows(argument: Tensor, sample: Sample) -> bool:
    return argument.dim() > 0 and argument.size(0) == rows_of(sample)


def rows(sample: Sample) -> list[Sample]:
    """The sample cut along the first axis; arguments without rows stay whole in each."""
    return [tuple(x[i:i + 1] if has_rows(x, sample) else x for x in sample) for i in range(rows_of(sample))]


def alike(samples: list[Sample]) -> list[Sample]:
    """The rows of one shape: that of most rows."""
    groups: dict[tuple, list[Sample]] = defaultdict(list)
    for sample in samples:
        for row in rows(sample):
            groups[shapes_of(row)].append(row)
    return max(groups.values(), key=len)


def joined(some_rows: list[Sample]) -> Sample:
    first = some_rows[0]
    return tuple(torch.cat(column) if has_rows(first[i], first) else first[i] for i, column in enumerate(zip(*some_rows)))


def batches(samples: list[Sample], size: int) -> list[Sample]:
    """Batches out of the rows in order, from the front again where they are used up."""
    supply = alike(samples)
    count = min(MOST_BATCHES, -(-len(supply) // size))
    return [joined([supply[(i * size + j) % len(supply)] for j in range(size)]) for i in range(count)]


def varying_axes(samples: list[Sample]) -> list[set[int]]:
    """For each argument, the axes whose length is not the same in all samples."""
    return [{axis for axis in range(column[0].dim()) if len({x.size(axis) for x in column}) > 1} for column in zip(*samples)]
