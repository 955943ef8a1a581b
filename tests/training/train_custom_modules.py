"""Custom observed and quantized modules in training (E-08), beside Python FX: losses, and the reference and lowered models return the same bits.

    tests/training/train_custom_modules.py --tsq build/release/bin/tsq
"""

import copy
import sys
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).parent.parent / "conformance"))

import torch
from torch import Tensor, nn
from torch.ao.quantization import (
    QConfig,
    QConfigMapping,
    default_fused_act_fake_quant,
    default_weight_fake_quant,
    get_default_qat_qconfig_mapping,
)
from torch.ao.quantization.quantize_fx import convert_fx, convert_to_reference_fx, prepare_qat_fx

from configuration_json import mapping_to_json
from custom_modules import (
    FEATURES,
    RECURRENT,
    Batches,
    Commands,
    Network,
    Scaled,
    commands,
    compare,
    fx_configurations,
    scriptable,
    states,
    write_classes,
)

MAPPING = QConfigMapping().set_global(QConfig(activation=default_fused_act_fake_quant, weight=default_weight_fake_quant))
STEPS = 3

# Each forward with its mapping.
CASES: list[tuple[str, QConfigMapping]] = [
    ("self.after(self.custom(self.before(x)))", MAPPING),
    ("self.custom(x)", MAPPING),
    ("(lambda y: torch.relu(self.custom(y)) + self.after(y))(self.before(x))", MAPPING),
    ("self.sum(self.before(x), self.after(x))", MAPPING),
    ("self.after(self.custom(self.before(x)))", copy.deepcopy(MAPPING).set_module_name("custom", None)),
    ("self.after(self.custom(self.before(x)))", copy.deepcopy(MAPPING).set_object_type(Scaled, None)),
]


def train(model: nn.Module, batches: Batches) -> list[float]:
    """Losses of a few steps; the model is in evaluation mode afterwards."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    with torch.enable_grad(), torch.jit.optimized_execution(False):
        for step in range(STEPS):
            optimizer.zero_grad()
            loss = first(model(*batches[step % len(batches)])).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    model.eval()
    return losses


def first(output) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]


def by_fx(model: nn.Module, mapping: QConfigMapping, batches: Batches) -> tuple[list[float], dict[str, Callable]]:
    prepare, convert = fx_configurations()
    prepared = prepare_qat_fx(copy.deepcopy(model).train(), mapping, batches[0], prepare_custom_config=prepare)
    losses = train(prepared, batches)
    return losses, {
        "trained": copy.deepcopy(prepared),
        "reference": convert_to_reference_fx(copy.deepcopy(prepared), convert_custom_config=convert),
        "lowered": convert_fx(copy.deepcopy(prepared), convert_custom_config=convert),
    }


def by_tsq(run: Commands, model: nn.Module, mapping: QConfigMapping, batches: Batches, classes: str) -> tuple[list[float], dict[str, Callable]]:
    torch.jit.script(model).save(str(run.folder / "model.pt"))
    prepare, convert = write_classes(run, classes)
    qconfig = run.write("qconfig.json", mapping_to_json(mapping))
    run("prepare", "--qat", "model.pt", "--qconfig", qconfig, "--recipe", "fx", "--prepare-custom-config", prepare, "--output", "prepared.pt")
    prepared = torch.jit.load(run.folder / "prepared.pt")
    losses = train(prepared, batches)
    prepared.save(str(run.folder / "trained.pt"))
    run("convert", "trained.pt", "--convert-custom-config", convert, "--output", "reference.pt")
    run("lower", "reference.pt", "--output", "lowered.pt")
    return losses, {stage: torch.jit.load(run.folder / f"{stage}.pt") for stage in ("trained", "reference", "lowered")}


def check(name: str, run: Commands, model: nn.Module, script: nn.Module, mapping: QConfigMapping, batches: Batches, classes: str) -> None:
    losses, fx = by_fx(model, mapping, batches)
    own_losses, ours = by_tsq(run, script, mapping, batches, classes)
    if losses != own_losses:
        raise AssertionError(f"{name}: losses {own_losses} differ from FX's {losses}")
    compare(name, fx, ours, batches)


def main() -> None:
    with commands(__doc__) as run:
        for index, (make, layers) in enumerate(RECURRENT):
            torch.manual_seed(index)
            model = make()
            check(f"LSTM {index}", run, model, model, get_default_qat_qconfig_mapping("x86"), states(layers), f"lstm{index}")
        for index, (forward, mapping) in enumerate(CASES):
            torch.manual_seed(index)
            model = Network(forward)
            batches = [(torch.randn(5, FEATURES),), (2 * torch.randn(5, FEATURES) + 0.5,)]
            check(f"'{forward}' (case {index})", run, model, scriptable(model), mapping, batches, f"classes{index}")
    print(f"{len(CASES)} models with custom modules and {len(RECURRENT)} with LSTMs train as FX's do")


if __name__ == "__main__":
    with torch.no_grad():
        main()
