"""QConfigMapping as the JSON that `tsq quantize --qconfig` reads."""

import functools
import operator

import torch
import torch.nn.functional as F
from torch.ao.quantization import QConfigMapping


def type_name(target) -> str:
    """PyTorch's public name of a module class or a function; a Tensor method is its bare name already."""
    if isinstance(target, str):
        return target
    for prefix, namespace in (
        ("torch.nn", torch.nn),
        ("torch.ao.nn.intrinsic", torch.ao.nn.intrinsic),
        ("torch.nn.functional", F),
        ("torch", torch),
        ("operator", operator),
    ):
        for name in sorted(vars(namespace)):
            if not name.startswith("_") and vars(namespace)[name] is target:
                return f"{prefix}.{name}"
    if isinstance(target, type):
        return f"{target.__module__}.{target.__qualname__}"
    raise ValueError(f"no public name for {target!r}")


def _value(value):
    if isinstance(value, (torch.dtype, torch.qscheme)):
        return str(value).removeprefix("torch.")
    return value


def observer_json(constructor) -> dict:
    partial = getattr(constructor, "p", constructor)
    if not isinstance(partial, functools.partial):
        return {"observer": partial.__name__}
    if partial.args:
        raise ValueError(f"positional arguments in {partial!r}")
    return {"observer": partial.func.__name__, **{key: _value(value) for key, value in partial.keywords.items()}}


def qconfig_json(qconfig):
    if qconfig is None:
        return None
    return {"activation": observer_json(qconfig.activation), "weight": observer_json(qconfig.weight)}


def mapping_to_json(mapping: QConfigMapping) -> dict:
    result = {"": qconfig_json(mapping.global_qconfig)}
    if mapping.object_type_qconfigs:
        result["object_type"] = [[type_name(t), qconfig_json(q)] for t, q in mapping.object_type_qconfigs.items()]
    if mapping.module_name_regex_qconfigs:
        result["module_name_regex"] = [[r, qconfig_json(q)] for r, q in mapping.module_name_regex_qconfigs.items()]
    if mapping.module_name_qconfigs:
        result["module_name"] = [[n, qconfig_json(q)] for n, q in mapping.module_name_qconfigs.items()]
    if mapping.module_name_object_type_order_qconfigs:
        result["module_name_object_type_order"] = [
            [name, type_name(target), index, qconfig_json(q)]
            for (name, target, index), q in mapping.module_name_object_type_order_qconfigs.items()
        ]
    return result
