"""Weight-only quantization: embeddings with rows of 8 and 4 bits.

FX's lowered EmbeddingBag always adds up whole bags: it ignores the mode and padding_idx."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import (
    QConfigMapping,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
    get_default_qconfig_mapping,
)

from case import Excused, add_case, integers

# onednn's row wants qint8 weights, which no embedding QConfig of PyTorch has: FX leaves all of them in float there.
MODE = "L-10: FX's quantized EmbeddingBag ignores the mode: a mean or maximum becomes a sum"
PADDING = "L-10: FX's quantized EmbeddingBag counts the rows of padding_idx"
ENGINES_WITH_ROWS = ("x86", "fbgemm", "qnnpack")


def on_engines(text: str) -> dict:
    return {engine: text for engine in ENGINES_WITH_ROWS}


def weight_only(qconfig, base=QConfigMapping):
    def mapping(engine: str):
        return base().set_object_type(nn.Embedding, qconfig).set_object_type(nn.EmbeddingBag, qconfig)

    return mapping


BITS = {"byte": float_qparams_weight_only_qconfig, "4bit": float_qparams_weight_only_qconfig_4bit}


def offsets(*values: int):
    return lambda generator, scale, shift: torch.tensor(values)


def weights(*shape: int):
    return lambda generator, scale, shift: torch.rand(shape, generator=generator) + 0.1


class Bag(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.bag = nn.EmbeddingBag(40, 12, **options)

    def forward(self, ids: Tensor, starts: Tensor) -> Tensor:
        return self.bag(ids, starts)


class PaddedBag(Bag):
    """nn.EmbeddingBag begins with zeros in the row of padding; a table that was loaded may have anything there."""

    def __init__(self, **options):
        super().__init__(**options)
        nn.init.normal_(self.bag.weight)


class PaddedRows(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.bag = nn.EmbeddingBag(40, 12, **options)
        nn.init.normal_(self.bag.weight)

    def forward(self, ids: Tensor) -> Tensor:
        return self.bag(ids)


class BagOfWeights(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.bag = nn.EmbeddingBag(40, 12, mode="sum", **options)

    def forward(self, ids: Tensor, starts: Tensor, weights: Tensor) -> Tensor:
        return self.bag(ids, starts, weights)


class BagOfWeightedRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(40, 12, mode="sum")

    def forward(self, ids: Tensor, weights: Tensor) -> Tensor:
        return self.bag(ids, per_sample_weights=weights)


IDS = integers(40, 3, 7)
ROW = integers(40, 9)
STARTS = offsets(0, 3, 3, 8)
EDGES = offsets(0, 3, 3, 8, 9)


FOUR_BITS = Excused(20.0, "4 bits: normal values with steps of a fifteenth of their row's range keep about 24 dB")


def both(name: str, make, *inputs, **options) -> None:
    for bits, qconfig in BITS.items():
        minimum = 30.0 if bits == "byte" else FOUR_BITS
        add_case(f"weight_only_{bits}_{name}", make, *inputs, mapping=weight_only(qconfig), source=__file__, min_sqnr=minimum, **options)


both("embedding", lambda: nn.Sequential(nn.Embedding(40, 12)), IDS)
both("embedding_of_a_list", lambda: nn.Sequential(nn.Embedding(40, 12, padding_idx=2)), ROW)
both("bag_sum", lambda: Bag(mode="sum"), ROW, STARTS)
both("bag_sum_of_rows", lambda: nn.Sequential(nn.EmbeddingBag(40, 12, mode="sum")), IDS)
both("bag_sum_last_offset", lambda: Bag(mode="sum", include_last_offset=True), ROW, EDGES)
both("bag_sum_weighted", BagOfWeights, ROW, STARTS, weights(9))
both("bag_sum_weighted_last_offset", lambda: BagOfWeights(include_last_offset=True), ROW, EDGES, weights(9))
both("bag_sum_weighted_rows", BagOfWeightedRows, IDS, weights(3, 7))
for mode in ("mean", "max"):
    both(f"bag_{mode}", lambda mode=mode: Bag(mode=mode), ROW, STARTS, lowered_difference=on_engines(MODE))
    both(f"bag_{mode}_of_rows", lambda mode=mode: nn.Sequential(nn.EmbeddingBag(40, 12, mode=mode)), IDS, lowered_difference=on_engines(MODE))
    both(f"bag_{mode}_last_offset", lambda mode=mode: Bag(mode=mode, include_last_offset=True), ROW, EDGES, lowered_difference=on_engines(MODE))
both("bag_sum_padding_of_zeros", lambda: Bag(mode="sum", padding_idx=0), integers(3, 9), STARTS)
for mode in ("sum", "mean", "max"):
    both(f"bag_{mode}_padding", lambda mode=mode: PaddedBag(mode=mode, padding_idx=0), integers(3, 9), STARTS, lowered_difference=on_engines(PADDING))
    both(f"bag_{mode}_padding_of_rows", lambda mode=mode: PaddedRows(mode=mode, padding_idx=1), integers(3, 3, 7), lowered_difference=on_engines(PADDING))


class TextClassifier(nn.Module):
    """An embedding, a bag and linear layers under other QConfigs."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(40, 16)
        self.topics = nn.EmbeddingBag(40, 16, mode="sum")
        self.hidden = nn.Linear(32, 16)
        self.relu = nn.ReLU()
        self.out = nn.Linear(16, 4)

    def forward(self, ids: Tensor) -> Tensor:
        x = torch.cat([self.words(ids).mean(1), self.topics(ids)], 1)
        return self.out(self.relu(self.hidden(x)))


