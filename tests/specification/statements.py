"""What PyTorch's documents of BackendConfig, DTypeConfig and QConfigMapping say, on models, beside Python FX.

    tests/specification/statements.py --tsq build/release/bin/tsq

Each test cites a document and a sentence of it, and quantizes a model with FX and with tsq: their reference models must return the same
bits, and both must show what the sentence says. specification_page.py lists the citations.
"""

import argparse
import copy
import json
import operator
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Callable

import torch
from torch import nn
from torch.ao.nn import intrinsic as nni
from torch.ao.nn import qat as nnqat
from torch.ao.nn.quantized import reference as nnqr
from torch.ao.quantization import (
    FixedQParamsObserver,
    HistogramObserver,
    MinMaxObserver,
    PlaceholderObserver,
    QConfig,
    QConfigMapping,
    default_dynamic_qconfig,
    default_per_channel_weight_observer,
    default_qat_qconfig,
    default_weight_observer,
)
from torch.ao.quantization.backend_config import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    DTypeWithConstraints,
    ObservationType,
    get_fbgemm_backend_config,
)
from torch.ao.quantization.quantize_fx import convert_to_reference_fx, prepare_fx, prepare_qat_fx
from torch.ao.quantization.utils import MatchAllNode
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
from configuration_json import backend_to_json, mapping_to_json  # noqa: E402
from dropped_operators import forget_dropped_operators  # noqa: E402

forget_dropped_operators()
INT8 = DTypeConfig(input_dtype=torch.quint8, output_dtype=torch.quint8, weight_dtype=torch.qint8, bias_dtype=torch.float)
FLOWING = DTypeConfig(input_dtype=torch.quint8, output_dtype=torch.quint8)
DIFFERENT = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
QCONFIG = QConfig(activation=MinMaxObserver, weight=default_weight_observer)
TESTS: list[Callable] = []


def says(document: str, sentence: str, difference: str = "") -> Callable:
    """Marks a test with what it holds tsq to, and where tsq does something else."""

    def cite(test: Callable) -> Callable:
        if test not in TESTS:
            TESTS.append(test)
        return test

    return cite


def check(is_so: bool, what: str) -> None:
    if not is_so:
        raise AssertionError(what)


class Model(nn.Module):
    """Layers with names of their own, and a forward that is written in place."""

    def __init__(self, forward: str) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.other = nn.Linear(4, 4)
        self.conv = nn.Conv1d(2, 2, 3, padding=1)
        self.bn = nn.BatchNorm1d(2)
        self.relu = nn.ReLU()
        self.tanh = nn.Tanh()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.bias = nn.Parameter(torch.randn(4))
        names: dict = {"torch": torch, "F": F, "operator": operator}
        exec(f"def forward(self, x):\n  return {forward}", names)  # noqa: S102: the tests' own expressions
        self.expression = forward
        self.run = names["forward"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self, x)


def rows(*rows_of: BackendPatternConfig) -> BackendConfig:
    return BackendConfig("mine").set_backend_pattern_configs(list(rows_of))


def linear(*configs: DTypeConfig) -> BackendPatternConfig:
    row = BackendPatternConfig(nn.Linear).set_dtype_configs(list(configs or (INT8,)))
    return row.set_root_module(nn.Linear).set_reference_quantized_module(nnqr.Linear)


def conv() -> BackendPatternConfig:
    row = BackendPatternConfig(nn.Conv1d).add_dtype_config(INT8)
    return row.set_root_module(nn.Conv1d).set_reference_quantized_module(nnqr.Conv1d)


