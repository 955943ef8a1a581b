"""What a peer has to offer for one row of the result: how it quantizes, and how its file is loaded and called."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

import case
import samples
from case import Folder
from samples import Sample


@dataclass(frozen=True)
class Setting:
    """How a file is to be run."""
    threads: int
    timed_shapes: frozenset  # of samples.shapes_of: those that times are taken of


@dataclass(frozen=True)
class Model:
    """A loaded model. Only `call` is timed."""
    call: Callable[[Any], Any]
    inputs: Callable[[Sample], Any] = tuple
    outputs: Callable[[Any], list[Tensor]] = case.tensors_of


def no_more_libraries() -> None:
    pass


@dataclass(frozen=True)
class Column:
    key: str
    peer: str
    name: str
    load: Callable[[Path, Setting], Model]
    file: str = ''  # that quantizing writes; empty where the float file is run
    companion: str = ''  # a second file that belongs to it
    quantize: Callable[[Folder, Path], str | None] | None = None  # runs in a Python process of its own; may return a remark
    command: Callable[[str, Folder, Path], list[str]] | None = None  # or a program: tsq, folder, file to write
    remark: Callable[[str], str] | None = None  # on what that program printed
    libraries: Callable[[], object] = no_more_libraries  # loads those that `load` needs besides LibTorch
    needs_source: bool = False


class Impossible(Exception):
    """What a peer cannot do with a network: one sentence."""


Read = TypeVar('Read')


def readable(folder: Folder, read: Callable[[Any], Read], refusal: Callable[[Exception], str]) -> tuple[Read, str]:
    """What `read` makes of the TorchScript file, else of the frozen one, else of the source where there is one; and a remark on it."""
    def scripted() -> torch.jit.ScriptModule:
        return torch.jit.load(str(folder.model)).eval()

    ways = {'the file': scripted, 'the frozen file': lambda: torch.jit.freeze(scripted())}
    if folder.source.exists():
        ways['the source'] = lambda: case.load_source(folder)
    refusals = []
    for name, module in ways.items():
        try:
            return read(module()), f'read from {name}; the TorchScript file is refused: {refusals[0]}' if refusals else ''
        except Exception as error:
            refusals.append(refusal(error))
    raise Impossible(f'cannot read the TorchScript file: {refusals[0]}')


def by_shape(compiled: Callable[[Sample | None], Callable], timed: frozenset) -> Callable[[Sample], Any]:
    """Calls a model that is compiled anew for each shape that times are taken of, and once for all other shapes, `compiled(None)`."""
    made: dict[tuple | None, Callable] = {}

    def call(inputs: Sample) -> Any:
        shapes = samples.shapes_of(inputs)
        key = shapes if shapes in timed else None
        if key not in made:
            made[key] = compiled(inputs if key else None)
        return made[key](inputs)

    return call
