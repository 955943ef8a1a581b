"""tsq: recipe best and the command's defaults, its trial included; statically on two engines, and dynamically."""
from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from case import Folder
from columns.column import Column, Model, Setting
from columns.libtorch import as_saved


def command(engine: str, mode: str, program: str, folder: Folder, file: Path) -> list[str]:
    data = ['--calib' if mode == 'static' else '--data', str(folder.calibration)]
    return [program, 'quantize', str(folder.model), *data, '--backend', engine, '--mode', mode, '--output', str(file), '--json']


def remark(printed: str) -> str:
    """What tsq itself says of the result: what it left float, and its warnings."""
    trial = json.loads(printed)['trial']
    return '; '.join([*(left['text'] for left in trial['left_float']), *trial['warnings']])


def load(engine: str, file: Path, setting: Setting) -> Model:
    return as_saved(file, engine)


def column(engine: str, mode: str) -> Column:
    key, name = f'tsq_{engine}_{mode}', f'tsq {mode}, {engine}'
    return Column(key, 'tsq', name, partial(load, engine), f'{key}.pt', command=partial(command, engine, mode), remark=remark)


COLUMNS = [column('x86', 'static'), column('onednn', 'static'), column('x86', 'dynamic')]
