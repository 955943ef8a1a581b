"""Peak memory of training steps beyond what the process held before them: a file of `tsq prepare --qat` beside Python FX.

  python peak_memory.py --tsq build/release/bin/tsq

Each row is a process of its own, on one thread. Memory is what the system counts (VmHWM), so that what graphs and executors take is in it,
and glibc returns tensors when they are freed (MALLOC_MMAP_THRESHOLD_): else the holes that it keeps between tensors count too.
"as it is" leaves TorchScript's executor on, "plain" turns it off by torch.jit.optimized_execution(False).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

warnings.filterwarnings('ignore')

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.ao.quantization import get_default_qat_qconfig_mapping  # noqa: E402
from torch.ao.quantization.quantize_fx import prepare_qat_fx  # noqa: E402

STEPS = 6  # the executor of TorchScript has settled after three
WAYS = ['as it is', 'plain']
CLEAR_PEAK = '5'  # see proc(5), clear_refs


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.bn1, self.relu1 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
        self.conv2, self.bn2, self.relu2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu2(self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x))))) + x)


def convolutions() -> nn.Module:
    stem = [nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU()]
    return nn.Sequential(*stem, *(Residual(32) for _ in range(4)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


class Attention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads, self.root = heads, (size / heads) ** 0.5
        self.norm1, self.norm2, self.gelu = nn.LayerNorm(size), nn.LayerNorm(size), nn.GELU()
        self.query, self.key, self.value, self.out = (nn.Linear(size, size) for _ in range(4))
        self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, x.size(2) // self.heads).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        scores = torch.softmax(torch.matmul(self.split(self.query(y)), self.split(self.key(y)).transpose(2, 3)) / self.root, dim=-1)
        x = x + self.out(torch.matmul(scores, self.split(self.value(y))).transpose(1, 2).flatten(2))
        return x + self.narrow(self.gelu(self.wide(self.norm2(x))))


def transformer() -> nn.Module:
    return nn.Sequential(*(Attention(128, 4) for _ in range(4)), nn.Linear(128, 10))


NETWORKS = {'convolutions': (convolutions, (8, 3, 96, 96)), 'transformer': (transformer, (8, 128, 128))}


def megabytes(field: str) -> float:
    lines = Path('/proc/self/status').read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def measure(network: str, file: str, is_optimized: bool) -> None:
    """Prints how much the peak of a few steps is above what the process held before them."""
    torch.set_num_threads(1)
    make, shape = NETWORKS[network]
    x = torch.randn(*shape)
    model = torch.jit.load(file) if file else prepare_qat_fx(make().train(), get_default_qat_qconfig_mapping('x86'), (x,))
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    base = megabytes('VmRSS')
    Path('/proc/self/clear_refs').write_text(CLEAR_PEAK)
    with torch.jit.optimized_execution(is_optimized):
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    print(json.dumps(megabytes('VmHWM') - base))


def in_a_process(network: str, file: str, way: str) -> float:
    command = [sys.executable, __file__, '--measure', network, '--file', file, '--way', way]
    environment = {**os.environ, 'MALLOC_MMAP_THRESHOLD_': '65536'}
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


def compare(network: str, program: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        torch.jit.script(NETWORKS[network][0]().train()).save(f'{folder}/float.pt')
        files = {'FX': ''}
        for recipe in ['fx', 'best']:
            files[f'recipe {recipe}'] = f'{folder}/{recipe}.pt'
            subprocess.run([program, 'prepare', '--qat', f'{folder}/float.pt', '--recipe', recipe, '-o', f'{folder}/{recipe}.pt'],
                           capture_output=True, check=True)
        peaks = {'FX': in_a_process(network, '', 'as it is')}
        for name in list(files)[1:]:
            for way in WAYS:
                peaks[f'{name}, {way}'] = in_a_process(network, files[name], way)
    for name, peak in peaks.items():
        print(f'| {network} | {name} | {peak:.0f} | {peak / peaks["FX"]:.2f} |', flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--tsq', default='tsq', help='the program to measure')
    parser.add_argument('--measure', choices=NETWORKS, help=argparse.SUPPRESS)
    parser.add_argument('--file', default='', help=argparse.SUPPRESS)
    parser.add_argument('--way', choices=WAYS, default='as it is', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(options.measure, options.file, options.way == 'as it is')
    print('| network | trained by | MB | beside FX |\n|---|---|---|---|')
    for network in NETWORKS:
        compare(network, options.tsq)


if __name__ == '__main__':
    main()
