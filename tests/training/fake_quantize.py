"""tsq's fake quantize modules, loaded in Python, beside PyTorch's: outputs, gradients and buffers, bit for bit.

Four batches of values, then with the observer off, then with fake quantize off, switched by torch.ao.quantization's own functions; the
file is loaded anew in the middle (QT-50 to QT-61, QT-89, QT-99).
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "conformance"))

import torch
import torch.ao.quantization as ao
from torch.ao.quantization import fake_quantize, qconfig

from torch.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize

from configuration_json import observer_json

CHANNELS = 5

CONSTRUCTORS = {
    "default_fake_quant": fake_quantize.default_fake_quant,
    "default_weight_fake_quant": fake_quantize.default_weight_fake_quant,
    "default_dynamic_fake_quant": fake_quantize.default_dynamic_fake_quant,
    "default_per_channel_weight_fake_quant": fake_quantize.default_per_channel_weight_fake_quant,
    "default_embedding_fake_quant": fake_quantize.default_embedding_fake_quant,
    "default_embedding_fake_quant_4bit": fake_quantize.default_embedding_fake_quant_4bit,
    "default_fused_act_fake_quant": fake_quantize.default_fused_act_fake_quant,
    "default_fused_wt_fake_quant": fake_quantize.default_fused_wt_fake_quant,
    "default_fused_per_channel_wt_fake_quant": fake_quantize.default_fused_per_channel_wt_fake_quant,
    "fused_wt_neg_127": fake_quantize.fused_wt_fake_quant_range_neg_127_to_127,
    "fused_per_channel_wt_neg_127": fake_quantize.fused_per_channel_wt_fake_quant_range_neg_127_to_127,
    "fixed_0_to_1": fake_quantize.default_fixed_qparams_range_0to1_fake_quant,
    "fixed_neg_1_to_1": fake_quantize.default_fixed_qparams_range_neg1to1_fake_quant,
    "min_max": fake_quantize.FakeQuantize.with_args(observer=ao.MinMaxObserver, quant_min=0, quant_max=255),
    "per_channel_min_max": fake_quantize.FakeQuantize.with_args(observer=ao.PerChannelMinMaxObserver, quant_min=0, quant_max=255, ch_axis=1),
    "symmetric_quint8": fake_quantize.FakeQuantize.with_args(observer=ao.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, qscheme=torch.per_tensor_symmetric),
    "reduced_quint8": fake_quantize.FusedMovingAvgObsFakeQuantize.with_args(observer=ao.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, reduce_range=True),
}
# LSQ (QT-62): scale and zero point are parameters.
CONSTRUCTORS.update(
    {
        "learned": _LearnableFakeQuantize.with_args(observer=ao.MovingAverageMinMaxObserver, quant_min=0, quant_max=255),
        "learned_scaled": _LearnableFakeQuantize.with_args(observer=ao.MovingAverageMinMaxObserver, quant_min=0, quant_max=127, use_grad_scaling=True),
        "learned_symmetric": _LearnableFakeQuantize.with_args(
            observer=ao.MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, use_grad_scaling=True
        ),
    }
)
CONSTRUCTORS["learned_per_channel"] = _LearnableFakeQuantize.with_args(
    observer=ao.MovingAveragePerChannelMinMaxObserver,
    quant_min=-128,
    quant_max=127,
    dtype=torch.qint8,
    qscheme=torch.per_channel_symmetric,
    use_grad_scaling=True,
    channel_len=CHANNELS,
    ch_axis=0,
)
for engine in ("x86", "fbgemm", "qnnpack", "onednn"):
    for version in (0, 1):
        for role in ("activation", "weight"):
            CONSTRUCTORS[f"{engine}_{version}_{role}"] = getattr(qconfig.get_default_qat_qconfig(engine, version), role)


def batches(seed: int) -> list:
    generator = torch.Generator().manual_seed(seed)
    scales = (1.0, 3.0, 0.2, 1.5)
    values = [torch.randn(CHANNELS, CHANNELS, 3, generator=generator) * scale for scale in scales]
    values[2] = values[2].abs() + 0.1  # one-sided (QT-56)
    values[3][1] = 0
    return values


def run(module, values: torch.Tensor) -> tuple:
    x = values.clone().requires_grad_()
    y = module(x)
    weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
    (y * weights).sum().backward()
    return y.detach(), x.grad


def buffers(module) -> dict:
    return {name: value.reshape(-1) for name, value in module.state_dict().items()}


def check(name: str, step: str, expected, got) -> None:
    for what, a, b in zip(("output", "gradient"), run(*expected), run(*got)):
        assert torch.equal(a, b), f"{name}, {step}: {what} differs by {(a - b).abs().max()}"
    want, have = buffers(expected[0]), buffers(got[0])
    assert want.keys() == have.keys(), f"{name}: buffers {sorted(have)}, PyTorch {sorted(want)}"
    for key, value in want.items():
        if key.startswith("activation_post_process.") and value.numel() == 0:
            continue
        assert torch.equal(value, have[key]), f"{name}, {step}: {key} is {have[key]}, PyTorch {value}"
        assert value.dtype == have[key].dtype, f"{name}: {key} is {have[key].dtype}, PyTorch {value.dtype}"


def compare(name: str, constructor, path: str) -> None:
    mine, theirs = torch.jit.load(path), constructor()
    sizes = {key: value.shape for key, value in mine.state_dict().items()}
    for index, values in enumerate(batches(len(name))):
        check(name, f"batch {index}", (theirs, values), (mine, values))
        if index == 1:
            torch.jit.save(mine, path)
            mine = torch.jit.load(path)
    assert sizes == {key: value.shape for key, value in mine.state_dict().items()}, f"{name}: buffers have grown"
    if isinstance(theirs, _LearnableFakeQuantize):
        return learn(name, theirs, mine)
    switches = [ao.disable_observer, ao.disable_fake_quant, ao.enable_observer, ao.enable_fake_quant]
    if isinstance(theirs, ao.FixedQParamsFakeQuantize):
        switches = []  # PyTorch's functions pass by scripted ones (QT-63)
    for switch in switches:
        mine.apply(switch), theirs.apply(switch)
        values = batches(len(name) + 1)[0]
        check(name, switch.__name__, (theirs, values), (mine, values))


def learn(name: str, theirs, mine) -> None:
    """Three steps of learning, whose gradients and values are PyTorch's, then the observer's scale again."""
    for switch in ("enable_param_learning", "enable_static_observation", "enable_static_estimate", "enable_param_learning"):
        getattr(theirs, switch)(), getattr(mine, switch)()
        for step, values in enumerate(batches(len(name) + 2)[:3]):
            for module in (theirs, mine):
                module.zero_grad(set_to_none=True)
            check(name, f"{switch}, step {step}", (theirs, values), (mine, values))
            for parameter, (key, own) in zip(theirs.parameters(), mine.named_parameters()):
                assert own.requires_grad == parameter.requires_grad, f"{name}, {switch}: {key}"
                assert (own.grad is None) == (parameter.grad is None), f"{name}, {switch}: {key} has a gradient or has not"
                if parameter.grad is None:
                    continue
                assert torch.equal(own.grad, parameter.grad), f"{name}, {switch}: the gradient of {key} is {own.grad}, PyTorch {parameter.grad}"
                with torch.no_grad():
                    own.sub_(own.grad * 1e-3), parameter.sub_(parameter.grad * 1e-3)
    for want, have in zip(theirs.calculate_qparams(), mine.calculate_qparams()):
        assert torch.equal(want, have), f"{name}: qparams {have}, PyTorch {want}"


def main(program: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        specs = []
        for name, constructor in CONSTRUCTORS.items():
            channels = CHANNELS if "PerChannel" in str(constructor()) else 1
            specs.append({"name": name, "spec": observer_json(constructor), "channels": channels})
        file = Path(folder) / "specs.json"
        file.write_text(json.dumps(specs))
        subprocess.run([program, str(file), folder], check=True)
        for name, constructor in CONSTRUCTORS.items():
            compare(name, constructor, f"{folder}/{name}.pt")
    print(f"{len(CONSTRUCTORS)} fake quantize modules equal PyTorch's")


if __name__ == "__main__":
    main(sys.argv[1])
