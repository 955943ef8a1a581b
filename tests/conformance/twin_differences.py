"""Where the files of one network cannot give equal int8 models, and why: each reason is a rule about the model, the table and the
mappings, never the name of a case."""

import inspect
import operator
from typing import Callable, Dict, List, Optional

import torch
from torch import nn
from torch.fx import GraphModule, symbolic_trace
from torch.nn import functional as F

import oracle
from case import Case

Twin = str  # "traced", "frozen" or "traced_frozen"

# Modules that do nothing but call a function; a frozen file holds the function's operator.
FUNCTION_OF_MODULE = {
    nn.Embedding: F.embedding,
    nn.EmbeddingBag: F.embedding_bag,
    nn.Softmax: F.softmax,
    nn.GroupNorm: F.group_norm,
    nn.LayerNorm: F.layer_norm,
    nn.Upsample: F.interpolate,
    nn.UpsamplingNearest2d: F.interpolate,
    nn.UpsamplingBilinear2d: F.interpolate,
    nn.Flatten: torch.flatten,
    nn.ReLU: F.relu,
    nn.ReLU6: F.relu6,
    nn.Hardtanh: F.hardtanh,
    nn.Hardswish: F.hardswish,
    nn.Hardsigmoid: F.hardsigmoid,
    nn.Sigmoid: torch.sigmoid,
    nn.Tanh: torch.tanh,
    nn.ELU: F.elu,
    nn.LeakyReLU: F.leaky_relu,
    nn.GELU: F.gelu,
    nn.SiLU: F.silu,
    nn.Mish: F.mish,
    nn.MaxPool1d: F.max_pool1d,
    nn.MaxPool2d: F.max_pool2d,
    nn.MaxPool3d: F.max_pool3d,
    nn.AvgPool1d: F.avg_pool1d,
    nn.AvgPool2d: F.avg_pool2d,
    nn.AvgPool3d: F.avg_pool3d,
    nn.AdaptiveAvgPool1d: F.adaptive_avg_pool1d,
    nn.AdaptiveAvgPool2d: F.adaptive_avg_pool2d,
    nn.AdaptiveAvgPool3d: F.adaptive_avg_pool3d,
    nn.InstanceNorm1d: F.instance_norm,
    nn.InstanceNorm2d: F.instance_norm,
    nn.InstanceNorm3d: F.instance_norm,
    nn.PixelShuffle: F.pixel_shuffle,
    nn.PixelUnshuffle: F.pixel_unshuffle,
}
# Those of which the tables treat module and function unlike each other: tsq takes a frozen script's operator for the function.
NOT_ALIKE = (F.softmax, F.group_norm, torch.flatten)
# Modules that tsq puts together again from the operators of a frozen file.
PUT_TOGETHER = (nn.Linear, nn.modules.conv._ConvNd, nn.modules.batchnorm._BatchNorm, nn.PReLU)
RETURN_THEIR_INPUT = (nn.Identity, nn.modules.dropout._DropoutNd)


class Facts:
    """What the rules ask of a case."""

    def __init__(self, case: Case, engine: str) -> None:
        self.case, self.engine = case, engine
        self.model = case.build()
        self.mappings = [make(engine) for make in (case.mapping, case.convert_mapping, case.equalization) if make is not None]
        # The engine's own table tells, too, which spellings have kernels.
        tables = [oracle.BACKEND_CONFIGS[engine]()] + ([case.backend(engine)] if case.backend is not None else [])
        self.patterns = [config._pattern_complex_format or config.pattern for table in tables for config in table.configs]
        default = torch.ao.quantization.get_default_qconfig_mapping(engine).object_type_qconfigs
        self.configured_types = {
            kind for mapping in self.mappings for kind, qconfig in mapping.object_type_qconfigs.items() if str(default.get(kind)) != str(qconfig)
        }
        self.graph: Optional[GraphModule] = None
        try:
            self.graph = symbolic_trace(self.model)
        except Exception:
            pass

    def nodes(self, op: str) -> list:
        return [node for node in self.graph.graph.nodes if node.op == op] if self.graph is not None else []

    def called_modules(self) -> List[nn.Module]:
        if self.graph is None:
            return [m for m in self.model.modules() if type(m).__module__.startswith("torch.nn.modules")]
        return [self.graph.get_submodule(node.target) for node in self.nodes("call_module")]

    def rows(self, symbols) -> set:
        """The patterns of the table that name one of the symbols, with a blank in its place."""
        return {str(_with_blank(pattern, symbol)) for symbol in symbols for pattern in self.patterns if _holds(pattern, symbol)}

    def is_taken_for_another(self, symbol, spellings) -> bool:
        """Whether a file that leaves `spellings` open has other patterns than the one that the model has, or a mapping names one."""
        return self.rows([symbol]) != self.rows(spellings) or any(each in self.configured_types for each in spellings)


