"""The models that are trained beside those of the static suite: what the conformance list of training (QT-01 ...) names.

Each is prepared with the engine's default mapping for training or with one that its line says.
"""

import torch
import torch.ao.nn.intrinsic.qat as nniqat
import torch.ao.quantization as ao
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization import QConfigMapping, get_default_qat_qconfig, get_default_qat_qconfig_mapping
from torch.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize
from torch.ao.quantization.qconfig_mapping import _get_symmetric_qnnpack_qat_qconfig_mapping

from case import integers, normal
from training_cases import training_case

IMAGES = normal(4, 3, 8, 8)
ROWS = normal(6, 8)


def stack(*layers):
    return lambda: nn.Sequential(*[layer() for layer in layers])


def conv(inputs=3, outputs=6, kernel=3, **options):
    return lambda: nn.Conv2d(inputs, outputs, kernel, **{"padding": 1, **options})


def batch_norm(channels=6, **options):
    return lambda: nn.BatchNorm2d(channels, **options)


def linear(inputs=8, outputs=5, **options):
    return lambda: nn.Linear(inputs, outputs, **options)


# Layers and their fusions (QT-05, QT-30 to QT-39), with every form of statistics.
training_case("qat_conv", stack(conv(), conv(6, 4)), IMAGES)
training_case("qat_conv_no_bias", stack(conv(bias=False), conv(6, 4, bias=False)), IMAGES)
training_case("qat_conv_relu", stack(conv(), nn.ReLU, conv(6, 4)), IMAGES)
training_case("qat_conv_bn", stack(conv(), batch_norm(), conv(6, 4)), IMAGES)
training_case("qat_conv_bn_no_bias", stack(conv(bias=False), batch_norm(), conv(6, 4)), IMAGES)
training_case("qat_conv_bn_relu", stack(conv(), batch_norm(), nn.ReLU, conv(6, 4), batch_norm(4), nn.ReLU), IMAGES)
training_case("qat_conv_bn_adam", stack(conv(), batch_norm(), nn.ReLU, conv(6, 4)), IMAGES, optimizer="adam")
training_case("qat_conv_bn_eps", stack(conv(), batch_norm(eps=0.3, momentum=0.7), nn.ReLU), IMAGES)
training_case("qat_conv_bn_cumulative", stack(conv(), batch_norm(momentum=None), nn.ReLU), IMAGES)
training_case("qat_conv_bn_grouped", stack(conv(3, 6, groups=3), batch_norm(), nn.ReLU, conv(6, 6, groups=6), batch_norm()), IMAGES)
training_case("qat_conv_bn_strided", stack(conv(stride=2, dilation=2), batch_norm(), nn.ReLU), IMAGES)
training_case("qat_conv_bn_mnasnet", stack(conv(bias=False), batch_norm(momentum=1 - 0.9997), nn.ReLU), IMAGES)
training_case("qat_conv1d_bn_relu", stack(lambda: nn.Conv1d(3, 6, 3), lambda: nn.BatchNorm1d(6), nn.ReLU, lambda: nn.Conv1d(6, 4, 1)), normal(4, 3, 12))
training_case("qat_conv1d_bn", stack(lambda: nn.Conv1d(3, 6, 3), lambda: nn.BatchNorm1d(6)), normal(4, 3, 12))
training_case("qat_conv3d_bn_relu", stack(lambda: nn.Conv3d(3, 6, 3), lambda: nn.BatchNorm3d(6), nn.ReLU), normal(2, 3, 5, 5, 5), engines=("x86", "fbgemm", "onednn"))
training_case("qat_conv3d_bn", stack(lambda: nn.Conv3d(3, 6, 3), lambda: nn.BatchNorm3d(6)), normal(2, 3, 5, 5, 5), engines=("x86", "fbgemm", "onednn"))
training_case("qat_conv3d_relu", stack(lambda: nn.Conv3d(3, 6, 3), nn.ReLU), normal(2, 3, 5, 5, 5), engines=("x86", "fbgemm", "onednn"))
training_case("qat_linear", stack(linear(8, 7), linear(7, 5)), ROWS)
training_case("qat_linear_no_bias", stack(linear(8, 7, bias=False), linear(7, 5, bias=False)), ROWS)
training_case("qat_linear_relu", stack(linear(8, 7), nn.ReLU, linear(7, 5)), ROWS)
training_case("qat_linear_adam", stack(linear(8, 7), nn.ReLU, linear(7, 5)), ROWS, optimizer="adam")
training_case("qat_linear_bn", stack(linear(8, 7), lambda: nn.BatchNorm1d(7), linear(7, 5)), ROWS)
training_case("qat_linear_bn_no_bias", stack(linear(8, 7, bias=False), lambda: nn.BatchNorm1d(7)), ROWS)
training_case("qat_linear_bn_relu", stack(linear(8, 7), lambda: nn.BatchNorm1d(7), nn.ReLU, linear(7, 5)), ROWS)
training_case("qat_bn_relu", stack(batch_norm(3), nn.ReLU, conv()), IMAGES)
training_case("qat_bn_alone", stack(batch_norm(3), conv()), IMAGES)
training_case("qat_dropout", stack(linear(8, 7), nn.ReLU, lambda: nn.Dropout(0.4), linear(7, 5)), ROWS)