class Quantized:
    """A model by FX and by tsq, as far as the reference model."""

    def __init__(self, prepared: torch.fx.GraphModule, reference: torch.fx.GraphModule, report: dict) -> None:
        self.prepared, self.reference, self.report = prepared, reference, report

    def operators(self) -> list[str]:
        """FX's reference graph: the targets of its calls, in order."""
        return [str(getattr(node.target, "__name__", node.target)) for node in self.reference.graph.nodes if node.op.startswith("call")]

    def quantized_layers(self) -> set[str]:
        """What tsq says that it has quantized, by the names of layers; functions by those of operators."""
        return {entry["layer"] or entry["operator"] for entry in self.report["operators"] if entry["quantized"]}

    def is_reference(self, name: str) -> bool:
        return isinstance(self.reference.get_submodule(name), (nnqr.Linear, nnqr.Conv1d))


class Both:
    def __init__(self, tsq: str, folder: Path) -> None:
        self.tsq, self.folder = tsq, folder

    def command(self, *arguments: str) -> dict:
        done = subprocess.run([self.tsq, *arguments, "--json"], cwd=self.folder, capture_output=True, text=True)
        check(done.returncode == 0, f"tsq {arguments[0]}: {done.stderr}")
        return json.loads(done.stdout)

    def refused(self, *arguments: str) -> str:
        done = subprocess.run([self.tsq, *arguments], cwd=self.folder, capture_output=True, text=True)
        check(done.returncode == 1, f"tsq {arguments[0]} is not refused")
        return done.stderr

    def write(self, name: str, content: dict) -> str:
        (self.folder / name).write_text(json.dumps(content))
        return name

    def __call__(self, forward: str, backend: BackendConfig, mapping: QConfigMapping | None = None, shape: tuple = (3, 4)) -> Quantized:
        torch.manual_seed(1)
        model = Model(forward).eval()
        mapping = mapping or QConfigMapping().set_global(QCONFIG)
        batches = [torch.randn(shape), 2 * torch.randn(shape) + 0.5]
        traced = torch.fx.symbolic_trace(model)  # the text of the expression, as a module that can be scripted
        prepared = prepare_fx(copy.deepcopy(model), mapping, (batches[0],), backend_config=backend)
        for batch in batches:
            prepared(batch)
        reference = convert_to_reference_fx(copy.deepcopy(prepared), backend_config=backend)

        torch.jit.script(traced).save(str(self.folder / "model.pt"))
        torch.save([(batch,) for batch in batches], self.folder / "data.pt")
        table = self.write("table.json", {**backend_to_json(backend), "engine": "x86"})
        qconfigs = self.write("qconfig.json", mapping_to_json(mapping))
        options = ["--backend-config", table, "--qconfig", qconfigs, "--recipe", "fx"]
        self.command("prepare", "model.pt", *options, "--output", "prepared.pt")
        self.command("calibrate", "prepared.pt", "--calib", "data.pt", "--output", "calibrated.pt")
        self.command("convert", "calibrated.pt", "--backend-config", table, "--output", "reference.pt")
        report = self.command("explain", "model.pt", *options, "--calib", "data.pt")
        ours = torch.jit.load(self.folder / "reference.pt")
        for batch in (*batches, 3 * batches[0]):
            check(torch.equal(ours(batch), reference(batch)), f"'{forward}': the reference models differ")
        return Quantized(prepared, reference, report)


@says("README", "Tuple patterns are treated as sequential patterns, and currently only tuples of 2 or 3 elements are supported.")
@says("BackendPatternConfig", "Tuple patterns are treated as sequential patterns, and currently only tuples of 2 or 3 elements are supported.")
def tuples_have_two_or_three_elements(both: Both) -> None:
    two = BackendPatternConfig((F.linear, F.relu)).add_dtype_config(INT8)._set_input_type_to_index({"bias": 2, "input": 0, "weight": 1})
    found = both("F.relu(F.linear(x, self.weight, self.bias))", rows(two))
    check(found.operators().count("relu") == 1, "the ReLU lies between the same two roundings")
    three = BackendPatternConfig((torch.neg, torch.abs, torch.sqrt)).add_dtype_config(FLOWING)
    both("torch.sqrt(torch.abs(torch.neg(x)))", rows(three))
    table = both.write("four.json", {"name": "mine", "configs": [{"pattern": ["torch.add"] * 4}]})
    check("2 or 3" in both.refused("backend-config", "check", table), "four elements are refused with the reason")