def _holds(pattern, symbol) -> bool:
    return any(_holds(part, symbol) for part in pattern) if isinstance(pattern, tuple) else pattern is symbol or pattern == symbol


def _with_blank(pattern, symbol):
    """The pattern without the symbol's own name."""
    if isinstance(pattern, tuple):
        return tuple(_with_blank(part, symbol) for part in pattern)
    return "_" if pattern is symbol or pattern == symbol else pattern


def names_modules(facts: Facts) -> bool:
    by_name = any(
        mapping.module_name_qconfigs or mapping.module_name_regex_qconfigs or mapping.module_name_object_type_order_qconfigs for mapping in facts.mappings
    )
    custom = oracle.custom_config(facts.case, facts.engine)
    return by_name or bool(
        custom.standalone_module_names
        or custom.standalone_module_classes
        or custom.non_traceable_module_names
        or custom.non_traceable_module_classes
        or custom.preserved_attributes
    )


def has_module_that_returns_its_input(facts: Facts) -> bool:
    return any(isinstance(module, RETURN_THEIR_INPUT) for module in facts.called_modules())


def has_identity(facts: Facts) -> bool:
    return any(isinstance(module, nn.Identity) for module in facts.called_modules())


def spellings(node) -> list:
    """The functions and methods of Python that give the same operator as the node's."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    name = name.rstrip("_")
    base = name[1:] if name in ("iadd", "imul", "isub") else name
    module = getattr(node.target, "__module__", None)
    if node.op == "call_function" and module == "torch.nn.functional":
        return []
    bases = ["div", "truediv"] if base in ("div", "truediv") else [base]
    return [each for base in bases for each in (base, base + "_", *(getattr(place, base) for place in (torch, operator) if hasattr(place, base)))]


def spellings_in_a_frozen_script(function) -> list:
    """Of a function of the library: itself, and the modules that do nothing but call it."""
    return [function] + ([] if function in NOT_ALIKE else [kind for kind, called in FUNCTION_OF_MODULE.items() if called is function])


def has_module_like_a_function(facts: Facts) -> bool:
    called = [(type(module), FUNCTION_OF_MODULE.get(type(module))) for module in facts.called_modules()]
    called += [(node.target, node.target) for node in facts.nodes("call_function") if node.target in FUNCTION_OF_MODULE.values()]
    return any(function is not None and facts.is_taken_for_another(symbol, spellings_in_a_frozen_script(function)) for symbol, function in called)


def has_module_of_many_operators(facts: Facts) -> bool:
    known = PUT_TOGETHER + RETURN_THEIR_INPUT + tuple(FUNCTION_OF_MODULE)
    return any(not isinstance(module, known) for module in facts.called_modules())


def computes_with_parameters_alone(facts: Facts) -> bool:
    return any(
        node.all_input_nodes and all(argument.op == "get_attr" for argument in node.all_input_nodes)
        for op in ("call_function", "call_method", "call_module")
        for node in facts.nodes(op)
    )


def calls_a_method_of_a_buffer(facts: Facts) -> bool:
    """`self.buffer * x`: FX, which traces with the tensor itself, sees a call of its method."""
    return any(node.all_input_nodes and node.all_input_nodes[0].op == "get_attr" for node in facts.nodes("call_method"))


def has_number_as_an_argument(facts: Facts) -> bool:
    return any(parameter.default is not inspect.Parameter.empty for parameter in inspect.signature(facts.model.forward).parameters.values())


def computes_the_same_twice(facts: Facts) -> bool:
    calls = [(node.target, node.args, str(node.kwargs)) for node in facts.nodes("call_module")]
    calls += [((spellings(node) or [node.target])[0], node.args, str(node.kwargs)) for op in ("call_function", "call_method") for node in facts.nodes(op)]
    return any(calls.count(call) > 1 for call in calls)


def pads_by_a_mode(facts: Facts) -> bool:
    convolutions = [module for module in facts.called_modules() if isinstance(module, nn.modules.conv._ConvNd)]
    return any(module.padding_mode != "zeros" for module in convolutions)


def resizes(facts: Facts) -> bool:
    return any(node.target is F.interpolate for node in facts.nodes("call_function"))


def has_several_ways(facts: Facts) -> bool:
    """FX cannot trace it, or a module of the case's own has a condition or a loop."""
    own = [module for module in torch.jit.script(facts.model).modules() if not module.original_name in nn.__dict__ and hasattr(module, "graph")]
    return facts.graph is None or any(word in str(module.graph) for module in own for word in ("prim::If", "prim::Loop"))


