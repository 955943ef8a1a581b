"""Writes PyTorch's backend tables, QConfigs and QConfigMappings as one JSON file in the layout of tsq's to_dict().

usage: dump_pytorch_tables.py OUTPUT.json

Where torch 2.13 is not to be had, the file holds {"unavailable": reason} and the tests that read it are skipped.
"""

import inspect
import itertools
import json
import operator
import random
import re
import sys
import warnings

WANTED = "2.13."

try:
    import torch
except ImportError as error:
    torch = None
    reason = f"this Python cannot import torch: {error}"
else:
    reason = None if torch.__version__.startswith(WANTED) else f"torch is {torch.__version__}, wanted {WANTED}*"

if reason is not None:
    with open(sys.argv[1], "w") as file:
        json.dump({"unavailable": reason}, file)
    sys.exit(0)

import torch.nn.functional as F
from torch.ao.quantization import observer as obs
from torch.ao.quantization import qconfig as qc
from torch.ao.quantization import qconfig_mapping as qm
from torch.ao.quantization.backend_config import (
    executorch,
    fbgemm,
    native,
    onednn,
    qnnpack,
    tensorrt,
    x86,
    _qnnpack_pt2e,
)
from torch.ao.quantization.backend_config import utils
from torch.ao.quantization.fake_quantize import FakeQuantizeBase
from torch.ao.quantization.fx.qconfig_mapping_utils import _generate_node_name_to_qconfig
from torch.ao.quantization.fx.tracer import QuantizationTracer
from torch.ao.quantization.utils import MatchAllNode

warnings.filterwarnings("ignore")

TABLES = {
    "native": native.get_native_backend_config,
    "fbgemm": fbgemm.get_fbgemm_backend_config,
    "x86": x86.get_x86_backend_config,
    "qnnpack": qnnpack.get_qnnpack_backend_config,
    "onednn": onednn.get_onednn_backend_config,
    "executorch": executorch.get_executorch_backend_config,
    "tensorrt": tensorrt.get_tensorrt_backend_config,
    "qnnpack_pt2e": _qnnpack_pt2e.get_qnnpack_pt2e_backend_config,
}
ENGINES = ["fbgemm", "x86", "qnnpack", "onednn"]


# Functions have no path of their own: they are known by where they can be found. Where torch and torch.nn.functional hold
# one object, the latter names it.
PLACES = [("torch.nn.functional", F), ("torch", torch), ("operator", operator)]
FUNCTION_NAMES = {}
for prefix, place in PLACES:
    for name in sorted(dir(place)):
        value = getattr(place, name)
        if callable(value) and not name.startswith("_"):
            FUNCTION_NAMES.setdefault(id(value), f"{prefix}.{name}")

PUBLIC_MODULES = [
    torch.nn,
    torch.ao.nn.intrinsic,
    torch.ao.nn.intrinsic.qat,
    torch.ao.nn.qat,
    torch.ao.nn.quantized.reference,
]


def type_name(what):
    if isinstance(what, (str, int)):
        return what
    if what is MatchAllNode:
        return "MatchAllNode"
    if inspect.isclass(what):
        for module in PUBLIC_MODULES:
            if getattr(module, what.__name__, None) is what:
                return f"{module.__name__}.{what.__name__}"
        return f"{what.__module__}.{what.__qualname__}"
    if isinstance(what, torch._ops.OpOverload):
        return f"torch.ops.{what}"
    return FUNCTION_NAMES[id(what)]


def pattern(value):
    return [pattern(part) for part in value] if isinstance(value, tuple) else type_name(value)


def dtype(value):
    name = str(value).removeprefix("torch.")
    return "float" if name == "float32" else name


def constrained(value):
    fields = {name: item for name, item in vars(value).items() if item is not None}
    fields["dtype"] = dtype(fields["dtype"])
    return fields["dtype"] if len(fields) == 1 else fields