@says("README", "The operator patterns used in BackendConfig are float modules, functional operators, pytorch operators, or a tuple combination of the above.")
@says("BackendConfig", "A pattern in this context refers to a module, a functional, an operator, or a directed acyclic graph of the above.")
def patterns_are_modules_functions_and_operators(both: Both) -> None:
    kinds = [BackendPatternConfig(kind).add_dtype_config(FLOWING) for kind in (F.relu, torch.neg, operator.mul, "abs")]
    found = both("operator.mul(torch.neg(F.relu(self.fc(x))), x.abs())", rows(linear(), *kinds))
    check(found.operators().count("quantize_per_tensor") == 6, f"the input and each of five results are quantized: {found.operators()}")
    pair = BackendPatternConfig((nn.Linear, F.relu)).add_dtype_config(INT8)
    found = both("F.relu(self.fc(x))", rows(pair))
    check(found.operators().count("quantize_per_tensor") == 2, "nothing is rounded within a tuple")


@says("README", "where the first item for each Pattern is the operator, and the rest are the patterns for the arguments of the operator.")
@says("README", "During prepare and convert, we’ll match the last node, which will be the anchor point of the match, and we can retrieve the whole graph by tracing back from the node.")
@says("BackendPatternConfig", "“pattern_complex_format”: the pattern specified in the reversed nested tuple format (deprecated)")
def nested_patterns_match_from_their_last_operator(both: Both) -> None:
    pattern = (nn.ReLU, (operator.add, MatchAllNode, (nn.BatchNorm1d, nn.Conv1d)))
    row = BackendPatternConfig()._set_pattern_complex_format(pattern).set_observation_type(DIFFERENT).add_dtype_config(FLOWING)
    found = both("self.relu(operator.add(torch.neg(x), self.bn(self.conv(x))))", rows(row), shape=(3, 2, 4))
    observers = [node for node in found.prepared.graph.nodes if str(node.target).startswith("activation_post_process")]
    check(observers[-1].args[0].name == "relu", "the output of the last operator is observed")
    both("self.relu(operator.add(self.bn(self.conv(x)), torch.neg(x)))", rows(row), shape=(3, 2, 4))


@says("BackendPatternConfig", "OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT (default): the output observer instance will be different from the input.")
@says("BackendPatternConfig", "Weighted ops such as linear and conv require different observers (or quantization parameters passed to quantize ops in the reference model) for the input and the output.")
def a_row_without_observation_type_observes_its_output_anew(both: Both) -> None:
    found = both("torch.neg(x)", rows(BackendPatternConfig(torch.neg).add_dtype_config(FLOWING)))
    observers = [found.prepared.get_submodule(f"activation_post_process_{i}") for i in (0, 1)]
    check(observers[0] is not observers[1], "two observers")
    both("torch.neg(x)", rows(BackendPatternConfig(torch.neg).set_observation_type(DIFFERENT).add_dtype_config(FLOWING)))
    found = both("self.fc(x)", rows(linear()))
    scales = {float(found.reference.get_buffer(name)) for name in ("fc_input_scale_0", "fc_scale_0")}
    check(len(scales) == 2, "a linear layer's input and output have scales of their own")


@says("BackendPatternConfig", "OUTPUT_SHARE_OBSERVER_WITH_INPUT: the output observer instance will be the same as the input. This is useful for operators like cat.")
@says("README", "During the prepare phase, we insert observers (or QuantDeQuantStubs in the future) into the graph for this operator pattern based on the observation type, which specifies whether to use different observers for the inputs and the outputs of the pattern.")
def a_shared_observer_is_one(both: Both) -> None:
    cat = BackendPatternConfig(torch.cat).set_observation_type(SHARED).add_dtype_config(FLOWING)
    found = both("torch.cat([x, torch.neg(x)], 1)", rows(cat, BackendPatternConfig(torch.neg).add_dtype_config(FLOWING)))
    names = [node.target for node in found.prepared.graph.nodes if str(node.target).startswith("activation_post_process")]
    check(len(names) == 3 and len({id(found.prepared.get_submodule(name)) for name in names}) == 1, "one observer under three names")


