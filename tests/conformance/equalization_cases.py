"""Input-weight equalization (Q-01 … Q-08): prepare_fx's _equalization_config.

The ranges are FX's, also where they fit badly: between two equalized layers, and where an observer is shared. Where FX's
model computes something else than the float model, tsq does not follow (docs/differences-from-fx.md): those cases carry a
`known_difference`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import QConfigMapping, default_qconfig
from torch.ao.quantization.fx._equalize import (
    EqualizationQConfig,
    _InputEqualizationObserver,
    _WeightEqualizationObserver,
    default_equalization_qconfig,
)

from case import Excused, add_case, case, normal, sequential, snake_case, uniform

IMAGE = normal(2, 3, 12, 12)
ROWS = normal(8, 5)


def everything(engine: str) -> QConfigMapping:
    return QConfigMapping().set_global(default_equalization_qconfig)


def min_max(engine: str) -> QConfigMapping:
    return QConfigMapping().set_global(default_qconfig)


def but(*names: str):
    """Every layer but these."""

    def mapping(engine: str) -> QConfigMapping:
        result = everything(engine)
        for name in names:
            result.set_module_name(name, None)
        return result

    return mapping


def equalized(name: str, inputs, *layers, equalization=everything, **options) -> None:
    """The same chain of layers under the backend's default QConfigs, and under those of PyTorch's own tests."""
    sequential(f"equalize_{name}", inputs, *layers, equalization=equalization, **options)
    sequential(f"equalize_{name}_min_max", inputs, *layers, equalization=equalization, mapping=min_max, **options)


def model(*inputs, **options):
    """Registers a module under both mappings."""

    def register(cls):
        name = "equalize_" + snake_case(cls.__name__)
        options.setdefault("equalization", everything)
        add_case(name, cls, *inputs, **options)
        add_case(name + "_min_max", cls, *inputs, **{"mapping": min_max, **options})
        return cls

    return register


# ---- chains

equalized("linear", ROWS, lambda: nn.Linear(5, 6))
equalized("linear_without_bias", ROWS, lambda: nn.Linear(5, 6, bias=False), lambda: nn.Linear(6, 4, bias=False))
equalized("linear_linear", ROWS, lambda: nn.Linear(5, 8), lambda: nn.Linear(8, 5))
equalized("linear_relu", ROWS, lambda: nn.Linear(5, 6), lambda: nn.ReLU())
equalized("linear_relu_linear", ROWS, lambda: nn.Linear(5, 8), lambda: nn.ReLU(), lambda: nn.Linear(8, 5))
equalized("linear_relu_three_times", ROWS, lambda: nn.Linear(5, 8), lambda: nn.ReLU(), lambda: nn.Linear(8, 7), lambda: nn.ReLU(), lambda: nn.Linear(7, 5), lambda: nn.ReLU())
equalized("conv1d", normal(2, 3, 16), lambda: nn.Conv1d(3, 6, 3), lambda: nn.ReLU(), lambda: nn.Conv1d(6, 4, 3))
equalized("conv2d", IMAGE, lambda: nn.Conv2d(3, 6, 3))
equalized("conv2d_conv2d", IMAGE, lambda: nn.Conv2d(3, 6, 3), lambda: nn.Conv2d(6, 4, 3, stride=2, padding=1))
equalized("conv2d_relu_conv2d", IMAGE, lambda: nn.Conv2d(3, 6, 3, bias=False), lambda: nn.ReLU(), lambda: nn.Conv2d(6, 4, 3))
equalized("conv3d", normal(1, 2, 6, 6, 6), lambda: nn.Conv3d(2, 4, 3), lambda: nn.ReLU(), lambda: nn.Conv3d(4, 3, 3), skip={"qnnpack": "qnnpack has no quantized conv3d"})
equalized("conv2d_bn_relu_conv2d", IMAGE, lambda: nn.Conv2d(3, 6, 3), lambda: nn.BatchNorm2d(6), lambda: nn.ReLU(), lambda: nn.Conv2d(6, 4, 3))
equalized("one_channel", uniform(2, 1, 10, 10), lambda: nn.Conv2d(1, 6, 3), lambda: nn.ReLU(), lambda: nn.Conv2d(6, 4, 3))

# ---- which layers

equalized("first_of_two_linear", ROWS, lambda: nn.Linear(5, 8), lambda: nn.Linear(8, 5), equalization=but("1"))
equalized("none", ROWS, lambda: nn.Linear(5, 8), lambda: nn.Linear(8, 5), equalization=lambda engine: QConfigMapping().set_global(None))
equalized(
    "second_of_two_linear", ROWS, lambda: nn.Linear(5, 8), lambda: nn.Linear(8, 5), equalization=but("0"),
    known_difference="Q-07: FX divides the second weight by a scale that nobody multiplied",
)
equalized(
    "middle_of_three_left_out", ROWS, lambda: nn.Linear(5, 8), lambda: nn.ReLU(), lambda: nn.Linear(8, 6), lambda: nn.ReLU(), lambda: nn.Linear(6, 4),
    equalization=but("2"), known_difference="Q-07: FX divides the third weight by a scale that nobody multiplied",
)
equalized(
    "by_type", IMAGE, lambda: nn.Conv2d(3, 6, 3), lambda: nn.ReLU(), lambda: nn.Conv2d(6, 4, 3),
    equalization=lambda engine: QConfigMapping().set_object_type(nn.Conv2d, default_equalization_qconfig),
    min_sqnr={engine: Excused(22, "activations of 7 bits, as the engine's default QConfig has them") for engine in ("x86", "fbgemm")},
)
equalized(
    "other_observer_arguments", ROWS, lambda: nn.Linear(5, 8), lambda: nn.Linear(8, 5),
    equalization=lambda engine: QConfigMapping().set_global(
        EqualizationQConfig(
            input_activation=_InputEqualizationObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_affine),
            weight=_WeightEqualizationObserver.with_args(dtype=torch.quint8, qscheme=torch.per_tensor_affine),
        )
    ),
)
equalized(
    "grouped_conv2d", normal(2, 4, 10, 10), lambda: nn.Conv2d(4, 8, 3, groups=2), lambda: nn.ReLU(), lambda: nn.Conv2d(8, 4, 3),
    known_difference="Q-08: FX raises ValueError",
)


# ---- functionals; FX scales tensors only, not parameters


class FunctionalLinear(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.register_buffer("weight", torch.rand(outputs, inputs) - 0.3)
        self.register_buffer("bias", torch.rand(outputs) - 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class FunctionalConv2d(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.register_buffer("weight", torch.rand(outputs, inputs, 3, 3) - 0.4)
        self.register_buffer("bias", torch.rand(outputs) - 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, [1, 1], [1, 1], [1, 1], 1)


equalized("functional_linear", ROWS, lambda: FunctionalLinear(5, 6))
equalized("functional_linear_linear", ROWS, lambda: FunctionalLinear(5, 6), lambda: FunctionalLinear(6, 4))
equalized("functional_conv2d", IMAGE, lambda: FunctionalConv2d(3, 6))
equalized("functional_conv2d_conv2d", IMAGE, lambda: FunctionalConv2d(3, 6), lambda: FunctionalConv2d(6, 4))
equalized("functional_and_module", ROWS, lambda: FunctionalLinear(5, 6), lambda: nn.Linear(6, 4))


@model(ROWS)
class FunctionalLinearReluLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = FunctionalLinear(5, 8)
        self.b = FunctionalLinear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.b(F.relu(self.a(x))))


@model(IMAGE)
class FunctionalConvReluConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = FunctionalConv2d(3, 6)
        self.b = FunctionalConv2d(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.b(F.relu(self.a(x))))


@model(ROWS, known_difference="FX cannot assign the scaled weight to a parameter (TypeError)")
class FunctionalWithParameters(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight1 = nn.Parameter(torch.randn(8, 5))
        self.b1 = nn.Parameter(torch.randn(8))
        self.weight2 = nn.Parameter(torch.randn(4, 8))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.relu(F.linear(x, self.weight1, self.b1)), self.weight2)


class FunctionalWithNamesThatFxReads(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a_weight", torch.zeros(8, 5))
        self.register_buffer("b_bias", torch.zeros(8))
        self.register_buffer("c_weight", torch.zeros(4, 8))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.linear(x, self.a_weight, self.b_bias), self.c_weight)


@model(
    ROWS,
    known_difference="Q-07: FX scales the bias only if its name has 'bias' in it",
    fx_model=FunctionalWithNamesThatFxReads,
    fx_names={"a_weight": "a", "b_bias": "b", "c_weight": "c"},
)
class FunctionalWithOtherNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.rand(8, 5) - 0.3)
        self.register_buffer("b", torch.rand(8) - 0.5)
        self.register_buffer("c", torch.rand(4, 8) - 0.3)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.linear(x, self.a, self.b), self.c)


# ---- branches and what lies between


@model(IMAGE)
class Branch(nn.Module):
    """Q-03: neither of the two that read x is equalized."""

    def __init__(self):
        super().__init__()
        self.left = nn.Conv2d(3, 6, 3)
        self.right = nn.Conv2d(3, 6, 3)
        self.last = nn.Conv2d(6, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.left(x) + self.right(x))


@model(IMAGE)
class BranchIntoAnAddition(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3, padding=1)
        self.inner = nn.Conv2d(6, 6, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return y + self.inner(y)


@model(normal(4, 8), mapping=lambda engine: min_max(engine).set_module_name("plain", None))
class BranchWithAFloatReader(nn.Module):
    """A reader that is not quantized is no branch; FX scales what it reads."""

    def __init__(self):
        super().__init__()
        self.quantized = nn.Linear(8, 6)
        self.plain = nn.Linear(8, 6)

    def forward(self, x: Tensor):
        return self.quantized(x), self.plain(x)


@model(IMAGE)
class AdditionBeforeConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x + x * x)


@model(ROWS)
class LinearAddLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(5, 5)
        self.fc2 = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(torch.add(self.fc1(x), 5))


equalized("conv_pool_conv", IMAGE, lambda: nn.Conv2d(3, 6, 3), lambda: nn.ReLU(), lambda: nn.MaxPool2d(2), lambda: nn.Conv2d(6, 4, 3))
equalized(
    "conv_pool_flatten_linear", IMAGE, lambda: nn.Conv2d(3, 6, 3), lambda: nn.ReLU(), lambda: nn.AdaptiveAvgPool2d((2, 2)), lambda: nn.Flatten(),
    lambda: nn.Linear(24, 4),
)
equalized("pool_first", IMAGE, lambda: nn.MaxPool2d(2), lambda: nn.Conv2d(3, 6, 3))
equalized("hardswish_between", IMAGE, lambda: nn.Conv2d(3, 6, 3), lambda: nn.Hardswish(), lambda: nn.Conv2d(6, 4, 3))
equalized("leaky_relu_between", IMAGE, lambda: nn.Conv2d(3, 6, 3), lambda: nn.LeakyReLU(0.1), lambda: nn.Conv2d(6, 4, 3))
equalized("sigmoid_between", ROWS, lambda: nn.Linear(5, 8), lambda: nn.Sigmoid(), lambda: nn.Linear(8, 4))


@model(ROWS, known_difference="Q-07: FX takes any relu for one after an equalized layer")
class AddReluLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(5, 5)
        self.fc2 = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x) + x))


@model(ROWS, known_difference="Q-07: the module's output is scaled in FX")
class IntermediateResultReturned(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(5, 8)
        self.fc2 = nn.Linear(8, 5)

    def forward(self, x: Tensor):
        y = self.fc1(x)
        return self.fc2(y), y


@model(ROWS, known_difference="FX scales the weight once for each call")
class CalledTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.relu(self.fc(x)))


@model(normal(4, 6, 5), known_difference="FX takes axis 1 for the channels of a linear layer, whatever its input has")
class LinearOnThreeAxes(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(5, 8)
        self.fc2 = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(x))


@model(ROWS)
class AddActivationLinear(nn.Module):
    """A ReLU that FX does not know by its name."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(5, 5)
        self.act = nn.ReLU()
        self.fc2 = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x) + x))