def dtype_config(config):
    entries = {}
    for key, value in config.to_dict().items():
        entries[key] = constrained(value) if hasattr(value, "scale_exact_match") else value
        if key == "bias_dtype":
            entries[key] = dtype(value)
    return entries


def function_path(function):
    return f"{function.__module__}.{function.__qualname__}"


def pattern_config(config):
    entries = {}
    for key, value in config.to_dict().items():
        if key in ("pattern", "pattern_complex_format"):
            value = pattern(value)
        elif key == "observation_type":
            value = value.name
        elif key == "dtype_configs":
            value = [dtype_config(entry) for entry in config.dtype_configs]
        elif key == "num_tensor_args_to_observation_type":
            value = {str(count): kind.name for count, kind in value.items()}
        elif key in ("fuser_method", "root_node_getter", "extra_inputs_getter"):
            value = function_path(value)
        elif key != "input_type_to_index":
            value = type_name(value)
        entries[key] = value
    return entries


def table(config):
    return {"name": config.name, "configs": [pattern_config(entry) for entry in config.configs]}


class Name(str):
    """A name that Python prints without quotes, as it prints a class or a function."""

    def __repr__(self):
        return str(self)


def printable(value):
    if isinstance(value, (list, tuple)):
        return tuple(printable(item) for item in value)
    if isinstance(value, dict):
        return {key: printable(item) for key, item in sorted(value.items())}
    return Name(value) if isinstance(value, str) else value


def pretty_entry(config):
    """entry_to_pretty_str of a row, by public names."""
    fields = pattern_config(config)
    entry = {key: printable(value) for key, value in fields.items()}
    entry["dtype_configs"] = [
        {key: printable(value) for key, value in fields.items()} for fields in fields["dtype_configs"]
    ]
    return utils.entry_to_pretty_str(entry)


def inner_fuser(function):
    """The table's fuser out of the wrapper that reverses its arguments."""
    if function.__name__ == "reversed":
        return next(cell.cell_contents for cell in function.__closure__ if callable(cell.cell_contents))
    return function


def derived_maps(config):
    """Every function of backend_config/utils.py. Maps are lists of pairs: patterns are no keys in JSON."""

    def pairs(found, value):
        return [[pattern(key), value(item)] for key, item in found.items()]

    references = utils.get_root_module_to_quantized_reference_module(config)
    return {
        "pattern_to_dtype_configs": pairs(
            utils.get_pattern_to_dtype_configs(config), lambda configs: [dtype_config(entry) for entry in configs]
        ),
        "qat_module_classes": sorted(type_name(cls) for cls in utils.get_qat_module_classes(config)),
        "fused_module_classes": sorted(type_name(cls) for cls in utils.get_fused_module_classes(config)),
        "pattern_to_input_type_to_index": pairs(utils.get_pattern_to_input_type_to_index(config), dict),
        "root_module_to_quantized_reference_module": [
            [type_name(root), type_name(reference)] for root, reference in references.items()
        ],
        "fuser_method_mapping": pairs(
            utils.get_fuser_method_mapping(config), lambda fuser: function_path(inner_fuser(fuser))
        ),
        "module_to_qat_module": pairs(utils.get_module_to_qat_module(config), type_name),
        "fusion_pattern_to_root_node_getter": pairs(
            utils.get_fusion_pattern_to_root_node_getter(config), function_path
        ),
        "fusion_pattern_to_extra_inputs_getter": pairs(
            utils.get_fusion_pattern_to_extra_inputs_getter(config), function_path
        ),
        "entries": [pretty_entry(entry) for entry in config.configs],
    }


def boolean_dispatches():
    names = ["fractional_max_pool2d", "fractional_max_pool3d"] + [
        f"{kind}max_pool{dims}d" for kind in ("", "adaptive_") for dims in (1, 2, 3)
    ]
    return [utils.remove_boolean_dispatch_from_name(getattr(F, name)) for name in names]