@says("DTypeConfig", "Setting the input dtype as torch.quint8 in the DTypeConfig means we pass in torch.quint8 as the dtype argument to the first quantize op (quant1).")
@says("DTypeConfig", "setting the output dtype as torch.quint8 means we pass in torch.quint8 as the dtype argument to the second quantize op (quant2).")
@says("BackendPatternConfig", "Add a set of supported data types passed as arguments to quantize ops in the reference model spec.")
def input_and_output_dtypes_are_those_of_the_two_quantize_operators(both: Both) -> None:
    found = both("self.fc(x)", rows(linear()))
    dtypes = [node.args[3] for node in found.reference.graph.nodes if node.target is torch.quantize_per_tensor]
    check(dtypes == [torch.quint8, torch.quint8], f"quant1 and quant2 have {dtypes}")
    signed = DTypeConfig(input_dtype=torch.qint8, output_dtype=torch.qint8, weight_dtype=torch.qint8, bias_dtype=torch.float)
    observer = MinMaxObserver.with_args(dtype=torch.qint8)
    mapping = QConfigMapping().set_global(QConfig(activation=observer, weight=default_weight_observer))
    found = both("self.fc(x)", rows(linear(signed)), mapping)
    dtypes = [node.args[3] for node in found.reference.graph.nodes if node.target is torch.quantize_per_tensor]
    check(dtypes == [torch.qint8, torch.qint8], f"quant1 and quant2 have {dtypes}")


@says("DTypeConfig", "the interface dtype is fp32 in dynamic quantization but the “input dtype” specified in the DTypeConfig would still be quint8.")
def the_input_dtype_of_dynamic_quantization_is_quint8(both: Both) -> None:
    dynamic = DTypeConfig(
        input_dtype=torch.quint8, output_dtype=torch.float, weight_dtype=torch.qint8, bias_dtype=torch.float, is_dynamic=True
    )
    mapping = QConfigMapping().set_global(default_dynamic_qconfig)
    found = both("self.fc(x)", rows(linear(dynamic)), mapping)
    check("quantize_per_tensor_dynamic" in found.operators() and found.is_reference("fc"), "quantized when it runs")
    still_float = DTypeConfig(input_dtype=torch.float, weight_dtype=torch.qint8, bias_dtype=torch.float, is_dynamic=True)
    check(not both("self.fc(x)", rows(linear(still_float)), mapping).is_reference("fc"), "with float it matches nothing")


@says("DTypeConfig", "These dtypes are matched against the ones specified in the user’s QConfig.")
@says("README", "If the data types do not match (or the constraints are not satisfied) for all the DTypeConfigs specified for the operator pattern, then we will simply ignore the QConfig and skip quantizing this pattern.")
@says("README", "During the prepare phase of quantization, we will compare the data types specified in these DTypeConfigs to the ones specified in the matching QConfig for a given operator pattern.")
@says("DTypeConfig", "If there is a match, and the QConfig satisfies the constraints specified in the DTypeConfig (if any), then we will quantize the given pattern using this DTypeConfig. Otherwise, the QConfig is ignored and the pattern will not be quantized.")
def a_qconfig_that_no_dtype_config_takes_is_ignored(both: Both) -> None:
    signed = DTypeConfig(input_dtype=torch.qint8, output_dtype=torch.qint8, weight_dtype=torch.qint8, bias_dtype=torch.float)
    skipped = both("self.fc(x)", rows(linear(signed)))
    check(not skipped.is_reference("fc") and not skipped.quantized_layers(), "nothing is quantized")
    taken = both("self.fc(x)", rows(linear(signed, INT8)))
    check(taken.is_reference("fc") and taken.quantized_layers() == {"fc"}, "one of several that matches is enough")


