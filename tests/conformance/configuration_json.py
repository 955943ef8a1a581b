"""PyTorch's configurations as the JSON that tsq reads: QConfigMapping, BackendConfig, PrepareCustomConfig."""

import functools
import operator

import torch
import torch.ao.nn.intrinsic.qat
import torch.ao.nn.qat
import torch.ao.nn.quantized.reference
import torch.nn.functional as F
from torch.ao.quantization import FakeQuantizeBase, MovingAverageMinMaxObserver, QConfigMapping
from torch.ao.quantization.backend_config import BackendConfig, BackendPatternConfig, DTypeConfig, DTypeWithConstraints
from torch.ao.quantization.fx.custom_config import PrepareCustomConfig
from torch.ao.quantization.utils import MatchAllNode


def type_name(target) -> str:
    """PyTorch's public name of a module class or a function; a Tensor method is its bare name already."""
    if isinstance(target, str):
        return target
    for prefix, namespace in (
        ("torch.nn", torch.nn),
        ("torch.ao.nn.intrinsic", torch.ao.nn.intrinsic),
        ("torch.ao.nn.intrinsic.qat", torch.ao.nn.intrinsic.qat),
        ("torch.ao.nn.qat", torch.ao.nn.qat),
        ("torch.ao.nn.quantized.reference", torch.ao.nn.quantized.reference),
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
    # How many channels there are, tsq knows of the weight.
    given = {key: _value(value) for key, value in partial.keywords.items() if key not in ("observer", "channel_len")}
    if not issubclass(partial.func, FakeQuantizeBase):
        return {"observer": partial.func.__name__, **given}
    observer = observer_json(partial.keywords.get("observer", MovingAverageMinMaxObserver))
    return {**observer, "fake_quantize": partial.func.__name__, **given}


def qconfig_json(qconfig):
    if qconfig is None:
        return None
    return {"activation": observer_json(qconfig.activation), "weight": observer_json(qconfig.weight)}


def equalization_json(config):
    if config is None:
        return None
    return {"input_activation": observer_json(config.input_activation), "weight": observer_json(config.weight)}


def mapping_to_json(mapping: QConfigMapping, entry_json=qconfig_json) -> dict:
    result = {"": entry_json(mapping.global_qconfig)}
    if mapping.object_type_qconfigs:
        result["object_type"] = [[type_name(t), entry_json(q)] for t, q in mapping.object_type_qconfigs.items()]
    if mapping.module_name_regex_qconfigs:
        result["module_name_regex"] = [[r, entry_json(q)] for r, q in mapping.module_name_regex_qconfigs.items()]
    if mapping.module_name_qconfigs:
        result["module_name"] = [[n, entry_json(q)] for n, q in mapping.module_name_qconfigs.items()]
    if mapping.module_name_object_type_order_qconfigs:
        result["module_name_object_type_order"] = [
            [name, type_name(target), index, entry_json(q)]
            for (name, target, index), q in mapping.module_name_object_type_order_qconfigs.items()
        ]
    return result


# ---- BackendConfig


def _pattern(value):
    if isinstance(value, tuple):
        return [_pattern(part) for part in value]
    return value if isinstance(value, int) else "MatchAllNode" if value is MatchAllNode else type_name(value)


def _dtype(value: torch.dtype) -> str:
    return "float" if value is torch.float else _value(value)


def _constrained(value: DTypeWithConstraints):
    given = {name: item for name, item in vars(value).items() if item is not None}
    given["dtype"] = _dtype(given["dtype"])
    return given["dtype"] if len(given) == 1 else given


def _dtype_config(config: DTypeConfig) -> dict:
    return {
        key: _constrained(value) if isinstance(value, DTypeWithConstraints) else _dtype(value) if key == "bias_dtype" else value
        for key, value in config.to_dict().items()
    }


# Getters of the cases' own, by the names that JSON has for what they do.
GETTER_NAMES: dict = {}


def getter(name: str):
    """Marks a root node getter or extra inputs getter with its name in JSON."""

    def register(function):
        GETTER_NAMES[function] = name
        return function

    return register


def _function_name(function) -> str:
    return GETTER_NAMES.get(function, f"{function.__module__}.{function.__qualname__}")


def _pattern_config(config: BackendPatternConfig) -> dict:
    entries = {}
    for key, value in config.to_dict().items():
        if key in ("pattern", "pattern_complex_format"):
            entries[key] = _pattern(value)
        elif key == "observation_type":
            entries[key] = value.name
        elif key == "dtype_configs":
            entries[key] = [_dtype_config(DTypeConfig.from_dict(each)) for each in value]
        elif key in ("fuser_method", "root_node_getter", "extra_inputs_getter"):
            entries[key] = _function_name(value)
        elif key == "num_tensor_args_to_observation_type":
            entries[key] = {str(count): kind.name for count, kind in value.items()}
        elif key == "input_type_to_index":
            entries[key] = value
        else:
            entries[key] = type_name(value)
    return entries


def backend_to_json(backend: BackendConfig) -> dict:
    return {"name": backend.name, "configs": [_pattern_config(config) for config in backend.configs]}


# ---- PrepareCustomConfig


def _standalone(kind_and_entry) -> list:
    target, entry = kind_and_entry
    return [
        target if isinstance(target, str) else type_name(target),
        mapping_to_json(entry.qconfig_mapping) if entry.qconfig_mapping is not None else None,
        None,
        prepare_custom_to_json(entry.prepare_custom_config) if entry.prepare_custom_config is not None else None,
        backend_to_json(entry.backend_config) if entry.backend_config is not None else None,
    ]


def prepare_custom_to_json(custom: PrepareCustomConfig) -> dict:
    result = {
        "standalone_module_name": list(map(_standalone, custom.standalone_module_names.items())),
        "standalone_module_class": list(map(_standalone, custom.standalone_module_classes.items())),
        "non_traceable_module_name": custom.non_traceable_module_names,
        "non_traceable_module_class": list(map(type_name, custom.non_traceable_module_classes)),
        "input_quantized_idxs": custom.input_quantized_indexes,
        "output_quantized_idxs": custom.output_quantized_indexes,
        "preserved_attributes": custom.preserved_attributes,
    }
    return {key: value for key, value in result.items() if value}
