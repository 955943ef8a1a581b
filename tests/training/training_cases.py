"""The cases of training: what of the static suite can be trained, and its own."""

import copy
import re
from dataclasses import dataclass, replace
from typing import Callable, Optional

import torch
from torch import nn
from torch.ao.quantization import get_default_qat_qconfig_mapping, get_default_qconfig_mapping

import models
from case import ENGINES, Case
from dropped_operators import forget_dropped_operators

forget_dropped_operators()
# Files of the static suite whose cases are about something else: dynamic and weight-only modes, equalization, FX's own tables.
STATIC_ONLY = {
    "dynamic_cases.py",
    "equalization_cases.py",
    "weight_only_cases.py",
    "qconfig_cases.py",
    "suite_configurations.py",
    "suite_backends.py",
    "random_tables.py",
    "standalone_cases.py",
    "control_flow_cases.py",
}


LEFT_OUT = {
    "cat_as_output": "traced by FX in training mode, a model that asks for the mode stays in it",
    "sizes_of_quantized": "FX does not trace it, and D-34 cuts its output off in training, where codes have seven bits",
    "huge_input": "its losses are NaN",
    "means_and_interpolations": "FX's lowered model writes where it must not and ends the process, on onednn",
    "conv2d_without_batch_dimension": "no kernel runs it",
}


# Where FX stops, the lowered model is not compared with the trained one: kernels of a number widen the range of their result, so
# that the int8 model has the values that training cut off (FX's too, on the engines where it goes on).
WIDENS_RANGES = re.compile(r"binary_(add|mul)_.*_scalar_of_convs.*|scalar_arithmetic")


def traced(model: nn.Module, inputs: tuple) -> torch.jit.ScriptModule:
    """A trace runs the model: its buffers get the values back that they had."""
    copied = copy.deepcopy(model)
    made = torch.jit.trace(copied, inputs, check_trace=False)
    copied.load_state_dict(model.state_dict())
    return made


def nothing(model, step: int) -> None:
    pass


@dataclass(frozen=True)
class TrainingCase:
    static: Case  # model and data
    name: str
    mapping: Callable = get_default_qat_qconfig_mapping  # engine -> QConfigMapping
    pass_qconfig: bool = False
    engines: tuple = ENGINES
    optimizer: str = "sgd"
    learning_rate: float = 1e-3
    prepare_custom: Optional[Callable] = None
    form: str = "scripted"  # traced: in training mode; traced in eval: the same in evaluation mode
    events_in_fx: Callable = nothing  # (model, step): before each step
    events_in_tsq: Callable = nothing
    known_difference: str = ""
    converted_difference: str = ""  # training is equal, the converted models need only be near the trained one
    min_sqnr: float = 5.0

    @property
    def widens_ranges(self) -> bool:
        return WIDENS_RANGES.fullmatch(self.name) is not None

    @property
    def family(self) -> str:
        return re.split(r"[_\d]", self.name)[0]

    def build(self) -> nn.Module:
        return self.static.build()

    def file_of(self, model: nn.Module) -> torch.jit.ScriptModule:
        if self.form == "scripted":
            return torch.jit.script(model)
        return traced(model.train(self.form == "traced"), self.batches()[0])

    def in_form(self, form: str) -> "TrainingCase":
        return replace(self, name=f"{self.name}_{form.replace(' ', '_')}", form=form)

    def batches(self) -> list:
        return self.static.calibration_batches()

    def evaluation_batches(self) -> list:
        return self.static.evaluation_batches()


_own: list = []

# Cases whose trace tells less than the model, or that have none.
NOT_TRACED = {
    "qat_conv_bn_cumulative": "a trace does not hold how a batch norm averages without a momentum",
    "qat_between_identity": "nothing in a trace is an nn.Identity",
    **{f"qat_{name}": "in a trace, torch.relu may be a module" for name in ("two_outputs", "called_twice", "frozen_and_tied")},
    **{f"qat_{name}": "in a trace, the method flatten may be a module" for name in ("of_two_stack", "functional_relu", "shared_observers")},
    "pytorch_sequential_fusion": "in a trace, torch.reshape may be the method, whose range is that of its input",
    **{f"qat_residual{end}": "in a trace, torch.relu may be a function that onednn fuses" for end in ("", "_adam")},
    **{f"qat_network{end}": "nothing in a trace is an nn.Identity" for end in ("", "_adam", "_dropout", "_version_0", "_block_float", "_head_float")},
}


def training_case(name: str, model: Callable[[], nn.Module], *inputs, lowered_difference="", reference_difference="", **options) -> None:
    static = Case(name=name, model=model, inputs=inputs, lowered_difference=lowered_difference, reference_difference=reference_difference)
    _own.append(TrainingCase(static=static, name=name, pass_qconfig="mapping" in options, **options))


def trains(case: Case) -> bool:
    plain = case.mapping is get_default_qconfig_mapping and not (case.backend or case.prepare_custom or case.convert_mapping or case.equalization)
    return plain and case.name not in LEFT_OUT and case.source.split("/")[-1] not in STATIC_ONLY and not case.known_difference and case.fx_model is None


def all_cases() -> list:
    from_static = [TrainingCase(static=case, name=case.name, engines=tuple(engine for engine in case.engines if engine not in case.skip)) for case in models.CASES if trains(case)]
    in_forms = [case.in_form(form) for case in _own for form in ("traced", "traced in eval") if case.name not in NOT_TRACED]
    return from_static + _own + in_forms