@says("BackendPatternConfig", "Set the supported data types passed as arguments to quantize ops in the reference model spec, overriding all previously registered data types.")
def set_dtype_configs_overrides_those_before_it(both: Both) -> None:
    signed = DTypeConfig(input_dtype=torch.qint8, output_dtype=torch.qint8, weight_dtype=torch.qint8, bias_dtype=torch.float)
    row = linear(INT8).set_dtype_configs([signed])
    check(not both("self.fc(x)", rows(row)).is_reference("fc"), "the earlier dtypes are not taken any more")
    check(both("self.fc(x)", rows(row.add_dtype_config(INT8))).is_reference("fc"), "what is added counts beside them")


@says("README", "There are two ways of specifying `input_dtype`, `output_dtype`, and `weight_dtype`, as simple `torch.dtype`s or as `DTypeWithConstraints`")
def plain_dtypes_and_constrained_ones_quantize_alike(both: Both) -> None:
    activation = DTypeWithConstraints(dtype=torch.quint8, quant_min_lower_bound=0, quant_max_upper_bound=255, scale_min_lower_bound=2**-12)
    weight = DTypeWithConstraints(dtype=torch.qint8, quant_min_lower_bound=-128, quant_max_upper_bound=127, scale_min_lower_bound=2**-12)
    constrained = DTypeConfig(input_dtype=activation, output_dtype=activation, weight_dtype=weight, bias_dtype=torch.float)
    symmetric = MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, eps=2**-12)
    observers = QConfig(activation=MinMaxObserver.with_args(eps=2**-12), weight=symmetric)
    mapping = QConfigMapping().set_global(observers)
    plain, held = (both("self.fc(x)", rows(linear(config)), mapping) for config in (INT8, constrained))
    x = torch.ones(3, 4)
    check(plain.is_reference("fc") and held.is_reference("fc"), "both are taken")
    check(torch.equal(plain.reference(x), held.reference(x)), "and quantize alike")


@says("README", "activation: quint8 (with qmin/qmax range restrictions), weight: qint8")
@says("README", "activation: per tensor, weight: per tensor or per channel")
@says("README", "e.g. torch.nn.Conv2d -> torch.ao.nn.quantized.reference.Conv2d")
def fbgemm_is_as_the_example_says(both: Both) -> None:
    backend = get_fbgemm_backend_config()
    for weight in (default_weight_observer, default_per_channel_weight_observer):
        mapping = QConfigMapping().set_global(QConfig(activation=MinMaxObserver.with_args(quant_max=127), weight=weight))
        check(both("self.fc(self.conv(x))", backend, mapping, (3, 2, 4)).is_reference("conv"), "weights per tensor and per channel")
    signed = QConfig(activation=MinMaxObserver.with_args(dtype=torch.qint8), weight=default_weight_observer)
    skipped = both("self.conv(x)", backend, QConfigMapping().set_global(signed), (3, 2, 4))
    check(not skipped.is_reference("conv"), "activations are quint8")


def with_constraints(**given) -> BackendConfig:
    activation = DTypeWithConstraints(dtype=torch.quint8, **given)
    config = DTypeConfig(input_dtype=activation, output_dtype=activation, weight_dtype=torch.qint8, bias_dtype=torch.float)
    return rows(linear(config))


@says("README", "If a QConfig exceeds these limits in either direction, it will be treated as violating this constraint.")
def ranges_outside_of_the_backends_limits_are_ignored(both: Both) -> None:
    limits = with_constraints(quant_min_lower_bound=0, quant_max_upper_bound=127)
    for highest, is_taken in ((127, True), (128, False), (255, False)):
        observer = MinMaxObserver.with_args(quant_min=0, quant_max=highest)
        mapping = QConfigMapping().set_global(QConfig(activation=observer, weight=default_weight_observer))
        check(both("self.fc(x)", limits, mapping).is_reference("fc") == is_taken, f"a range up to {highest}")
    lower = with_constraints(quant_min_lower_bound=1, quant_max_upper_bound=255)
    observer = MinMaxObserver.with_args(quant_min=0, quant_max=255)
    mapping = QConfigMapping().set_global(QConfig(activation=observer, weight=default_weight_observer))
    check(not both("self.fc(x)", lower, mapping).is_reference("fc"), "a range from below the lower bound")