def has_batch_norm_of_unknown_rank(facts: Facts) -> bool:
    norms = [node for node in facts.nodes("call_module") if isinstance(facts.graph.get_submodule(node.target), nn.modules.batchnorm._BatchNorm)]
    return any(node.all_input_nodes[0].op == "placeholder" for node in norms)


def has_equal_tensors(facts: Facts) -> bool:
    tensors = [attribute_of(facts.graph, node.target) for node in facts.nodes("get_attr")]
    tensors = [tensor for tensor in tensors if not isinstance(tensor, nn.Parameter)]
    return any(a.shape == b.shape and torch.equal(a, b) for index, a in enumerate(tensors) for b in tensors[:index])


def attribute_of(module, path: str):
    for name in path.split("."):
        module = getattr(module, name)
    return module


RULES: Dict[str, List[tuple]] = {
    "frozen": [
        ("freezing forgets the names and classes of modules, which the configuration names", names_modules),
        ("freezing drops modules that return their input, which FX observes", has_module_that_returns_its_input),
        ("a frozen script does not tell a module from its function, which have different rows", has_module_like_a_function),
        ("freezing opens a module of many operators, which FX takes as one", has_module_of_many_operators),
        ("freezing computes once what a model computes twice", computes_the_same_twice),
        ("freezing computes what depends on parameters alone, which FX observes", computes_with_parameters_alone),
        ("freezing makes buffers and parameters constants, of which FX takes buffers alone as they are", calls_a_method_of_a_buffer),
    ],
    "traced": [
        ("tracing drops modules that return their input, which FX observes", has_identity),
        ("a trace has the one way and the sizes of its example", has_several_ways),
        ("a number that forward takes is a constant in a trace", has_number_as_an_argument),
    ],
}
RULES["traced_frozen"] = [
    (text, rule) for text, rule in RULES["frozen"] + RULES["traced"] if rule is not has_module_like_a_function
] + [("a frozen trace does not tell the rank of a batch norm's input", has_batch_norm_of_unknown_rank)]


# Recipe best drops modules that return their input, and a row holds for every spelling.
NOT_IN_RECIPE_BEST = (has_identity, has_module_that_returns_its_input)

# Such padding changes how often a value occurs, which the observers of recipe best weigh.
OPENED_PADDING = ("freezing opens the padding of a convolution, and its input is then observed after the padding", pads_by_a_mode)
# The calls of one weight share what calibration finds for them.
SHARED_CONSTANT = ("equal tensors are one constant of a traced or frozen file", has_equal_tensors)
# Its condition, whether to resize one dimension, two or three, stays in a frozen script: a layer reads one of three values, and each
# of the three operators has a price of its own.
OPENED_RESIZING = ("freezing opens the function that resizes into three operators", resizes)
ALSO_IN_RECIPE_BEST = {
    "traced": [SHARED_CONSTANT],
    "frozen": [OPENED_PADDING, OPENED_RESIZING, SHARED_CONSTANT],
    "traced_frozen": [OPENED_PADDING, SHARED_CONSTANT],
}


def reason_for(case: Case, engine: str, twin: Twin, recipe: str) -> str:
    """Why the twin may differ from the scripted file; empty when nothing excuses it."""
    facts = Facts(case, engine)
    rules: List[tuple[str, Callable]] = RULES[twin]
    if recipe == "best":
        rules = ALSO_IN_RECIPE_BEST.get(twin, []) + [(text, rule) for text, rule in rules if rule not in NOT_IN_RECIPE_BEST]
    return next((text for text, rule in rules if rule(facts)), "")
