"""OpenVINO: the TorchScript file converted, quantized by NNCF, compiled for the lowest latency."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from case import Folder
from columns.column import Column, Model, Setting, by_shape, readable
from samples import Sample


def refusal(error: Exception) -> str:
    """The line of OpenVINO's message that names operators, or else the first."""
    lines = [line.strip(' -') for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if 'operations: ' in line or 'failed for: ' in line), lines[0] if lines else type(error).__name__)


def has_attention(network: object) -> bool:
    """Whether the graph normalizes layers and has softmax in it, for which NNCF has a scheme of its own."""
    kinds = {operator.get_type_name() for operator in network.get_ops()}
    return 'MVN' in kinds and bool(kinds & {'Softmax', 'ScaledDotProductAttention'})


def quantize(folder: Folder, file: Path) -> str:
    import nncf
    import openvino

    calibration = torch.load(folder.calibration)
    example = calibration[0] if len(calibration[0]) > 1 else calibration[0][0]
    network, remark = readable(folder, lambda module: openvino.convert_model(module, example_input=example), refusal)
    arrays = [[x.numpy() for x in sample] for sample in calibration]
    kind = nncf.ModelType.TRANSFORMER if has_attention(network) else None
    openvino.save_model(nncf.quantize(network, nncf.Dataset(arrays), subset_size=len(arrays), model_type=kind), file)
    return remark


def libraries() -> None:
    """With the plugin of the processor, which is loaded when it is asked something."""
    import openvino

    openvino.Core().get_property('CPU', 'FULL_DEVICE_NAME')


def load(file: Path, setting: Setting) -> Model:
    import openvino

    core = openvino.Core()
    properties = {'PERFORMANCE_HINT': 'LATENCY', 'INFERENCE_NUM_THREADS': setting.threads, 'NUM_STREAMS': 1}

    def compiled(inputs: Sample | None) -> Callable:
        network = core.read_model(file)
        if inputs is not None:
            network.reshape({port: list(x.shape) for port, x in zip(network.inputs, inputs)})
        request = core.compile_model(network, 'CPU', properties).create_infer_request()
        return lambda arguments: request.infer([x.numpy() for x in arguments], share_inputs=True, share_outputs=True)

    return Model(by_shape(compiled, setting.timed_shapes), outputs=tensors)


def tensors(results: object) -> list[torch.Tensor]:
    return [torch.from_numpy(x.copy()) for x in results.values() if x.dtype.kind == 'f']


COLUMNS = [Column('openvino', 'openvino', 'OpenVINO, NNCF', load, 'openvino.xml', companion='openvino.bin', quantize=quantize,
                  libraries=libraries)]