REGEXES = [
    "foo.*bar.*conv[0-9]+", "foo.*", "conv$", "conv", "(?i)CONV", "(?i:Foo)\\.bar", "(?P<kind>conv|fc)[0-9](?P=kind)?",
    r".*(?<=bar\.)conv0", r".*(?<!bar\.)conv0", r"foo\.(?!bar)", r"\Afoo", r"foo\Z", r"\Zfoo", r"(a)|b\1", r"\w+\.\w+$",
    r"(?a)\w+$", r"\w+$", r"\u00e9t", r"\x66oo", r"[[:alpha:]]", r"[]f]oo", r"[^]f]oo", "f{,3}oo", "fo{,3}\\.", "fo{2}", "fo{2,}", "fo{x}", "f{,}oo",
    "(?x) f o o  # comment [\n \\. bar", "(?s).+", "(?m)^foo$", "(?#what)foo", "(?:foo|bar)", "(foo)(?(1)\\.bar|x)", "(?>fo+)\\.", "fo++\\.",
    "", "foo|", "[a-", "(", ")", "*", "a**", "(?P<n>a)(?P<n>b)", r"\K", r"\Q.\E", r"\R", r"\h+", r"\p{L}", r"[\Z]", "(*UTF)foo", "(?R)", "(?<n>foo)",
    "(?|foo|bar)", "foo(?i)", "(?z)", "(?i", "\\", r"\x6", r"\u00e", "(?P>n)", "(?&n)", "(?1)", "(?-i:foo)", "(?i-s:FOO)", "(?u)foo", r"foo\.0\b", r"[\b]",
    r"\d+", r"[\d.]+", "foo[.]bar", "{", "foo{", "a{1,2}{3}", r"\8",
]  # fmt: skip
PATHS = ["", "foo", "foo.bar", "foo.bar.conv0", "foo.baz.relu", "conv", "conv1", "conv1conv", "fc2fc", "Foo.BAR", "été.conv", "0", "1.2",
         "fooo.bar", "ffoo", "bar.foo", "foo.0", "foo\n"]  # fmt: skip


def regex_answers():
    """Which paths re.match finds; null for what is no regex."""
    warnings.filterwarnings("ignore")
    answers = []
    for text in REGEXES:
        try:
            compiled = re.compile(text)
        except (re.error, OverflowError):
            answers.append([text, None])
        else:
            answers.append([text, [path for path in PATHS if compiled.match(path)]])
    return {"paths": PATHS, "answers": answers}


def plain(value):
    if isinstance(value, torch.dtype):
        return dtype(value)
    if isinstance(value, torch.qscheme):
        return str(value).removeprefix("torch.")
    return value


def observer_spec(constructor):
    """Class name and given arguments; those of a fake quantize and of its observer are one set."""
    partial = getattr(constructor, "p", None)
    cls, given = (partial.func, dict(partial.keywords)) if partial else (constructor, {})
    if not issubclass(cls, FakeQuantizeBase):
        return {"observer": cls.__name__} | {key: plain(value) for key, value in given.items()}
    inner = observer_spec(given.pop("observer", obs.MovingAverageMinMaxObserver))
    return inner | {"fake_quantize": cls.__name__} | {key: plain(value) for key, value in given.items()}


def resolved(constructor):
    """What the constructed observer shows."""
    built = constructor()
    if isinstance(built, FakeQuantizeBase):
        built = built.activation_post_process
    names = [
        "dtype", "qscheme", "reduce_range", "quant_min", "quant_max", "eps", "averaging_constant", "ch_axis",
        "is_dynamic", "bins", "scale", "zero_point", "has_customized_qrange",
    ]  # fmt: skip
    values = {}
    for name in names:
        value = getattr(built, name, None)
        if value is not None:
            values[name] = value.item() if isinstance(value, torch.Tensor) else plain(value)
    return values


OBSERVERS = {}


def observer(constructor):
    spec = observer_spec(constructor)
    if constructor is not torch.nn.Identity:
        OBSERVERS[json.dumps(spec, sort_keys=True)] = {"spec": spec, "resolved": resolved(constructor)}
    return spec


