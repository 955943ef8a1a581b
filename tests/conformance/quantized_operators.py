"""Reads the quantized operators of a TorchScript model with their scale and zero point, in graph order.

FX quantizes constants when the model runs, tsq once: what a constant is rounded to counts by its values.
"""

import hashlib

import torch

# Best first: quantized::elu has its own `scale` beside `output_scale`.
SCALE_NAMES = ("output_scale", "Y_scale_i", "scale")
ZERO_POINT_NAMES = ("output_zero_point", "Y_zero_point_i", "zero_point")


def _constant(value, module):
    """The Python value of a constant or of an attribute of the model; None when it is computed."""
    node = value.node()
    if node.kind() == "prim::Constant":
        return value.toIValue()
    if node.kind() == "prim::GetAttr":
        path = []
        while node.kind() == "prim::GetAttr":
            path.append(node.s("name"))
            node = next(node.inputs()).node()
        if node.kind() != "prim::Param":
            return None
        owner = module
        for name in reversed(path):
            owner = getattr(owner, name)
        return owner
    if node.kind() in ("aten::item", "aten::Float", "aten::Int", "prim::NumToTensor", "aten::detach"):
        return _constant(next(node.inputs()), module)
    return None


def _number(value):
    return None if value is None else float(value)


def _nodes(block):
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _is_quantized(kind: str) -> bool:
    if kind.startswith(("quantized::", "onednn::")):
        return "prepack" not in kind and "unpack" not in kind
    return kind == "aten::quantize_per_tensor"


ROUNDING = ("aten::quantize_per_tensor", "aten::quantize_per_channel", "aten::dequantize")


def _tensor(value, module):
    """The tensor of a constant or attribute, also where an operator rounds it; None for what is computed otherwise."""
    node = value.node()
    if node.kind() in ROUNDING:
        arguments = [_tensor(argument, module) if index == 0 else _constant(argument, module) for index, argument in enumerate(node.inputs())]
        if any(argument is None for argument in arguments):
            return None
        if node.kind() == "aten::quantize_per_channel":
            return torch.quantize_per_channel(arguments[0].detach(), arguments[1], arguments[2], arguments[3], _dtype(arguments[4]))
        if node.kind() == "aten::quantize_per_tensor":
            return torch.quantize_per_tensor(arguments[0].detach(), arguments[1], arguments[2], _dtype(arguments[3]))
        return arguments[0].dequantize()
    held = _constant(value, module)
    return held if isinstance(held, torch.Tensor) else None


def _dtype(number):
    return {12: torch.qint8, 13: torch.quint8, 14: torch.qint32}[number]


def _digest(tensor) -> str:
    values = tensor.detach().dequantize() if tensor.is_quantized else tensor.detach()
    return hashlib.sha256(values.float().contiguous().numpy().tobytes()).hexdigest()[:16] + str(list(values.shape))


def _is_rounded_constant(node, module) -> bool:
    return node.kind() in ROUNDING and _tensor(next(node.inputs()), module) is not None


def rounded_constants(module: torch.jit.ScriptModule) -> set:
    """Digests of the constants that the model quantizes when it runs, as they are then rounded."""
    graph = module.inlined_graph  # its nodes are there as long as it is
    nodes = [node for node in _nodes(graph) if node.kind() in ROUNDING]
    rounded = (_tensor(node.output(), module) for node in nodes)
    return {_digest(tensor) for tensor in rounded if tensor is not None}


def constants(module: torch.jit.ScriptModule) -> set:
    """Digests of the tensors that the model reads as they are in the file."""
    graph = module.inlined_graph
    nodes = [node for node in _nodes(graph) if node.kind() == "prim::GetAttr"]
    tensors = (_tensor(node.output(), module) for node in nodes)
    return {_digest(tensor) for tensor in tensors if tensor is not None}


def quantized_operators(module: torch.jit.ScriptModule) -> list:
    """[(operator, scale, zero point)]; scale and zero point are None for operators that have none."""
    found = []
    graph = module.inlined_graph
    for node in _nodes(graph):
        if not _is_quantized(node.kind()) or _is_rounded_constant(node, module):
            continue
        arguments = [argument.name for argument in torch._C.parse_schema(node.schema()).arguments]
        values = dict(zip(arguments, node.inputs()))
        scale, zero_point = (
            next((_number(_constant(values[name], module)) for name in names if name in values), None)
            for names in (SCALE_NAMES, ZERO_POINT_NAMES)
        )
        found.append((node.kind(), scale, None if zero_point is None else int(zero_point)))
    return found
