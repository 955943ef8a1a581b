"""Tables of the user's own, drawn at random: rows of one operator and of several, with every observation type, DTypeConfig and fuser.

The seeds are those of the cases' names; what FX cannot handle only has to run.
"""

import operator
import random

import torch
import torch.ao.nn.intrinsic as nni
import torch.ao.nn.quantized.reference as nnqr
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization import (
    MinMaxObserver,
    QConfig,
    QConfigMapping,
    default_dynamic_qconfig,
    default_weight_only_qconfig,
    float16_dynamic_qconfig,
    float16_static_qconfig,
    get_default_qconfig_mapping,
)
from torch.ao.quantization.backend_config import BackendConfig, BackendPatternConfig, DTypeConfig, DTypeWithConstraints, ObservationType
from torch.ao.quantization.fuser_method_mappings import _sequential_wrapper2, fuse_conv_bn, fuse_conv_bn_relu, fuse_convtranspose_bn, fuse_linear_bn

from case import Excused, add_case
from random_table_models import MODELS, Functions, Gates, Normed, Several, Tabled

COUNT = 130

REFERENCES = {nn.Conv2d: nnqr.Conv2d, nn.Conv1d: nnqr.Conv1d, nn.Linear: nnqr.Linear, nn.ConvTranspose2d: nnqr.ConvTranspose2d}
FUSERS = {
    (nn.Conv2d, nn.BatchNorm2d): fuse_conv_bn,
    (nn.Conv2d, nn.BatchNorm2d, nn.ReLU): fuse_conv_bn_relu,
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn,
    (nn.Conv1d, nn.BatchNorm1d): fuse_conv_bn,
    (nn.Conv1d, nn.BatchNorm1d, nn.ReLU): fuse_conv_bn_relu,
    (nn.ConvTranspose2d, nn.BatchNorm2d): fuse_convtranspose_bn,
}
FUSED = {
    (nn.Conv2d, nn.BatchNorm2d, nn.ReLU): nni.ConvReLU2d,
    (nn.Conv2d, nn.ReLU): nni.ConvReLU2d,
    (nn.Linear, F.relu): nni.LinearReLU,
    (nn.Linear, nn.ReLU): nni.LinearReLU,
    (nn.Conv1d, nn.BatchNorm1d, nn.ReLU): nni.ConvReLU1d,
    (nn.Conv1d, F.relu): nni.ConvReLU1d,
    (nn.BatchNorm2d, nn.ReLU): nni.BNReLU2d,
}
ROOTS = {nni.ConvReLU2d: nn.Conv2d, nni.LinearReLU: nn.Linear, nni.ConvReLU1d: nn.Conv1d}

DIFFERENT = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
UNOBSERVED = ObservationType.INPUT_OUTPUT_NOT_OBSERVED


def dtypes(input_dtype=None, output_dtype=None, weight=None, bias=None, dynamic=None) -> DTypeConfig:
    return DTypeConfig(input_dtype=input_dtype, output_dtype=output_dtype, weight_dtype=weight, bias_dtype=bias, is_dynamic=dynamic)


def constrained(high: int, low_weight: int) -> DTypeConfig:
    activation = DTypeWithConstraints(dtype=torch.quint8, quant_min_lower_bound=0, quant_max_upper_bound=high)
    return dtypes(activation, activation, DTypeWithConstraints(dtype=torch.qint8, quant_min_lower_bound=low_weight, quant_max_upper_bound=127, scale_min_lower_bound=2**-12))


LAYER = dtypes(torch.quint8, torch.quint8, torch.qint8, torch.float)
ACTIVATION = dtypes(torch.quint8, torch.quint8)
OTHERS = (
    LAYER,
    ACTIVATION,
    dtypes(),
    dtypes(torch.float16, torch.float16),
    dtypes(torch.float16, torch.float16, torch.float16, torch.float16),
    dtypes(torch.quint8, torch.float, torch.qint8, torch.float),
    dtypes(torch.float, torch.quint8),
    dtypes(torch.float, torch.float, torch.qint8),
    dtypes(torch.quint8, torch.float, torch.qint8, torch.float, True),
    dtypes(torch.qint8, torch.qint8, torch.qint8, torch.float),
    constrained(127, -127),
    constrained(255, -128),
)


