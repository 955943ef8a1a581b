"""Modules of torch.nn that are made of layers, and layers that compute their weight: recipe best quantizes the layers.

Each model is scripted, where torch.jit.script takes it, traced, and some are frozen. The prepared file, which computes in float, must give what the
model returns; the lowered file must have every layer in int8, and stay close.
"""

import argparse
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from jobs import FAILED, JobServer, forked, is_drawn

warnings.simplefilter("ignore")
WIDTH, HEADS = 64, 4
FAR = -1e4  # leaves a position out
LAYERS = {"aten::linear", "aten::addmm", "aten::matmul", "aten::conv1d", "aten::conv2d", "aten::_convolution", "aten::_native_multi_head_attention", "aten::_transformer_encoder_layer_fwd"}


class Self(nn.Module):
    """x attends to itself; then a layer."""

    def __init__(self, need_weights: bool = False, average: bool = True, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, **options)
        self.need_weights, self.average = need_weights, average

    def forward(self, x):
        return self.attention(x, x, x, need_weights=self.need_weights, average_attn_weights=self.average)


class SelfWithoutWeights(Self):
    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class SelfOutput(Self):
    def forward(self, x):
        return self.attention(x, x, x)[0]


class Masked(Self):
    def forward(self, x, mask, padding):
        return self.attention(x, x, x, key_padding_mask=padding, attn_mask=mask)[0]


class MaskedWithoutWeights(Self):
    def forward(self, x, mask, padding):
        return self.attention(x, x, x, key_padding_mask=padding, attn_mask=mask, need_weights=False)[0]


class Cross(nn.Module):
    def __init__(self, need_weights: bool = True, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options)
        self.need_weights = need_weights

    def forward(self, x, memory):
        return self.attention(x, memory, memory, need_weights=self.need_weights)[0]


class Encoder(nn.Module):
    def __init__(self, layers: int = 2, nested: bool = False, norm: bool = False, **options):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, **options)
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(WIDTH) if norm else None, enable_nested_tensor=nested)

    def forward(self, x):
        return self.encoder(x)


class MaskedEncoder(Encoder):
    def forward(self, x, mask):
        return self.encoder(x, mask=mask)


class PaddedEncoder(Encoder):
    def forward(self, x, padding):
        return self.encoder(x, src_key_padding_mask=padding)


class Decoder(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True, **options), 1)

    def forward(self, x, memory):
        return self.decoder(x, memory)