def with_static(engine: str):
    return get_default_qconfig_mapping(engine).set_object_type(nn.Embedding, float_qparams_weight_only_qconfig).set_object_type(
        nn.EmbeddingBag, float_qparams_weight_only_qconfig_4bit
    )


def by_name(engine: str):
    return QConfigMapping().set_module_name("words", float_qparams_weight_only_qconfig_4bit).set_module_name("topics", None)


add_case("weight_only_with_static", TextClassifier, IDS, mapping=with_static, source=__file__)
add_case("weight_only_by_name", TextClassifier, IDS, mapping=by_name, source=__file__)


class CalledTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(40, 12)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.words(a) + self.words(b)


both("embedding_called_twice", CalledTwice, IDS, IDS)


class SharedTable(nn.Module):
    """One table for two layers, as language models tie them."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(40, 12)
        self.out = nn.Linear(12, 40, bias=False)
        self.out.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.words(ids))


both("embedding_with_shared_table", SharedTable, IDS)


class ConstantLines(nn.Module):
    """Rows without a range, and rows far from zero."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(40, 12)
        with torch.no_grad():
            self.words.weight[3] = 0.25
            self.words.weight[4] = 0.0
            self.words.weight[5] += 100.0

    def forward(self, ids: Tensor) -> Tensor:
        return self.words(ids)


both("embedding_constant_lines", ConstantLines, integers(8, 3, 7))


class FunctionalTable(nn.Module):
    """FX has no row for the functions: they stay float."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(40, 12))

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.table) + F.embedding_bag(ids, self.table, mode="max").unsqueeze(1)


both("functions", FunctionalTable, IDS)

for name, shape in (("scalar", ()), ("cube", (2, 3, 4))):
    both(f"embedding_of_a_{name}", lambda: nn.Sequential(nn.Embedding(40, 12)), integers(40, *shape))
add_case("weight_only_4bit_odd_columns", lambda: nn.Sequential(nn.Embedding(40, 13)), IDS, mapping=weight_only(float_qparams_weight_only_qconfig_4bit), source=__file__, min_sqnr=FOUR_BITS, float_layers=Excused(1, "LibTorch has no 4-bit embedding with an odd number of columns"),
         known_difference="FX's 4-bit embedding with an odd number of columns gives one column more")