def qconfig(value):
    if value is None:
        return None
    # One of PyTorch's private QConfigs has no weight observer; a placeholder leaves weights as they are, too.
    weight = value.weight if value.weight is not None else obs.PlaceholderObserver
    return {"activation": observer(value.activation), "weight": observer(weight)}


def mapping(value):
    return {
        "": qconfig(value.global_qconfig),
        "object_type": [[type_name(key), qconfig(entry)] for key, entry in value.object_type_qconfigs.items()],
        "module_name_regex": [[key, qconfig(entry)] for key, entry in value.module_name_regex_qconfigs.items()],
        "module_name": [[key, qconfig(entry)] for key, entry in value.module_name_qconfigs.items()],
        "module_name_object_type_order": [
            [name, type_name(kind), index, qconfig(entry)]
            for (name, kind, index), entry in value.module_name_object_type_order_qconfigs.items()
        ],
    }


def named_qconfigs():
    names = [name for name in dir(qc) if isinstance(getattr(qc, name), qc.QConfig)]
    return {name: qconfig(getattr(qc, name)) for name in names}


def default_qconfigs():
    return {engine: qconfig(qc.get_default_qconfig(engine)) for engine in ENGINES}


def default_qat_qconfigs():
    return {f"{e}/{v}": qconfig(qc.get_default_qat_qconfig(e, v)) for e in ENGINES for v in (0, 1)}


def mappings():
    found = {engine: mapping(qm.get_default_qconfig_mapping(engine)) for engine in ENGINES}
    for engine, version in itertools.product(ENGINES, (0, 1)):
        found[f"{engine}/qat/{version}"] = mapping(qm.get_default_qat_qconfig_mapping(engine, version))
    found["symmetric_qnnpack"] = mapping(qm._get_symmetric_qnnpack_qconfig_mapping())
    found["symmetric_qnnpack/qat"] = mapping(qm._get_symmetric_qnnpack_qat_qconfig_mapping())
    return found


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)
        self.act = torch.nn.ReLU()
        self.w = torch.nn.Parameter(torch.zeros(2, 2))

    def forward(self, x):
        x = self.act(self.fc(x))
        x = F.linear(F.linear(x, self.w), self.w)
        return x.reshape(-1, 2) + x


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Linear(2, 2)
        self.body = torch.nn.Sequential(Block(), torch.nn.Sequential(Block(), torch.nn.Linear(2, 2)))
        self.body2 = Block()

    def forward(self, x):
        x = torch.add(self.stem(x), 1)
        return self.body2(self.body(x)).reshape(-1)


def random_mapping(rng):
    def some_qconfig():
        if rng.random() < 0.3:
            return None
        return qc.QConfig(obs.HistogramObserver.with_args(bins=rng.randrange(1, 10**6)), obs.MinMaxObserver)

    types = [torch.nn.Linear, torch.nn.ReLU, F.linear, torch.add, operator.add, "reshape", Block, Net]
    regexes = ["body", "body2", ".*fc", "body.1", "b.*1$", "$", "", "[a-s]", "(stem|body2).a?"]
    names = ["stem", "body", "body.0", "body.1", "body.1.0", "body.1.1", "body.1.0.fc", "body2", "body2.act", ""]
    found = qm.QConfigMapping()
    if rng.random() < 0.7:
        found.set_global(some_qconfig())
    for kind in rng.sample(types, rng.randrange(4)):
        found.set_object_type(kind, some_qconfig())
    for regex in rng.sample(regexes, rng.randrange(3)):
        found.set_module_name_regex(regex, some_qconfig())
    for name in rng.sample(names, rng.randrange(3)):
        found.set_module_name(name, some_qconfig())
    for name in rng.sample(names, rng.randrange(5)):
        found.set_module_name_object_type_order(name, rng.choice(types), rng.randrange(2), some_qconfig())
    return found


