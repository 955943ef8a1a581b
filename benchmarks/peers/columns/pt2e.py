"""PyTorch 2 export quantization (torchao's PT2E) with the X86InductorQuantizer, compiled by Inductor with frozen weights."""
from __future__ import annotations

from pathlib import Path

import torch
from torch.export import Dim

import case
import samples
from case import Folder
from columns.column import Column, Model, Setting, by_shape
from samples import Sample


def export(module: torch.nn.Module, data: list[Sample]) -> torch.export.ExportedProgram:
    """With free axes where lengths vary in the data. A free length of 1 in the example would become a constant: the largest has none."""
    shapes = tuple({axis: Dim.AUTO for axis in axes} for axes in samples.varying_axes(data))
    return torch.export.export(module, max(data, key=lambda sample: sample[0].numel()), dynamic_shapes=shapes)


def without_unused(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Without the float weights, which the converted graph no longer reads and a file would keep."""
    read = {node.target for node in module.graph.nodes if node.op == 'get_attr'}
    for name in [name for name, _ in (*module.named_parameters(), *module.named_buffers()) if name not in read]:
        owner, _, attribute = name.rpartition('.')
        delattr(module.get_submodule(owner), attribute)
    return module


def quantize(folder: Folder, file: Path) -> None:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    data = case.all_data(folder)
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(export(case.load_source(folder), data).module(), quantizer)
    for sample in torch.load(folder.calibration):
        prepared(*sample)
    torch.export.save(export(without_unused(convert_pt2e(prepared)), data), file)


def libraries() -> None:
    import torch._inductor.compile_fx  # noqa: F401
    import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer  # noqa: F401  registers operators and Inductor's patterns of int8


def load(file: Path, setting: Setting) -> Model:
    torch._inductor.config.freezing = True
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 1 + len(setting.timed_shapes))
    module = torch.export.load(file).module()

    def compiled(inputs: Sample | None):
        model = torch.compile(module, dynamic=inputs is None)
        return lambda arguments: model(*arguments)

    return Model(by_shape(compiled, setting.timed_shapes))


COLUMNS = [Column('pt2e', 'pt2e', 'PT2E, Inductor', load, 'pt2e.pt2', libraries=libraries, quantize=quantize, needs_source=True)]
