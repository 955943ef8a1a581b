"""Plans at random, and layers given up one after the other, against the plan that tsq chooses.

Of a network that `tsq quantize` has quantized, plans are drawn: a share of its layers, drawn too, stays float, and the rest is decided by a
price that is drawn. Other plans leave the layers float that cost most SQNR, one more each time, as NNCF's accuracy control gives them up.
Each is tried on the evaluation samples; what has more SQNR than the chosen plan is timed beside it, in turns on one thread. A plan is better
where it has more SQNR and less time by more than the spread of times: half of the distance between the quartiles.

  pip install -r benchmarks/accuracy/requirements.txt
  python random_plans.py --tsq build/release/bin/tsq
  python random_plans.py --tsq build/release/bin/tsq --network digits --plans 20
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from compare_accuracy import NETWORKS, sqnr
from network import Network, Result

CHOSEN = ('digits', 'MTCNN R-Net', 'AttaCut')
ENGINE = 'x86'


@dataclass
class Plan:
    name: str
    decibels: float
    path: Path


class Bench:
    def __init__(self, network: Network, program: str, folder: Path):
        self.network, self.program, self.folder = network, program, folder
        network.scripted().save(str(folder / 'float.pt'))
        torch.save(network.calibration, folder / 'data.pt')
        self.wanted = self.outputs(folder / 'float.pt')
        self.run('prepare', 'float.pt', '--output', 'prepared.pt')
        self.run('calibrate', 'prepared.pt', '--calib', 'data.pt', '--output', 'calibrated.pt')
        self.mapping = json.loads(self.run('qconfig', 'show', f'best_{ENGINE}'))

    def run(self, command: str, *arguments: str) -> str:
        finished = subprocess.run([self.program, command, *arguments], cwd=self.folder, capture_output=True, text=True)
        if finished.returncode != 0:
            raise RuntimeError(finished.stderr.strip().splitlines()[-1])
        return finished.stdout

    def outputs(self, path: Path) -> Result:
        return self.network.evaluate(torch.jit.load(str(path)).eval())

    def chosen(self) -> Plan:
        self.run('quantize', 'float.pt', '--calib', 'data.pt', '--output', 'chosen.pt', '--threads', '1')
        return self.tried('chosen', self.folder / 'chosen.pt')

    def layers(self) -> list[str]:
        """That the fastest plan has in int8."""
        self.run('quantize', 'float.pt', '--calib', 'data.pt', '--output', 'fastest.pt', '--decibel-price', '0', '--no-check', '--force', '--report', 'r.json')
        decisions = json.loads((self.folder / 'r.json').read_text())['operators']
        return sorted({each['layer'] for each in decisions if each['quantized'] and each['layer']})

    def plan(self, name: str, kept_float: list[str], percent: float) -> Plan:
        mapping = {**self.mapping, 'module_name': [*self.mapping['module_name'], *([layer, None] for layer in kept_float)]}
        (self.folder / 'q.json').write_text(json.dumps(mapping))
        path = self.folder / f'{name}.pt'
        self.run('convert', 'calibrated.pt', '--convert-qconfig', 'q.json', '--output', 'reference.pt', '--decibel-price', str(percent))
        self.run('lower', 'reference.pt', '--output', path.name)
        return self.tried(name, path)

    def tried(self, name: str, path: Path) -> Plan:
        return Plan(name, sqnr(self.wanted.outputs, self.outputs(path).outputs), path)


def milliseconds(model: torch.jit.ScriptModule, inputs: tuple, seconds: float = 0.02) -> float:
    calls, start = 0, time.perf_counter()
    with torch.no_grad():
        while calls == 0 or time.perf_counter() - start < seconds:
            model(*inputs)
            calls += 1
    return (time.perf_counter() - start) / calls * 1e3


def ratio(ours: Plan, theirs: Plan, inputs: tuple, rounds: int = 31) -> tuple[float, float]:
    """Their time over ours, and its spread."""
    models = [torch.jit.load(str(plan.path)).eval() for plan in (ours, theirs)]
    for model in models:
        milliseconds(model, inputs)
    ratios = []
    for turn in range(rounds):
        times = [milliseconds(model, inputs) for model in (models if turn % 2 == 0 else models[::-1])]
        first, second = times if turn % 2 == 0 else times[::-1]
        ratios.append(second / first)
    low, middle, high = statistics.quantiles(ratios, n=4)
    return middle, (high - low) / 2


def given_up(bench: Bench, layers: list[str]) -> list[Plan]:
    """The layer that gains most SQNR in float first."""
    alone = [bench.plan(f'alone_{i}', [layer], 0) for i, layer in enumerate(layers)]
    order = [layer for _, layer in sorted(zip((-plan.decibels for plan in alone), layers))]
    return [bench.plan(f'given_up_{count}', order[:count], 0) for count in range(1, len(order))]


def drawn(bench: Bench, layers: list[str], count: int) -> list[Plan]:
    generator = random.Random(1)
    plans = []
    for i in range(count):
        kept = generator.sample(layers, generator.randint(0, len(layers) - 1))
        plans.append(bench.plan(f'drawn_{i}', kept, 10 ** generator.uniform(-3, 1.5)))
    return plans


def compare(name: str, options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(NETWORKS[name](), options.tsq, Path(folder))
        chosen, layers = bench.chosen(), bench.layers()
        others = drawn(bench, layers, options.plans) + given_up(bench, layers)
        better = []
        for plan in others:
            if plan.decibels <= chosen.decibels:
                continue
            middle, spread = ratio(chosen, plan, bench.network.latency_inputs)
            if middle + spread < 1:
                better.append(f'{plan.name}: {plan.decibels:.1f} dB, {middle:.2f} of the time')
        print(f'{name}: chosen {chosen.decibels:.1f} dB; of {len(others)} plans {len(better)} are better', *better, sep='\n  ', flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--tsq', required=True, help='the program to measure')
    parser.add_argument('--network', action='append', choices=NETWORKS, help=f'may be given again (default: {", ".join(CHOSEN)})')
    parser.add_argument('--plans', type=int, default=200, help='to draw for each network (default: 200)')
    options = parser.parse_args()
    options.tsq = str(Path(options.tsq).resolve())
    torch.set_num_threads(1)
    torch.backends.quantized.engine = ENGINE
    os.environ['OMP_NUM_THREADS'] = '1'
    for name in options.network or CHOSEN:
        compare(name, options)


if __name__ == '__main__':
    sys.exit(main())