@says("README", "If a QConfig's min scale value falls below this limit, the QConfig will be treated as violating this constraint.")
@says("README", "Note that `scale_max_upper_bound` is currently not used, because there is no corresponding mechanism to enforce this on the observer yet.")
def smallest_scales_below_the_backends_limit_are_ignored(both: Both) -> None:
    for eps, is_taken in ((2**-12, True), (2**-13, False)):
        observer = HistogramObserver.with_args(eps=eps)
        mapping = QConfigMapping().set_global(QConfig(activation=observer, weight=default_weight_observer))
        check(both("self.fc(x)", with_constraints(scale_min_lower_bound=2**-12), mapping).is_reference("fc") == is_taken, f"eps {eps}")
    check(both("self.fc(x)", with_constraints(scale_max_upper_bound=2**-20)).is_reference("fc"), "the upper bound is not looked at")


@says("README", "The user's QConfigs for these ops must use `FixedQParamsObserver` or `FixedQParamsFakeQuantize` for their activations with matching scale and zero point values, otherwise these QConfigs will be ignored.")
def fixed_parameters_must_match(both: Both) -> None:
    fixed = DTypeWithConstraints(dtype=torch.quint8, quant_min_lower_bound=0, quant_max_upper_bound=255, scale_exact_match=2 / 256, zero_point_exact_match=128)
    backend = rows(linear(), BackendPatternConfig(nn.Tanh).add_dtype_config(DTypeConfig(input_dtype=torch.quint8, output_dtype=fixed)))
    for observer, is_taken in (
        (FixedQParamsObserver.with_args(scale=2 / 256, zero_point=128, dtype=torch.quint8, quant_min=0, quant_max=255), True),
        (FixedQParamsObserver.with_args(scale=1 / 256, zero_point=128, dtype=torch.quint8, quant_min=0, quant_max=255), False),
        (FixedQParamsObserver.with_args(scale=2 / 256, zero_point=0, dtype=torch.quint8, quant_min=0, quant_max=255), False),
        (MinMaxObserver, False),
    ):
        mapping = QConfigMapping().set_global(QCONFIG).set_object_type(nn.Tanh, QConfig(activation=observer, weight=default_weight_observer))
        found = both("self.tanh(self.fc(x))", backend, mapping)
        check(("tanh" in found.quantized_layers()) == is_taken, f"{observer}")


@says("README", "the root modules (e.g. `torch.nn.Linear` for `nni.LinearReLU` or `nniqat.LinearReLU`) will be swapped to the corresponding reference quantized modules")
@says("README", "During the convert phase, these fused modules (identified by `set_fused_module`) will then be converted to the reference quantized versions of the modules.")
@says("README", "This is performed during the prepare phase according to the function specified in `set_fuser_method`, which replaces the pattern with the fused module.")
@says("README", "As an optimization, operator patterns such as (`torch.nn.Linear`, `torch.nn.ReLU`) may be fused into `nni.LinearReLU`.")
@says("BackendPatternConfig", "Set the module that represents the fused implementation for this pattern.")
def fused_modules_become_reference_modules(both: Both) -> None:
    fusion = BackendPatternConfig((nn.Linear, nn.ReLU)).set_fused_module(nni.LinearReLU).set_fuser_method(sequential(nni.LinearReLU))
    fused = BackendPatternConfig(nni.LinearReLU).add_dtype_config(INT8).set_root_module(nn.Linear).set_reference_quantized_module(nnqr.Linear)
    found = both("self.relu(self.fc(x))", rows(linear(), fusion, fused))
    check(isinstance(found.prepared.fc, nni.LinearReLU), "fused while it is prepared")
    check(isinstance(found.reference.fc[0], nnqr.Linear), "with a reference module as its root")


