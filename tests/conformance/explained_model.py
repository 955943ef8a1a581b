"""A model in which some 30 operators stay float, each for a reason of its own; with data, mapping and custom config."""

from typing import List, Tuple

import torch
from torch import nn
from torch.nn import functional as F

HISTOGRAM = {"observer": "HistogramObserver", "reduce_range": True}
PER_CHANNEL = {"observer": "PerChannelMinMaxObserver", "dtype": "qint8", "qscheme": "per_channel_symmetric"}
PER_TENSOR = {"observer": "MinMaxObserver", "dtype": "qint8", "qscheme": "per_tensor_symmetric"}
STATIC = {"activation": HISTOGRAM, "weight": PER_CHANNEL}

MAPPING = {
    "": STATIC,
    "object_type": [
        ["torch.nn.AvgPool2d", None],
        ["torch.nn.ConvTranspose2d", {"activation": HISTOGRAM, "weight": PER_TENSOR}],
        ["torch.nn.Hardswish", None],
    ],
    "module_name_regex": [["by_re.*", None], ["head.*", None]],
    "module_name": [
        ["by_name", None],
        ["signed", {"activation": {"observer": "HistogramObserver", "dtype": "qint8"}, "weight": PER_CHANNEL}],
        ["squash", {"activation": HISTOGRAM, "weight": PER_CHANNEL}],
        ["unsigned_weight", {"activation": HISTOGRAM, "weight": {"observer": "MinMaxObserver", "dtype": "quint8"}}],
        ["moving", {"activation": {"observer": "PlaceholderObserver", "dtype": "quint8", "is_dynamic": True}, "weight": PER_CHANNEL}],
        ["encoder.convolution", None],
        ["batch_norm", None],
    ],
    "module_name_object_type_order": [["", "torch.nn.Linear", 0, None]],
}

CUSTOM = {
    "non_traceable_module_name": ["opaque"],
    "standalone_module_name": [["alone", None, None, None, None]],
}


class Opaque(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cos(self.linear(x))


class Alone(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.second = nn.Linear(4, 4)
        self.mish = nn.Mish()

    def forward(self, x):
        return self.mish(self.second(self.norm(self.linear(x))))


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.batch_norm = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.batch_norm(self.conv(x)))


class Explained(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = Encoder()
        self.silu = nn.SiLU()
        self.by_name = nn.Conv2d(8, 8, 1)
        self.by_regex = nn.Conv2d(8, 8, 1)
        self.average = nn.AvgPool2d(1)
        self.in_order = nn.Linear(4, 4)
        self.signed = nn.Conv2d(8, 8, 1)
        self.squash = nn.Sigmoid()
        self.unsigned_weight = nn.Conv2d(8, 8, 1)
        self.moving = nn.Conv2d(8, 8, 1)
        self.decoder = nn.ConvTranspose2d(8, 6, 2, stride=2)
        self.statistics = nn.BatchNorm2d(6, track_running_stats=False)
        self.pair = nn.ConvTranspose2d(6, 6, 1)
        self.pair_norm = nn.BatchNorm2d(6, track_running_stats=False)
        self.pool = nn.AdaptiveAvgPool2d((4, 4))
        self.with_indices = nn.MaxPool2d(1, return_indices=True)
        self.opaque = Opaque()
        self.alone = Alone()
        self.after_alone = nn.Linear(4, 4)
        self.choices = nn.ModuleList([Chosen(), Chosen()])
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.embedding = nn.Embedding(20, 4)
        self.rare = nn.Linear(4, 4)
        self.again = nn.Linear(4, 4)
        self.head_layer = nn.Linear(4, 4)

    def forward(self, image: torch.Tensor, ids: torch.Tensor, turns: int) -> Tuple[torch.Tensor, torch.Tensor]:
        x = self.encoder(image)
        y = self.average(self.silu(x))
        y = self.by_regex(self.by_name(y))
        y = self.unsigned_weight(self.squash(self.signed(y)))
        y = torch.add(self.moving(y), x, alpha=2)
        y = self.pair_norm(self.pair(self.average(self.decoder(y))))
        y = F.interpolate(y, scale_factor=2.0, mode="bicubic")
        y, places = self.with_indices(self.statistics(self.pool(y)))
        z = y.flatten(0, 1)
        z = self.in_order(z)
        z = self.after_alone(self.alone(self.opaque(z)))
        layer: Layer = self.choices[turns - 2]
        chosen: List[Layer] = [layer]
        z = chosen[turns - 2].forward(z)
        z, state = self.lstm(z)
        words = self.embedding(torch.cat([ids + 1, ids], 1))
        z = torch.cat([z, words.sum(0).unsqueeze(0).expand(z.size(0), -1, -1)], 1)
        z = z.masked_fill(torch.gt(z, 2.0).unsqueeze(1).squeeze(1), 0.5)
        if turns > 100:
            z = self.rare(z)
        parts: List[torch.Tensor] = []
        for _ in range(turns):
            z = self.again(z)
            parts.append(torch.cumsum(z, 1))
        z = torch.cat(parts, 1)
        return self.head_layer(z), torch.matmul(z, z.transpose(1, 2))


def samples() -> list:
    torch.manual_seed(1)
    return [(torch.randn(2, 3, 8, 8), torch.randint(0, 10, (2, 3)), 2) for _ in range(3)]
