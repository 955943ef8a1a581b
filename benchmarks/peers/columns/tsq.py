"""tsq: recipe best and the command's defaults, its trial included; statically on two engines, dynamically, and fused."""
from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

from case import Folder
from columns.column import Column, Model, Setting
from columns.libtorch import as_saved


def command(engine: str, mode: str, program: str, folder: Folder, file: Path) -> list[str]:
    data = ['--calib' if mode == 'static' else '--data', str(folder.calibration)]
    return [program, 'quantize', str(folder.model), *data, '--backend', engine, '--mode', mode, '--output', str(file), '--json']


def fused_command(program: str, folder: Folder, file: Path) -> list[str]:
    # Its processes inherit where the library of fused programs is.
    os.environ['TSQ_RUNTIME_LIBRARY'] = str(Path(program).resolve().parents[1] / 'lib' / 'libtsq_runtime.so')
    return [*command('x86', 'static', program, folder, file), '--target', 'fused']


def remark(printed: str) -> str:
    """What tsq itself says of the result: what it left float, and its warnings."""
    trial = json.loads(printed)['trial']
    return '; '.join([*map(left_float, trial['left_float']), *trial['warnings']])


def left_float(left: dict) -> str:
    return f"{len(left['layers'])} layers stay float: {left['text'] or left['cause'].replace('_', ' ')}"


def load(engine: str, file: Path, setting: Setting) -> Model:
    return as_saved(file, engine)


def load_runtime() -> None:
    import torch
    torch.ops.load_library(os.environ['TSQ_RUNTIME_LIBRARY'])


def column(engine: str, mode: str) -> Column:
    key, name = f'tsq_{engine}_{mode}', f'tsq {mode}, {engine}'
    return Column(key, 'tsq', name, partial(load, engine), f'{key}.pt', command=partial(command, engine, mode), remark=remark)


FUSED = Column('tsq_fused', 'tsq', 'tsq static, fused', partial(load, 'x86'), 'tsq_fused.pt', command=fused_command, remark=remark,
               libraries=load_runtime)

COLUMNS = [column('x86', 'static'), column('onednn', 'static'), column('x86', 'dynamic'), FUSED]