def node_queries(graph, modules, scopes):
    """Where each node stands, in the words of tsq's QConfigQuery."""
    counts = {}
    for node in graph.nodes:
        if node.op not in ("call_module", "call_function", "call_method"):
            continue
        path, kind = scopes[node.name]
        is_module = node.op == "call_module"
        target = type(modules[node.target]) if is_module else node.target
        parent = path.rpartition(".")[0] if is_module else path
        index = -1 if node.op == "call_method" else counts.get((parent, target), 0)
        counts[parent, target] = index + 1
        yield node.name, {
            "target": type_name(target),
            "is_module": is_module,
            "module_path": path,
            "module_type": type_name(kind or Net),  # FX knows no class for the root
            "parent_path": parent,
            "order_index": index,
        }


def decisions():
    """What FX finds for every node of a nested model under many random mappings."""
    model = Net().eval()
    tracer = QuantizationTracer([], [])
    graph = tracer.trace(model)
    modules = dict(model.named_modules())
    queries = dict(node_queries(graph, modules, tracer.node_name_to_scope))
    rng = random.Random(0)
    cases = []
    for _ in range(300):
        given = random_mapping(rng)
        answers = _generate_node_name_to_qconfig(model, modules, graph, given, tracer.node_name_to_scope)
        cases.append({"mapping": mapping(given), "qconfigs": {name: qconfig(answers[name]) for name in queries}})
    return {"queries": queries, "cases": cases}


def constructor_grid():
    """Many arguments for each class, with what the constructor makes of them; null where it refuses."""
    classes = [
        obs.MinMaxObserver, obs.MovingAverageMinMaxObserver, obs.PerChannelMinMaxObserver,
        obs.MovingAveragePerChannelMinMaxObserver, obs.HistogramObserver, obs.PlaceholderObserver,
        obs.RecordingObserver, obs.NoopObserver, obs.ReuseInputObserver,
    ]  # fmt: skip
    dtypes = [None, torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.uint8, torch.int8, torch.int16,
              torch.uint16, torch.int32, torch.float32, torch.float16]  # fmt: skip
    qschemes = [None, torch.per_tensor_affine, torch.per_tensor_symmetric, torch.per_channel_affine,
                torch.per_channel_symmetric, torch.per_channel_affine_float_qparams]  # fmt: skip
    others = [{}, {"reduce_range": True}, {"quant_min": 0, "quant_max": 15}, {"quant_min": 0, "quant_max": 13, "reduce_range": True},
              {"quant_min": -127, "quant_max": 127}, {"quant_min": -127, "quant_max": 127, "reduce_range": True},
              {"quant_min": 1, "quant_max": 9}, {"quant_min": 0, "quant_max": 0}, {"quant_max": 100},
              {"eps": 2**-12}, {"is_dynamic": True}, {"averaging_constant": 1}, {"averaging_constant": 1, "is_dynamic": True},
              {"ch_axis": 1}, {"bins": 128}, {"scale": 1.0, "zero_point": 0}]  # fmt: skip
    entries = []
    for cls, kind, scheme, more in itertools.product(classes, dtypes, qschemes, others):
        given = dict(more)
        if kind is not None:
            given["dtype"] = kind
        if scheme is not None:
            given["qscheme"] = scheme
        constructor = cls.with_args(**given)
        try:
            values = resolved(constructor)
        except Exception:
            values = None
        entries.append({"spec": observer_spec(constructor), "resolved": values})
    return entries


def main():
    tables = {
        "torch": torch.__version__,
        "backends": {name: table(make()) for name, make in TABLES.items()},
        "named_qconfigs": named_qconfigs(),
        "default_qconfigs": default_qconfigs(),
        "default_qat_qconfigs": default_qat_qconfigs(),
        "mappings": mappings(),
        "decisions": decisions(),
        "observers": list(OBSERVERS.values()),
        "constructor_grid": constructor_grid(),
        "derived_maps": {name: derived_maps(make()) for name, make in TABLES.items()},
        "boolean_dispatches": boolean_dispatches(),
        "regexes": regex_answers(),
    }
    with open(sys.argv[1], "w") as file:
        json.dump(tables, file)


main()
