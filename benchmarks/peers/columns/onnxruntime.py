"""ONNX Runtime: the TorchScript file exported to ONNX, then its static (QDQ) or dynamic quantization."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy
import torch

import case
import samples
from case import Folder
from columns.column import Column, Model, Setting, by_shape, readable
from samples import Sample

OPSET = 17  # the highest of the TorchScript exporter that ONNX Runtime's quantizers know whole


def name_of(argument: int) -> str:
    return f'argument{argument}'


def axis_name(argument: int, axis: int) -> str:
    return f'argument{argument}_axis{axis}'


def free_axes(folder: Folder) -> dict[str, dict[int, str]]:
    varying = samples.varying_axes(case.all_data(folder))
    return {name_of(i): {axis: axis_name(i, axis) for axis in axes} for i, axes in enumerate(varying) if axes}


def export(folder: Folder, file: Path) -> str:
    example, axes = torch.load(folder.calibration)[0], free_axes(folder)

    def write(module: torch.nn.Module) -> None:
        with warnings.catch_warnings(action='ignore'):
            torch.onnx.export(module, example, str(file), dynamo=False, opset_version=OPSET, dynamic_axes=axes,
                              input_names=[name_of(i) for i in range(len(example))])

    return readable(folder, write, samples.first_line)[1]


def arrays(sample: Sample, names: list[str]) -> dict[str, numpy.ndarray]:
    """What a session takes; arguments that the graph does not use are not among its names."""
    return {name_of(i): x.numpy() for i, x in enumerate(sample) if name_of(i) in names}


def exported(folder: Folder, file: Path) -> tuple[Path, str]:
    """The float graph as ONNX Runtime wants it before quantization. The symbolic inference of shapes helps, and cannot read each graph."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    raw, float_file = file.with_suffix('.raw.onnx'), file.with_suffix('.float.onnx')
    remark = export(folder, raw)
    try:
        quant_pre_process(str(raw), str(float_file))
    except Exception:
        quant_pre_process(str(raw), str(float_file), skip_symbolic_shape=True)
    return float_file, remark


def quantize_static(folder: Folder, file: Path) -> str:
    import onnx
    from onnxruntime import quantization

    float_file, remark = exported(folder, file)
    names = [x.name for x in onnx.load(float_file, load_external_data=False).graph.input]
    supply = iter([arrays(sample, names) for sample in torch.load(folder.calibration)])

    class Reader(quantization.CalibrationDataReader):
        def get_next(self) -> dict | None:
            return next(supply, None)

    # Unsigned activations are what the kernels for VNNI take; signed ones, the default, are computed in detours.
    quantization.quantize_static(str(float_file), str(file), Reader(), per_channel=True,
                                 activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8)
    return remark


def quantize_dynamic(folder: Folder, file: Path) -> str:
    from onnxruntime import quantization

    float_file, remark = exported(folder, file)
    quantization.quantize_dynamic(str(float_file), str(file), per_channel=True, weight_type=quantization.QuantType.QInt8)
    return remark


def session(file: Path, threads: int, fixed: dict[str, int]) -> object:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.add_session_config_entry('session.force_spinning_stop', '1')  # threads spin during a call, not in the turns of others
    for name, length in fixed.items():
        options.add_free_dimension_override_by_name(name, length)
    return onnxruntime.InferenceSession(str(file), options, providers=['CPUExecutionProvider'])


def libraries() -> None:
    import onnxruntime  # noqa: F401


def load(file: Path, setting: Setting) -> Model:
    def compiled(inputs: Sample | None) -> Callable:
        fixed = {axis_name(i, axis): length for i, x in enumerate(inputs or ()) for axis, length in enumerate(x.shape)}
        ready = session(file, setting.threads, fixed)
        names = [x.name for x in ready.get_inputs()]
        return lambda arguments: ready.run(None, arrays(arguments, names))

    return Model(by_shape(compiled, setting.timed_shapes), outputs=tensors)


def tensors(results: list[numpy.ndarray]) -> list[torch.Tensor]:
    return [torch.from_numpy(x) for x in results if x.dtype.kind == 'f']


COLUMNS = [Column(f'onnxruntime_{mode}', 'onnxruntime', f'ONNX Runtime {mode}', load, f'onnxruntime_{mode}.onnx', quantize=quantize,
                  libraries=libraries)
           for mode, quantize in (('static', quantize_static), ('dynamic', quantize_dynamic))]
