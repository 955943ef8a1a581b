"""Float, as LibTorch runs it best: frozen, and fused for oneDNN."""
from __future__ import annotations

from pathlib import Path

import torch

from columns.column import Column, Model, Setting


def called(module: torch.jit.ScriptModule) -> Model:
    return Model(lambda inputs: module(*inputs))


def frozen(file: Path, setting: Setting) -> Model:
    return called(torch.jit.freeze(torch.jit.load(str(file)).eval()))


def fused(file: Path, setting: Setting) -> Model:
    return called(torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.load(str(file)).eval())))


def as_saved(file: Path, engine: str) -> Model:
    """A file of int8: LibTorch packs its weights for the engine while it loads."""
    torch.backends.quantized.engine = engine
    return called(torch.jit.load(str(file)).eval())


COLUMNS = [Column('libtorch_frozen', 'libtorch', 'LibTorch float, frozen', frozen),
           Column('libtorch_fused', 'libtorch', 'LibTorch float, fused', fused)]