def sequential(kind: type) -> Callable:
    from torch.ao.quantization.fuser_method_mappings import _sequential_wrapper2

    return _sequential_wrapper2(kind)


@says("BackendConfig", "Return a copy of the list of configs set in this `BackendConfig`.")
@says("BackendConfig", "This overrides any existing config for the given pattern.")
def a_later_row_takes_an_earlier_ones_place(both: Both) -> None:
    backend = rows(linear(), conv(), linear(DTypeConfig(input_dtype=torch.float)))
    check([row.pattern for row in backend.configs] == [nn.Linear, nn.Conv1d], "in the place of the earlier one")
    backend.configs.clear()
    check(len(backend.configs) == 2, "the list is a copy")
    check(not both("self.fc(x)", backend).is_reference("fc"), "the later row counts")


def silent() -> QConfig:
    """Takes part in no quantization."""
    return QConfig(activation=PlaceholderObserver.with_args(dtype=torch.float), weight=PlaceholderObserver.with_args(dtype=torch.float))


def others(scale: int) -> QConfig:
    """A QConfig that is told from others by its range."""
    return QConfig(activation=MinMaxObserver.with_args(quant_min=0, quant_max=scale), weight=default_weight_observer)


@says("QConfigMapping", "The user can specify QConfigs using the following methods (in increasing match priority):")
@says("QConfigMapping", "set_global : sets the global (default) QConfig")
@says("QConfigMapping", "set_object_type : sets the QConfig for a given module type, function, or method name")
@says("QConfigMapping", "set_module_name_regex : sets the QConfig for modules matching the given regex string")
@says("QConfigMapping", "set_module_name : sets the QConfig for modules matching the given module name")
@says("QConfigMapping", "set_module_name_object_type_order : sets the QConfig for modules matching a combination of the given module name, object type, and the index at which the module appears")
@says("QConfigMapping", "Set the global (default) QConfig.")
@says("QConfigMapping", "Set the QConfig for a given module type, function, or method name.")
@says("QConfigMapping", "Set the QConfig for modules matching the given module name.")
@says("QConfigMapping", "Set the QConfig for modules matching a combination of the given module name, object type, and the index at which the module appears.")
def five_levels_in_increasing_priority(both: Both) -> None:
    linear_function = BackendPatternConfig(F.linear).add_dtype_config(INT8)._set_input_type_to_index({"bias": 2, "input": 0, "weight": 1})
    backend = rows(linear(), linear_function, BackendPatternConfig(torch.neg).add_dtype_config(FLOWING))
    forward = "F.linear(self.other(torch.neg(self.fc(x))), self.weight, self.bias)"
    mapping = QConfigMapping().set_global(others(15))
    both(forward, backend, mapping)
    both(forward, backend, mapping.set_object_type(nn.Linear, others(31)).set_object_type(torch.neg, others(23)))
    both(forward, backend, mapping.set_module_name_regex("f.*", others(63)))
    both(forward, backend, mapping.set_module_name("fc", others(127)))
    found = both(forward, backend, mapping.set_module_name_object_type_order("", F.linear, 0, others(255)))
    ranges = {m.quant_max for name, m in found.prepared.named_modules() if name.startswith("activation_post_process")}
    check({255, 127, 31, 23} <= ranges and not ranges & {15, 63}, f"the highest level of each counts: {ranges}")


