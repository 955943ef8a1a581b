"""Compares the figures of `tsq verify --detect` with those of PyTorch's model report, on a model whose layers each have something to find.

    tests/trial/model_report_test.py --tsq build/release/bin/tsq

Inputs are not negative: PyTorch sees outliers above zero alone. Exits with 1 where a figure differs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.ao.quantization.fx._model_report.model_report_observer import ModelReportObserver

PERCENTILE = 0.975  # OutlierDetector's reference_percentile


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(20, 24)
        self.second = nn.Linear(24, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)) + 0.01)


def samples() -> list[Tensor]:
    """One batch far larger than the others, and a channel that is small throughout and has outliers, which are no larger than other channels."""
    batches = [torch.rand(200, 20) + 0.1 for _ in range(8)]
    batches[3] *= 40
    for batch in batches:
        batch[:, 11] *= 0.01
        batch[0, 11] *= 60
    return batches


def observed(model: Model, batches: list[Tensor]) -> dict[str, tuple[ModelReportObserver, ModelReportObserver]]:
    """PyTorch's observers before and after each layer."""
    observers = {name: (ModelReportObserver(ch_axis=1, comp_percentile=PERCENTILE), ModelReportObserver()) for name in ('first', 'second')}
    for name, (before, after) in observers.items():
        layer = getattr(model, name)
        layer.register_forward_hook(lambda _, inputs, output, before=before, after=after: (before(inputs[0]), after(output)) and None)
    for batch in batches:
        model(batch)
    return observers


def equalization_figure(before: ModelReportObserver, weight: Tensor) -> float:
    """The s_c of InputWeightEqualizationDetector that is farthest from 1, either way; channels that are always 0 do not count."""
    low, high = weight.amin(0), weight.amax(0)
    of_weight = (high - low) / (high.max() - low.min())
    of_input = (before.max_val - before.min_val) / (before.max_val.max() - before.min_val.min())
    ratios = (of_weight / of_input).sqrt()
    unequal = torch.maximum(ratios, 1 / ratios)
    return unequal[unequal.isfinite()].max().item()


def wanted(model: Model, batches: list[Tensor]) -> dict[tuple[str, str], float]:
    figures = {}
    for name, (before, after) in observed(model, batches).items():
        figures[name, 'dynamic'] = after.get_batch_to_epoch_ratio().item()
        figures[name, 'outliers'] = before.average_percentile_ratio.max().item()
        figures[name, 'equalization'] = equalization_figure(before, getattr(model, name).weight)
    return figures


def found(tsq: str, model: Model, batches: list[Tensor]) -> dict[tuple[str, str], float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.jit.script(model).save(str(folder / 'model.pt'))
        torch.save(batches, folder / 'data.pt')
        words = [tsq, 'verify', str(folder / 'model.pt'), '--data', str(folder / 'data.pt'), '--detect', '--json']
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f'model_report_test: {done.stderr.strip()}')
    return {(finding['layer'], finding['detector']): finding['figure'] for finding in json.loads(done.stdout)['findings']}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--tsq', required=True)
    options = parser.parse_args()
    torch.manual_seed(1)
    with torch.no_grad():
        model, batches = Model().eval(), samples()
        figures = found(options.tsq, model, batches)
        failed = 0
        for (layer, detector), right in wanted(model, batches).items():
            own = figures.get((layer, detector))
            limit = {'dynamic': right <= 0.5, 'outliers': right > 3.5, 'equalization': right >= 2}[detector]
            is_right = abs(own - right) <= 1e-4 * right if own is not None else not limit
            failed += not is_right
            print(f"{'ok    ' if is_right else 'FAILED'} {layer} {detector}: PyTorch {right:.5f}, tsq {own}")
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