class Functionals(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.linear = nn.Linear(6, 4)

    def forward(self, x):
        x = F.relu(self.conv(x))
        x = F.adaptive_avg_pool2d(x, (1, 1)).flatten(1)
        return F.relu(self.linear(x))


training_case("qat_functional_relu", Functionals, IMAGES)


class FunctionalLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 8))
        self.bias = nn.Parameter(torch.randn(5))

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


training_case("qat_functional_linear", FunctionalLinear, ROWS)


class FunctionalConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 3, 3, 3))
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, x):
        return F.relu(F.conv2d(x, self.weight, self.bias, (1, 1), (1, 1), (1, 1), 1))


training_case("qat_functional_conv", FunctionalConv, IMAGES)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 3, 3, padding=1)
        self.bn = nn.BatchNorm2d(3)
        self.second = nn.Conv2d(3, 3, 1)

    def forward(self, x):
        return torch.relu(self.second(F.relu(self.bn(self.first(x)))) + x)


training_case("qat_residual", Residual, IMAGES)
training_case("qat_residual_adam", Residual, IMAGES, optimizer="adam")


class SharedObservers(nn.Module):
    """QT-16: one module that observes at every place."""

    def __init__(self):
        super().__init__()
        self.left = nn.Conv2d(3, 4, 3, padding=1)
        self.right = nn.Conv2d(3, 4, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        both = torch.cat([self.left(x), self.right(x)], 1)
        return self.last(self.pool(both)).flatten(1)


training_case("qat_shared_observers", SharedObservers, IMAGES)


class FixedQParams(nn.Module):
    """QT-17."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])
        self.hardsigmoid = nn.Hardsigmoid()
        self.softmax = nn.Softmax(-1)

    def forward(self, x):
        x = torch.sigmoid(self.layers[0](x))
        x = torch.tanh(self.layers[1](x) * 2.0)
        x = self.hardsigmoid(self.layers[2](x))
        return self.softmax(self.layers[3](x) + x)


training_case("qat_fixed_qparams", FixedQParams, ROWS, engines=("x86", "fbgemm", "qnnpack"))


class Activations(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3, 3, 1) for _ in range(5)])
        self.activations = nn.ModuleList([nn.Hardswish(), nn.ELU(), nn.LeakyReLU(0.1), nn.ReLU6(), nn.GELU()])
        self.norm = nn.GroupNorm(3, 3)

    def forward(self, x):
        for layer, activation in zip(self.layers, self.activations):
            x = activation(layer(x))
        return self.norm(x)


training_case("qat_activations", Activations, IMAGES, engines=("x86", "fbgemm"))


class CalledTwice(nn.Module):
    """QT-85."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(torch.relu(self.linear(x)))


training_case("qat_called_twice", CalledTwice, ROWS, converted_difference="QT-85: FX observes the weight once for each call")


class Frozen(nn.Module):
    """Parameters that do not train (QT-94), and one that two layers have."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.third = nn.Linear(8, 8)
        self.third.weight = self.second.weight
        for parameter in self.first.parameters():
            parameter.requires_grad = False

    def forward(self, x):
        return self.third(torch.relu(self.second(torch.relu(self.first(x)))))


training_case("qat_frozen_and_tied", Frozen, ROWS)


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 8)
        self.linear = nn.Linear(8, 3)

    def forward(self, indices):
        return self.linear(self.table(indices))


def with_embeddings(bits):
    def mapping(engine):
        qconfig = ao.default_embedding_qat_qconfig if bits == 8 else ao.default_embedding_qat_qconfig_4bit
        return get_default_qat_qconfig_mapping(engine).set_object_type(nn.Embedding, qconfig)

    return mapping


training_case("qat_embedding", Embeddings, integers(10, 4, 3), mapping=with_embeddings(8))
training_case("qat_embedding_float", Embeddings, integers(10, 4, 3), mapping=lambda engine: get_default_qat_qconfig_mapping(engine).set_object_type(nn.Embedding, None))
training_case("qat_embedding_default", Embeddings, integers(10, 4, 3))  # FX stops (QT-74)


# Mappings (QT-11 to QT-13, QT-70 to QT-73).
def version(number):
    return lambda engine: get_default_qat_qconfig_mapping(engine, number)


def of(qconfig):
    return lambda engine: QConfigMapping().set_global(qconfig)


BLOCK = stack(conv(), batch_norm(), nn.ReLU, conv(6, 4), nn.ReLU, conv(4, 4))
training_case("qat_version_0_conv", BLOCK, IMAGES, mapping=version(0))
training_case("qat_version_0_linear", stack(linear(8, 7), nn.ReLU, linear(7, 5)), ROWS, mapping=version(0))
training_case("qat_default_qat_qconfig", BLOCK, IMAGES, mapping=of(ao.default_qat_qconfig), engines=("fbgemm", "qnnpack"))
training_case("qat_default_qat_qconfig_v2", BLOCK, IMAGES, mapping=of(ao.qconfig.default_qat_qconfig_v2), engines=("x86", "qnnpack"))
training_case("qat_symmetric_qnnpack", BLOCK, IMAGES, mapping=lambda engine: _get_symmetric_qnnpack_qat_qconfig_mapping(), engines=("qnnpack",))
training_case("qat_dynamic", stack(linear(8, 7), nn.ReLU, linear(7, 5)), ROWS, mapping=of(ao.default_dynamic_qat_qconfig), engines=("x86", "fbgemm", "qnnpack"))
training_case("qat_global_none", BLOCK, IMAGES, mapping=lambda engine: QConfigMapping().set_object_type(nn.Conv2d, get_default_qat_qconfig(engine)))
training_case("qat_object_type_none", stack(conv(), batch_norm(), nn.ReLU, conv(6, 4)), IMAGES, mapping=lambda engine: get_default_qat_qconfig_mapping(engine).set_object_type(nn.Conv2d, None))
training_case("qat_name_none", BLOCK, IMAGES, mapping=lambda engine: get_default_qat_qconfig_mapping(engine).set_module_name("0", None))
training_case("qat_name_none_later", BLOCK, IMAGES, mapping=lambda engine: get_default_qat_qconfig_mapping(engine).set_module_name("5", None))
training_case("qat_name_none_second", BLOCK, IMAGES, mapping=lambda engine: get_default_qat_qconfig_mapping(engine).set_module_name("1", None))
training_case("qat_regex_none", BLOCK, IMAGES, mapping=lambda engine: get_default_qat_qconfig_mapping(engine).set_module_name_regex("[35]", None))
training_case("qat_name_of_own", BLOCK, IMAGES, mapping=lambda engine: get_default_qat_qconfig_mapping(engine).set_module_name("3", get_default_qat_qconfig("qnnpack")), engines=("fbgemm", "qnnpack"))
training_case("qat_call_order_none", BLOCK, IMAGES, mapping=lambda engine: get_default_qat_qconfig_mapping(engine).set_module_name_object_type_order("", nn.Conv2d, 1, None))
training_case("qat_observers_only", BLOCK, IMAGES, mapping=lambda engine: QConfigMapping().set_global(ao.get_default_qconfig(engine)))
training_case("qat_empty_mapping", BLOCK, IMAGES, mapping=lambda engine: QConfigMapping())


# Switches in the middle of training (QT-38, QT-50, QT-57, QT-83).
def at_step(step, switch):
    def event(model, current):
        if current == step:
            switch(model)

    return event


def applied(step, switch):
    return {"events_in_fx": at_step(step, lambda model: model.apply(switch)), "events_in_tsq": at_step(step, lambda model: model.apply(switch))}


training_case("qat_disable_observer", BLOCK, IMAGES, **applied(2, ao.disable_observer))
training_case("qat_disable_fake_quant", BLOCK, IMAGES, **applied(0, ao.disable_fake_quant))
training_case("qat_late_fake_quant", BLOCK, IMAGES, events_in_fx=lambda model, step: model.apply(ao.disable_fake_quant if step < 2 else ao.enable_fake_quant), events_in_tsq=lambda model, step: model.apply(ao.disable_fake_quant if step < 2 else ao.enable_fake_quant))
training_case(
    "qat_freeze_bn_stats",
    BLOCK,
    IMAGES,
    events_in_fx=at_step(2, lambda model: (model.apply(nniqat.freeze_bn_stats), model.train())),
    events_in_tsq=at_step(2, lambda model: (model.freeze_bn_stats(), model.train())),
)
training_case("qat_disable_observer_version_0", BLOCK, IMAGES, mapping=version(0), **applied(2, ao.disable_observer))
training_case("qat_eval_in_the_middle", BLOCK, IMAGES, events_in_fx=at_step(2, lambda model: model.eval()), events_in_tsq=at_step(2, lambda model: model.eval()))


# Where FX stops for one layer (QT-07, QT-08, QT-20, QT-36, QT-74, QT-105, QT-107).
training_case("qat_bn_not_affine", stack(conv(), batch_norm(affine=False), nn.ReLU, conv(6, 4)), IMAGES)
training_case("qat_bn_no_statistics", stack(conv(), batch_norm(track_running_stats=False), nn.ReLU, conv(6, 4)), IMAGES)
training_case("qat_conv_transpose_bn", stack(lambda: nn.ConvTranspose2d(3, 6, 3), batch_norm(), conv(6, 4)), IMAGES)
training_case("qat_conv_transpose", stack(lambda: nn.ConvTranspose2d(3, 3, 3), conv(3, 4)), IMAGES)
training_case("qat_conv_transpose_bn_relu", stack(lambda: nn.ConvTranspose2d(3, 3, 3), batch_norm(3), nn.ReLU, conv(3, 4)), IMAGES)
training_case("qat_padding_same", stack(conv(padding="same"), batch_norm(), nn.ReLU, conv(6, 4, padding="same")), IMAGES)
training_case("qat_padding_circular", stack(conv(padding_mode="circular"), nn.ReLU, conv(6, 4)), IMAGES)


class IntegerStride(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 3, 3, 3))

    def forward(self, x):
        return F.conv2d(x, self.weight, None, 1, 1)


training_case("qat_integer_stride", IntegerStride, IMAGES)


def zeroed(name):
    def event(model, step):
        if step == 0:
            with torch.no_grad():
                dict(model.named_parameters())[name][1] = 0

    return event


training_case("qat_gamma_of_zero", stack(conv(), batch_norm(), nn.ReLU, conv(6, 4)), IMAGES, events_in_fx=zeroed("0.bn.weight"), events_in_tsq=zeroed("1.weight"))


class ResidualOfNorms(nn.Module):
    """onednn's conv-bn-add (QT-20)."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.bn = nn.BatchNorm2d(3)

    def forward(self, x):
        return torch.relu(torch.add(self.bn(self.conv(x)), x))


training_case("qat_conv_bn_add", ResidualOfNorms, IMAGES)
training_case("qat_linear_leaky_relu", stack(linear(8, 7), lambda: nn.LeakyReLU(0.1), linear(7, 5)), ROWS)
training_case("qat_linear_bn_leaky_relu", stack(linear(8, 7), lambda: nn.BatchNorm1d(7), lambda: nn.LeakyReLU(0.1)), ROWS)
training_case("qat_linear_tanh", stack(linear(8, 7), nn.Tanh), ROWS)
training_case("qat_linear_bn_of_three_axes", stack(linear(8, 5), lambda: nn.BatchNorm1d(5)), normal(4, 5, 8))


class ConvBnTwice(nn.Module):
    """A trace has a method for each call of a module."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.bn = nn.BatchNorm2d(3)

    def forward(self, x):
        return self.bn(self.conv(self.bn(self.conv(x))))


training_case("qat_conv_bn_called_twice", ConvBnTwice, IMAGES, converted_difference="QT-85: FX observes the weight once for each call")


class OneNormAfterTwo(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 3, 3, padding=1)
        self.second = nn.Conv2d(3, 3, 1)
        self.bn = nn.BatchNorm2d(3)

    def forward(self, x):
        return self.bn(self.second(self.bn(self.first(x))))


training_case("qat_one_norm_after_two", OneNormAfterTwo, IMAGES)
training_case("qat_instance_norm_statistics", stack(conv(), lambda: nn.InstanceNorm2d(6, affine=True, track_running_stats=True), conv(6, 4)), IMAGES, lowered_difference="FX's kernel normalises by the batch in evaluation mode too")
training_case("qat_instance_norm", stack(conv(), lambda: nn.InstanceNorm2d(6), conv(6, 4)), IMAGES)


def learned(engine):
    """LSQ (QT-62)."""
    activation = _LearnableFakeQuantize.with_args(observer=ao.MovingAverageMinMaxObserver, quant_min=0, quant_max=127, use_grad_scaling=True)
    weight = _LearnableFakeQuantize.with_args(
        observer=ao.MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, use_grad_scaling=True
    )
    return QConfigMapping().set_global(ao.QConfig(activation=activation, weight=weight))


def learn_scales(model, step):
    if step == 1:
        for module in model.modules():
            if hasattr(module, "enable_param_learning"):
                module.enable_param_learning()


training_case("qat_learned_scales", BLOCK, IMAGES, mapping=learned, events_in_fx=learn_scales, events_in_tsq=learn_scales)
training_case("qat_learned_scales_of_linear", stack(linear(8, 7), nn.ReLU, linear(7, 5)), ROWS, mapping=learned, events_in_fx=learn_scales, events_in_tsq=learn_scales)
