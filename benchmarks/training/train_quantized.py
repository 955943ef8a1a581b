"""Quantization-aware training beside quantization after training, on real networks: does it pay?

  pip install -r benchmarks/accuracy/requirements.txt
  python train_quantized.py --tsq build/release/bin/tsq --network digits --minutes 3

The reference model that `tsq quantize --reference` writes trains (`tsq prepare --qat REFERENCE`): it learns the float network's outputs on
the network's training data, without labels (the loss is the share of their energy that is wrong), and is judged on data that neither
calibration nor training has seen, beside the result of the same `tsq quantize`. Where the data show few of the network's classes, it learns
the outputs of blocks as well: a model that returns them is quantized and trained, and its state loaded into the network's own. Recipe best,
static. Every network has the same settings: Adam, whose step is a share of the mean size of each parameter and falls to zero over the time
that is given.
"""
import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

warnings.filterwarnings('ignore')
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'accuracy'))

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from training_data import NETWORKS, TrainedNetwork  # noqa: E402

SHARE = 3e-4  # of a parameter's mean size, the largest step of Adam; found on digits, the other networks were not looked at
CHECKED, EVERY = 8, 20  # batches on which the parameters of each so many steps are compared


def run(*command: object) -> None:
    done = subprocess.run([*map(str, command), '--quiet'], stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f'train_quantized: {done.stderr.strip()}')


def joined(outputs) -> Tensor:
    """All outputs of a network as one matrix: a row for each sample."""
    tensors = [outputs] if isinstance(outputs, Tensor) else outputs
    return torch.cat([tensor.flatten(1) for tensor in tensors], 1)


def error(got, wanted) -> Tensor:
    """The share of each output's energy that is wrong, summed over the outputs."""
    pairs = [(got, wanted)] if isinstance(got, Tensor) else zip(got, wanted)
    return sum((g - w).square().sum() / w.square().sum() for g, w in pairs)


def sqnr(wanted: Tensor, got: Tensor) -> float:
    return 10 * math.log10((wanted.square().sum() / (wanted - got).square().sum()).item())


def optimizer_for(model: torch.jit.ScriptModule, share: float) -> torch.optim.Adam:
    groups = [{'params': [p], 'lr': share * p.detach().abs().mean().item()} for p in model.parameters() if p.requires_grad]
    return torch.optim.Adam(groups, betas=(0.9, 0.99))


class Best:
    """The parameters that were best on some batches: rounding makes neighbouring ones differ by decibels."""

    def __init__(self, model: torch.jit.ScriptModule, teacher, batches: list[tuple]) -> None:
        self.model, self.batches, self.wrong = model, batches, math.inf
        with torch.no_grad():
            self.wanted = [teacher(*batch) for batch in batches]
        self.note()

    def note(self) -> None:
        with torch.no_grad():
            wrong = sum(error(self.model(*batch), wanted).item() for batch, wanted in zip(self.batches, self.wanted))
            if wrong < self.wrong:
                self.wrong, self.parameters = wrong, [p.clone() for p in self.model.parameters()]

    def restore(self) -> None:
        with torch.no_grad():
            for parameter, best in zip(self.model.parameters(), self.parameters):
                parameter.copy_(best)


@torch.jit.optimized_execution(False)
def train(model: torch.jit.ScriptModule, network: TrainedNetwork, teacher, seconds: float, share: float) -> int:
    """The steps that were made."""
    torch.manual_seed(0)
    check = network.check or network.batch
    best = Best(model, teacher, [check() for _ in range(CHECKED)])
    optimizer = optimizer_for(model, share)
    largest = [group['lr'] for group in optimizer.param_groups]
    begin, steps = time.monotonic(), 0
    while (done := (time.monotonic() - begin) / seconds) < 1:
        for group, rate in zip(optimizer.param_groups, largest):
            group['lr'] = rate * (1 + math.cos(math.pi * done)) / 2
        batch = network.batch()
        with torch.no_grad():
            wanted = teacher(*batch)
        optimizer.zero_grad()
        error(model(*batch), wanted).backward()
        optimizer.step()
        steps += 1
        if steps % EVERY == 0:
            best.note()
    best.note()
    best.restore()
    return steps


def to_train(tsq: str, path: Path, script: torch.jit.ScriptModule, backend: str) -> torch.jit.ScriptModule:
    """The calibrated model, ready to train; leaves calibrated.pt."""
    script.save(path / 'float.pt')
    run(tsq, 'quantize', path / 'float.pt', '--calib', path / 'calib.pt', '--backend', backend, '--no-check',
        '--reference', path / 'reference.pt', '--output', path / 'calibrated.pt')
    run(tsq, 'prepare', '--qat', path / 'reference.pt', '--output', path / 'to_train.pt')
    return torch.jit.load(path / 'to_train.pt')


def train_with_blocks(tsq: str, path: Path, network: TrainedNetwork, backend: str, seconds: float, share: float) -> tuple:
    """The state of the trained model, under the names of the network itself, and the steps that were made."""
    teacher = network.with_blocks.eval()
    model = to_train(tsq, path, torch.jit.script(teacher), backend)
    steps = train(model, network, teacher, seconds, share)
    return {name.removeprefix('network.'): tensor for name, tensor in model.state_dict().items()}, steps


def compare(tsq: str, network: TrainedNetwork, backend: str, minutes: float, share: float) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        torch.save(network.network.calibration, path / 'calib.pt')
        state = None
        if network.with_blocks:
            state, steps = train_with_blocks(tsq, path, network, backend, 60 * minutes, share)
        teacher = network.network.scripted()
        model = to_train(tsq, path, teacher, backend)
        if state is None:
            steps = train(model, network, network.network.module or teacher, 60 * minutes, share)
        else:
            model.load_state_dict(state)
        torch.jit.save(model, path / 'trained.pt')
        run(tsq, 'lower', path / 'trained.pt', '--output', path / 'trained.int8.pt')
        torch.backends.quantized.engine = backend
        wanted = network.network.evaluate(teacher)
        result = {'network': network.name, 'backend': backend, 'minutes': minutes, 'steps': steps, 'float': wanted.score}
        for name, file in (('calibrated', 'calibrated.pt'), ('trained', 'trained.int8.pt')):
            got = network.network.evaluate(torch.jit.load(path / file))
            result[name] = {'score': got.score, 'agreement': (got.decisions == wanted.decisions).float().mean().item(),
                            'sqnr_db': sqnr(wanted.outputs, got.outputs)}
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--tsq', required=True, help='the command')
    parser.add_argument('--network', nargs='+', choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument('--backend', default='x86')
    parser.add_argument('--minutes', type=float, default=5)
    parser.add_argument('--share', type=float, default=SHARE, help='the largest step, as a share of a parameter')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--json', help='where the results are written')
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    results = []
    for name in arguments.network:
        results.append(compare(arguments.tsq, NETWORKS[name](), arguments.backend, arguments.minutes, arguments.share))
        one = results[-1]
        print(f"{name}: float {one['float']:.3f}; {one['steps']} steps")
        for form in ('calibrated', 'trained'):
            print(f"  {form:<11} score {one[form]['score']:.3f}  agreement {one[form]['agreement']:.3f}  {one[form]['sqnr_db']:.2f} dB", flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2))


if __name__ == '__main__':
    main()