class Function(nn.Module):
    """As CLIP pools by attention."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.c = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        return F.multi_head_attention_forward(
            x[:6], x, x, 64, 4, None, torch.cat([self.q.bias, self.k.bias, self.v.bias]), None, None, False, 0.0, self.c.weight, self.c.bias,
            training=self.training, need_weights=False, use_separate_proj_weight=True, q_proj_weight=self.q.weight, k_proj_weight=self.k.weight, v_proj_weight=self.v.weight,
        )[0]


class Norms(nn.Module):
    """Convolutions and a linear layer with a computed weight."""

    def __init__(self, norm):
        super().__init__()
        self.first, self.second, self.last = norm(nn.Conv1d(8, 32, 3, dilation=2)), norm(nn.Conv1d(32, 32, 1)), norm(nn.Linear(32, 16))

    def forward(self, x):
        return self.last(torch.relu(self.second(torch.relu(self.first(x)))).transpose(1, 2))


def rows(*sizes):
    return lambda: (torch.randn(*sizes, WIDTH),)


def masks(batch=2, length=12):
    causal = torch.triu(torch.full((length, length), FAR), 1)
    padding = torch.zeros(batch, length).bool()
    padding[0, length // 2 :] = True
    return causal, padding


def signal():
    return (torch.randn(2, 8, 40),)


WITH_MASKS = lambda: (torch.randn(2, 12, WIDTH), masks()[0], torch.zeros(2, 12).masked_fill(masks()[1], FAR))
# name: (model, inputs, layers of the scripted file, layers of the traced file; 0: there is no such file)
CASES = {
    "attention": (lambda: SelfOutput(batch_first=True), rows(2, 12), 4, 4),
    "attention_length_first": (lambda: SelfOutput(), rows(12, 2), 4, 2),
    "attention_without_batch": (lambda: SelfOutput(), rows(12), 4, 0),
    "attention_without_bias": (lambda: SelfOutput(batch_first=True, bias=False), rows(2, 12), 0, 2),
    "attention_with_weights": (lambda: Self(True, batch_first=True), rows(2, 12), 4, 4),
    "attention_with_all_weights": (lambda: Self(True, False, batch_first=True), rows(2, 12), 4, 4),
    "attention_without_weights": (lambda: SelfWithoutWeights(batch_first=True), rows(2, 12), 4, 4),
    "attention_with_masks": (lambda: MaskedWithoutWeights(batch_first=True), WITH_MASKS, 4, 0),
    "attention_with_masks_and_weights": (lambda: Masked(batch_first=True), WITH_MASKS, 4, 0),
    "attention_with_masks_of_truth": (lambda: Masked(batch_first=True), lambda: (torch.randn(2, 12, WIDTH), masks()[0] != 0, masks()[1]), 4, 0),
    "attention_with_a_mask_a_head": (
        lambda: Masked(batch_first=True),
        lambda: (torch.randn(2, 12, WIDTH), torch.randn(2 * HEADS, 12, 12), torch.zeros(2, 12).masked_fill(masks()[1], FAR)),
        4,
        0,
    ),
    "cross_attention": (lambda: Cross(), lambda: (torch.randn(2, 3, WIDTH), torch.randn(2, 12, WIDTH)), 4, 3),
    "cross_attention_of_widths": (lambda: Cross(False, kdim=32, vdim=32), lambda: (torch.randn(2, 3, WIDTH), torch.randn(2, 12, 32)), 4, 4),
    "encoder": (lambda: Encoder(batch_first=True), rows(2, 12), 12, 12),
    "encoder_length_first": (lambda: Encoder(), rows(12, 2), 12, 0),
    "encoder_norm_first": (lambda: Encoder(batch_first=True, norm_first=True, norm=True), rows(2, 12), 12, 12),
    "encoder_gelu": (lambda: Encoder(batch_first=True, activation="gelu"), rows(2, 12), 12, 12),
    "encoder_of_a_module": (lambda: Encoder(batch_first=True, activation=nn.SiLU()), rows(2, 12), 12, 12),
    "encoder_without_batch": (lambda: Encoder(batch_first=True), rows(12), 12, 0),
    "encoder_with_mask": (lambda: MaskedEncoder(batch_first=True), lambda: (torch.randn(2, 12, WIDTH), masks()[0]), 12, 12),
    "encoder_with_padding": (lambda: PaddedEncoder(batch_first=True), lambda: (torch.randn(2, 12, WIDTH), masks()[1]), 12, 12),
    "encoder_with_nested_padding": (lambda: PaddedEncoder(batch_first=True, nested=True), lambda: (torch.randn(2, 12, WIDTH), masks()[1]), 12, 12),
    "decoder": (lambda: Decoder(), lambda: (torch.randn(2, 6, WIDTH), torch.randn(2, 12, WIDTH)), 10, 9),
    "decoder_norm_first": (lambda: Decoder(norm_first=True), lambda: (torch.randn(2, 6, WIDTH), torch.randn(2, 12, WIDTH)), 10, 0),
    "function": (lambda: Function(), rows(12, 2), 4, 4),
    "weight_norm": (lambda: Norms(nn.utils.parametrizations.weight_norm), signal, 0, 3),
    "weight_norm_hook": (lambda: Norms(nn.utils.weight_norm), signal, 0, 3),
    "spectral_norm": (lambda: Norms(nn.utils.parametrizations.spectral_norm), signal, 0, 3),
    "spectral_norm_hook": (lambda: Norms(nn.utils.spectral_norm), signal, 0, 3),
}
# Layers of the frozen scripted file, where there is one: queries, keys and values are projected by one layer.
FROZEN = {"attention": 2, "attention_with_masks": 2, "encoder": 8, "encoder_norm_first": 8}


def leaves(result) -> list:
    if isinstance(result, torch.Tensor):
        return [result]
    return [] if result is None else [leaf for each in result for leaf in leaves(each)]


def outputs(model, samples) -> list:
    with torch.no_grad():
        return [leaf for sample in samples for leaf in leaves(model(*sample))]


def largest_difference(expected, got) -> float:
    assert [a.shape for a in expected] == [b.shape for b in got], f"{[b.shape for b in got]}, expected {[a.shape for a in expected]}"
    return max(float((a - b).abs().max()) for a, b in zip(expected, got))


def sqnr(expected, got) -> float:
    signal_power = sum(float(a.double().pow(2).sum()) for a in expected)
    noise = sum(float((a - b).double().pow(2).sum()) for a, b in zip(expected, got))
    return 10 * torch.log10(torch.tensor(signal_power / noise)).item()


def nodes(block):
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nodes(inner)


def tsq(server: JobServer, *arguments) -> None:
    answer = server.ask(list(map(str, arguments)))
    assert answer["exit"] == 0, (answer["error"] or answer["out"]).strip()[-400:]


def slow_in_float(folder: Path) -> Path:
    """A machine on which int8 is worth its while in small layers, too."""
    profile = json.loads((Path(__file__).parents[2] / "backends" / "profiles" / "avx512-vnni.json").read_text())
    for kernels in profile["threads"].values():
        for name, coefficients in kernels.items():
            if name.startswith("aten::") and not name.startswith(("aten::quantize", "aten::slice")):
                coefficients.update({feature: 1000 * time for feature, time in coefficients.items()})
    file = folder / "machine.json"
    file.write_text(json.dumps(profile))
    return file


def layers_of(name: str, form: str) -> int:
    """0: there is no such file."""
    return FROZEN.get(name, 0) if form == "frozen" else CASES[name][2 if form == "scripted" else 3]


def check(server: JobServer, folder: Path, name: str, form: str, engine: str) -> None:
    build, inputs = CASES[name][:2]
    layers = layers_of(name, form)
    torch.manual_seed(0)
    model = build().eval()
    samples = [inputs() for _ in range(8)]
    with torch.no_grad():
        made = torch.jit.trace(model, samples[0]) if form == "traced" else torch.jit.script(model)
    if form == "frozen":
        made = torch.jit.freeze(made)
    file, data, prepared, lowered = (folder / each for each in ("model.pt", "data.pt", "prepared.pt", "lowered.pt"))
    made.save(str(file))
    torch.save(samples, data)
    expected = outputs(torch.jit.load(str(file)), samples)
    tsq(server, "prepare", file, "--recipe", "best", "--backend", engine, "--output", prepared)
    difference = largest_difference(expected, outputs(torch.jit.load(str(prepared)), samples))
    assert difference < 1e-5, f"the prepared model differs by {difference:.3g}"
    tsq(server, "quantize", file, "--calib", data, "--backend", engine, "--output", lowered, "--quiet", "--no-check", "--force", "--machine", slow_in_float(folder), "--decibel-price", 0)
    torch.backends.quantized.engine = engine
    quantized = torch.jit.load(str(lowered))
    kinds = [node.kind() for node in nodes(quantized.inlined_graph)]
    floats = [kind for kind in kinds if kind in LAYERS - {"aten::matmul"}]
    assert not floats, f"float layers are left: {floats}"
    int8 = [kind for kind in kinds if kind.startswith(("quantized::linear", "quantized::conv", "onednn::"))]
    joined = sum(kind == "aten::split_with_sizes" for kind in kinds)
    assert len(int8) == layers or (joined and len(int8) < layers), f"{len(int8)} layers in int8, {layers} are there"
    decibels = sqnr(expected, outputs(quantized, samples))
    assert decibels > 25, f"{decibels:.1f} dB"


def check_in_fork(job, server: JobServer):
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(server, Path(folder), *job)
        except Exception as error:
            return FAILED, " ".join(str(error).split())[:600]
    return "", ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", required=True, help="the built serve_commands")
    parser.add_argument("--only", nargs="*", help="names of cases")
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="draw one job in N, the same in every run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    jobs = [
        (name, form, engine)
        for name in options.only or CASES
        for form in ("scripted", "traced", "frozen")
        for engine in ("x86", "onednn")
        if is_drawn(f"{name} {form} {engine}", options.one_in) and layers_of(name, form)
    ]
    failures = []

    def report(job, verdict: str, text: str, _) -> None:
        if verdict == FAILED:
            failures.append(job)
            print(f"FAIL {' '.join(job)}: {text}", flush=True)

    servers = [JobServer(options.serve) for _ in range(os.cpu_count() or 1)]
    forked(jobs, check_in_fork, servers, report)
    for server in servers:
        server.stop()
    print(f"{len(failures)} of {len(jobs)} failed")
    return 1 if failures or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
