"""PyTorch's FX quantization with its defaults for engine x86, scripted and saved: what its users deploy."""
from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.ao.quantization import QConfigMapping, default_dynamic_qconfig, float_qparams_weight_only_qconfig, get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

import case
from case import Folder
from columns.column import Column, Model, Setting
from columns.libtorch import as_saved

ENGINE = 'x86'


def static_mapping() -> QConfigMapping:
    return get_default_qconfig_mapping(ENGINE)


def dynamic_mapping() -> QConfigMapping:
    """FX has no default of its own for mode dynamic."""
    return QConfigMapping().set_global(default_dynamic_qconfig).set_object_type(nn.Embedding, float_qparams_weight_only_qconfig)


def quantize(mapping: QConfigMapping, calibrates: bool, folder: Folder, file: Path) -> None:
    calibration = torch.load(folder.calibration)
    torch.backends.quantized.engine = ENGINE
    prepared = prepare_fx(case.load_source(folder), mapping, calibration[0])
    for sample in calibration if calibrates else []:
        prepared(*sample)
    torch.jit.script(convert_fx(prepared)).save(str(file))


def load(file: Path, setting: Setting) -> Model:
    return as_saved(file, ENGINE)


def column(mode: str, mapping: QConfigMapping) -> Column:
    made_by = partial(quantize, mapping, mode == 'static')
    return Column(f'fx_{mode}', 'fx', f'FX {mode}', load, f'fx_{mode}.pt', quantize=made_by, needs_source=True)


COLUMNS = [column('static', static_mapping()), column('dynamic', dynamic_mapping())]
