"""Dynamic quantization: activations quantized when the model runs, to int8 or float16."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import (
    QConfigMapping,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    get_default_qconfig,
    per_channel_dynamic_qconfig,
)

from case import Excused, add_case, normal, snake_case

ROWS = normal(4, 16)
SENTENCES = normal(3, 5, 16)

FLOAT16_ENGINES = ("x86", "fbgemm")


def everywhere(qconfig):
    return lambda engine: QConfigMapping().set_global(qconfig)


QCONFIGS = {
    "int8": (everywhere(default_dynamic_qconfig), ("x86", "fbgemm", "qnnpack", "onednn")),
    "int8_per_channel": (everywhere(per_channel_dynamic_qconfig), ("x86", "fbgemm", "qnnpack", "onednn")),
    "float16": (everywhere(float16_dynamic_qconfig), FLOAT16_ENGINES),
}


def dynamic_cases(model, *inputs, reference_differences=None, **options):
    """A case for each dynamic QConfig, on the engines whose kernels FX has."""
    for name, (mapping, engines) in QCONFIGS.items():
        difference = (reference_differences or {}).get(name, "")
        add_case(f"dynamic_{snake_case(model.__name__)}_{name}", model, *inputs, mapping=mapping, engines=engines, reference_difference=difference, source=__file__, **options)


class Linears(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 24)
        self.second = nn.Linear(24, 16, bias=False)
        self.third = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.third(torch.tanh(self.second(F.gelu(self.first(x)))))


class LinearsWithReLU(nn.Module):
    """As a module, as a function, and on a tensor of three dimensions."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 16))
        self.last = nn.Linear(16, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.layers(x)))


class FunctionalLinears(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(12, 16) * 0.3)
        self.bias = nn.Parameter(torch.randn(12) * 0.1)
        self.other = nn.Parameter(torch.randn(5, 12) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.relu(F.linear(x, self.weight, self.bias)), self.other)


class LinearOfComputedWeight(nn.Module):
    """K-01: its observer sees the weight at convert, without data."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(12, 16) * 0.3)
        self.gain = nn.Parameter(torch.rand(12, 1) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, F.normalize(self.weight, dim=1) * self.gain)


class LinearCalledTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.shared(torch.sigmoid(self.shared(x)))


class TwoLinearsOnOneInput(nn.Module):
    """One observer serves both."""

    def __init__(self):
        super().__init__()
        self.left = nn.Linear(16, 8)
        self.right = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x) * self.right(x)


class Attention(nn.Module):
    """A transformer's block: only its linear layers have dynamic kernels."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(16, 16)
        self.key = nn.Linear(16, 16)
        self.value = nn.Linear(16, 16)
        self.out = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def heads(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), 2, 8).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        scores = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / 2.8, dim=-1)
        context = torch.matmul(scores, v).transpose(1, 2).reshape(x.size(0), x.size(1), 16)
        x = self.norm(x + self.out(context))
        return x + self.down(F.gelu(self.up(x)))


class StaticThenDynamic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.hidden = nn.Linear(8, 16)
        self.fc = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.flatten(F.adaptive_avg_pool2d(F.relu(self.conv(x)), (1, 1)), 1)
        return self.fc(F.relu(self.hidden(x)))


def dynamic_head(engine: str) -> QConfigMapping:
    return QConfigMapping().set_global(get_default_qconfig(engine)).set_module_name("fc", default_dynamic_qconfig)


def dynamic_body(engine: str) -> QConfigMapping:
    return QConfigMapping().set_global(default_dynamic_qconfig).set_module_name("fc", get_default_qconfig(engine))


dynamic_cases(Linears, ROWS, float_layers={"onednn": Excused(1, "oneDNN's table takes a linear layer and its tanh as one, for which there is no dynamic kernel")})
dynamic_cases(LinearsWithReLU, SENTENCES)
dynamic_cases(FunctionalLinears, ROWS)
dynamic_cases(LinearOfComputedWeight, ROWS)
dynamic_cases(LinearCalledTwice, ROWS)
dynamic_cases(TwoLinearsOnOneInput, ROWS)
dynamic_cases(Attention, SENTENCES)
add_case("dynamic_head_of_static_body", StaticThenDynamic, normal(2, 3, 8, 8), mapping=dynamic_head, source=__file__)
add_case("static_head_of_dynamic_body", StaticThenDynamic, normal(2, 3, 8, 8), mapping=dynamic_body, source=__file__)


# ---- recurrent layers and cells


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(16, 12)

    def forward(self, x: Tensor):
        result = self.lstm(x)
        return result[0], result[1][0], result[1][1]


class LstmOfManyLayers(nn.Module):
    """Bidirectional, two layers, batch first, with a state that is given, after a linear layer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(16, 16)
        self.lstm = nn.LSTM(16, 8, 2, batch_first=True, bidirectional=True, dropout=0.2)
        self.tags = nn.Linear(16, 5)

    def forward(self, x: Tensor, h: Tensor, c: Tensor):
        result = self.lstm(F.relu(self.embed(x)), (h, c))
        return self.tags(result[0]), result[1][0], result[1][1]


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(16, 12)

    def forward(self, x: Tensor):
        result = self.gru(x)
        return result[0], result[1]


class GruOfManyLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(16, 8, 2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(16, 5)

    def forward(self, x: Tensor, h: Tensor):
        result = self.gru(x, h)
        return self.tags(result[0]), result[1]


class Cells(nn.Module):
    """Each cell once, with and without a state."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTMCell(16, 12)
        self.gru = nn.GRUCell(12, 10)
        self.tanh = nn.RNNCell(10, 8)
        self.relu = nn.RNNCell(8, 8, nonlinearity="relu")

    def forward(self, x: Tensor, h: Tensor, c: Tensor):
        state = self.lstm(x, (h, c))
        y = self.gru(state[0])
        y = self.tanh(y)
        return self.relu(y, y), state[1]


class CellCalledTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(16, 12)

    def forward(self, x: Tensor, y: Tensor):
        state = self.cell(x)
        state = self.cell(y, (state[0], state[1]))
        return state[0], state[1]


# FX makes reference modules in training mode: the dropout between layers is on.
DROPOUT = dict.fromkeys(QCONFIGS, "the dropout of FX's reference LSTM is on")
# Matrix products choose their algorithm by whether a parameter asks for gradients.
LAST_BIT = {"float16": "FX's reference GRU has parameters that ask for gradients, which changes the last bit"}

dynamic_cases(Lstm, SENTENCES)
dynamic_cases(LstmOfManyLayers, SENTENCES, normal(4, 3, 8), normal(4, 3, 8), reference_differences=DROPOUT)
dynamic_cases(Gru, SENTENCES)
dynamic_cases(GruOfManyLayers, SENTENCES, normal(4, 3, 8), reference_differences=LAST_BIT)
dynamic_cases(Cells, ROWS, normal(4, 12), normal(4, 12))
dynamic_cases(CellCalledTwice, ROWS, ROWS)