class Draw:
    """A table's rows and a mapping, from one seed."""

    def __init__(self, seed: int, model: Tabled) -> None:
        self.random, self.model = random.Random(seed), model

    def happens(self, probability: float) -> bool:
        return self.random.random() < probability

    def row(self, pattern: BackendPatternConfig, has_weight: bool) -> BackendPatternConfig:
        configs = [LAYER if has_weight else ACTIVATION] if self.happens(0.8) else []
        configs += [self.random.choice(OTHERS) for _ in range(self.random.choice((0, 0, 1, 2)))]
        self.random.shuffle(configs)
        kind = self.random.choices((DIFFERENT, SHARED, UNOBSERVED), (8, 1, 1) if has_weight else (4, 4, 2))[0]
        return pattern.set_observation_type(kind).set_dtype_configs(configs)

    def weighted(self, row: BackendPatternConfig, root: type) -> BackendPatternConfig:
        if self.happens(0.9):
            row.set_root_module(root)
        return row.set_reference_quantized_module(REFERENCES[root]) if self.happens(0.9) else row

    def single(self, target) -> BackendPatternConfig:
        row = self.row(BackendPatternConfig(target), target in REFERENCES or target is F.linear)
        if target is F.linear and self.happens(0.8):
            row._set_input_type_to_index({"weight": 1, "bias": 2})
        if target in (torch.add, operator.add, operator.mul, operator.sub) and self.happens(0.5):
            row._set_num_tensor_args_to_observation_type({count: self.random.choice((SHARED, DIFFERENT)) for count in range(3)})
        return self.weighted(row, target) if target in REFERENCES else row

    def chain(self, targets: tuple) -> list:
        row, fused = self.row(BackendPatternConfig(targets), True), FUSED.get(targets)
        if self.happens(0.15) or not (targets in FUSERS or fused):
            return [row]
        row.set_fuser_method(FUSERS.get(targets) or _sequential_wrapper2(fused))
        if fused is None:
            return [row]
        row.set_fused_module(fused)
        own = self.row(BackendPatternConfig(fused), True)
        return [row] + ([self.weighted(own, ROOTS[fused]) if fused in ROOTS else own] if self.happens(0.85) else [])

    def table(self) -> BackendConfig:
        rows = [self.single(target) for target in self.model.single if self.happens(0.85 if target in REFERENCES else 0.55)]
        rows += [row for targets in self.model.chains if self.happens(0.4) for row in self.chain(targets)]
        rows += [self.row(BackendPatternConfig()._set_pattern_complex_format(tree), False) for tree in self.model.trees if self.happens(0.3)]
        self.random.shuffle(rows)
        return BackendConfig("random").set_backend_pattern_configs(rows)

    def mapping(self, engine: str) -> QConfigMapping:
        narrow = QConfig(activation=MinMaxObserver.with_args(quant_min=0, quant_max=127), weight=MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric))
        mapping = get_default_qconfig_mapping(engine)
        if self.happens(0.35):
            for target in self.random.sample(self.model.single, 2):
                mapping.set_object_type(target, self.random.choice((None, float16_static_qconfig, default_dynamic_qconfig, float16_dynamic_qconfig, narrow, default_weight_only_qconfig)))
        return mapping.set_global(default_dynamic_qconfig) if self.happens(0.15) else mapping


QNNPACK_CLAMP = {"qnnpack": "section 6: qnnpack's clamp is wrong on channels-last tensors"}
LOWERED_DIFFERENCES = {
    Normed: QNNPACK_CLAMP,
    Functions: QNNPACK_CLAMP,
    Gates: QNNPACK_CLAMP,
    76: "L-15: FX takes a half for a quantized tensor, and the quantize after a dropout of it goes",
    Several: "L-03: FX drops a ReLU after a layer that it is not fused with",
}
for number in range(COUNT):
    model = MODELS[number % len(MODELS)]
    add_case(
        f"random_table_{number}",
        model.build,
        model.inputs,
        backend=lambda engine, number=number, model=model: Draw(number, model).table(),
        mapping=lambda engine, number=number, model=model: Draw(number + COUNT, model).mapping(engine),
        source=__file__,
        min_sqnr=Excused(-100, "a random table rounds anywhere, also more than once"),
        lowered_difference=LOWERED_DIFFERENCES.get(number) or LOWERED_DIFFERENCES.get(model.build, ""),
        float_layers=Excused(20, "a random table leaves any layer float"),
    )
