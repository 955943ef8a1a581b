"""Reads the quantized operators of a TorchScript model with their scale and zero point, in graph order."""

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


def quantized_operators(module: torch.jit.ScriptModule) -> list:
    """[(operator, scale, zero point)]; scale and zero point are None for operators that have none."""
    found = []
    for node in _nodes(module.inlined_graph):
        if not _is_quantized(node.kind()):
            continue
        arguments = [argument.name for argument in torch._C.parse_schema(node.schema()).arguments]
        values = dict(zip(arguments, node.inputs()))
        scale, zero_point = (
            next((_number(_constant(values[name], module)) for name in names if name in values), None)
            for names in (SCALE_NAMES, ZERO_POINT_NAMES)
        )
        found.append((node.kind(), scale, None if zero_point is None else int(zero_point)))
    return found