@says("QConfigMapping", "Regexes will be matched in the order in which they are registered through this method.")
@says("QConfigMapping", "In this example, “foo.bar.conv0” would match qconfig1, “foo.bar.linear” would match qconfig2, and “foo.baz.relu” would match qconfig3.")
@says("QConfigMapping", "Set the QConfig for modules matching the given regex string.")
@says("QConfigMapping", "Thus, the caller should register more specific patterns first")
def the_first_regex_that_matches_counts(both: Both) -> None:
    mapping = QConfigMapping().set_module_name_regex("o.*h.*", others(31)).set_module_name_regex("o.*", others(63)).set_module_name_regex(".*", others(127))
    found = both("self.other(self.fc(x))", rows(linear()), mapping)
    ranges = [m.quant_max for name, m in found.prepared.named_modules() if name.startswith("activation_post_process")]
    check(31 in ranges and 63 not in ranges and 127 in ranges, f"'other' matches the first, 'fc' the third: {ranges}")


@says("QConfigMapping", "If the QConfig for an existing module name was already set, the new QConfig will override the old one.")
@says("QConfigMapping", "If the QConfig for an existing (module name, object type, index) was already set, the new QConfig will override the old one.")
def a_later_qconfig_of_a_key_overrides_the_earlier_one(both: Both) -> None:
    mapping = QConfigMapping().set_module_name("fc", silent()).set_module_name("fc", others(63))
    check(both("self.fc(x)", rows(linear()), mapping).is_reference("fc"), "the later one of a name")
    mapping = QConfigMapping().set_global(None).set_module_name_object_type_order("", torch.neg, 0, None)
    mapping.set_module_name_object_type_order("", torch.neg, 0, others(63))
    found = both("torch.neg(x)", rows(BackendPatternConfig(torch.neg).add_dtype_config(FLOWING)), mapping)
    check("quantize_per_tensor" in found.operators(), "the later one of a call")


@says("README", "For weighted operators, we need to swap them with the Quantization Aware Training (QAT) versions that add fake quantization to the weights")
@says("BackendPatternConfig", "“qat_module”: a torch.nn.Module that represents the QAT implementation for this pattern")
def layers_train_in_the_form_of_their_qat_module(both: Both) -> None:
    row = linear().set_qat_module(nnqat.Linear)
    backend, mapping = rows(row), QConfigMapping().set_global(default_qat_qconfig)
    torch.manual_seed(1)
    model = Model("self.fc(x)").train()
    prepared = prepare_qat_fx(copy.deepcopy(model), mapping, (torch.ones(3, 4),), backend_config=backend)
    check(isinstance(prepared.fc, nnqat.Linear), "FX swaps the layer")
    torch.jit.script(torch.fx.symbolic_trace(model)).save(str(both.folder / "model.pt"))
    table, qconfigs = both.write("table.json", {**backend_to_json(backend), "engine": "x86"}), both.write("qconfig.json", mapping_to_json(mapping))
    both.command("prepare", "--qat", "model.pt", "--backend-config", table, "--qconfig", qconfigs, "--recipe", "fx", "--output", "training.pt")
    ours = torch.jit.load(both.folder / "training.pt")
    keys = [key for key in prepared.state_dict() if key.startswith("fc.weight_fake_quant")]
    check(bool(keys) and set(keys) <= set(ours.state_dict()), f"the weight is fake-quantized: {keys}")
    x = torch.randn(3, 4)
    check(torch.equal(ours(x), prepared(x)), "as FX does it")


def run(test: Callable, tsq: str) -> str:
    try:
        with tempfile.TemporaryDirectory() as folder:
            test(Both(tsq, Path(folder)))
    except Exception as fault:  # noqa: BLE001: whatever goes wrong is that test's
        return f"{type(fault).__name__}: {fault}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tsq", required=True, help="the command")
    tsq = str(Path(parser.parse_args().tsq).resolve())
    warnings.filterwarnings("ignore")
    faults = 0
    for test in TESTS:
        fault = run(test, tsq)
        faults += bool(fault)
        print(f"{'FAIL' if fault else 'ok  '} {test.__name__.replace('_', ' ')}{': ' + fault if fault else ''}")
    print(f"{len(TESTS)} tests, {faults} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
