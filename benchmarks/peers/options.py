"""The command line of `run`. Needs the standard library alone, so that `run --help` works before anything is installed."""
from __future__ import annotations

import argparse
import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PEERS = ['libtorch', 'fx', 'pt2e', 'onnxruntime', 'openvino', 'tsq']
NETWORKS = ['mobilenet_v2', 'efficientnet_lite0', 'resnet50', 'minilm', 'bert_base', 'lstm']

DESCRIPTION = """\
Quantizes networks with tsq and with its peers, from the same calibration data, and measures accuracy on data that none
was calibrated on, the cost of quantizing, and latencies in turns.

  run                                                the networks of the benchmark
  run --network minilm --network lstm --seconds 60   some of them
  run model.pt --data data.pt --test test.pt         a TorchScript file of yours

Data is a list of samples as torch.save writes it, each a tensor or a tuple of forward's tensors: what `tsq quantize
--calib` takes."""

NOTES = """\
FX and PT2E need the source of a model, which a TorchScript file does not have: for MODEL.pt they say so. What a peer cannot
do is said in its row, with the reason below the table, and does not end the run.

The first run installs the peers (about 2 GB on the disk) into an environment of its own below ~/.cache/tsq-benchmarks/peers.
PT2E compiles with Inductor, which needs g++ and Python's headers."""


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='run', description=DESCRIPTION, epilog=NOTES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model', nargs='?', metavar='MODEL.pt', help='a float TorchScript file (default: the networks of the benchmark)')
    parser.add_argument('--data', metavar='DATA.pt', help='calibration data of MODEL.pt')
    parser.add_argument('--test', metavar='TEST.pt', 
                        help='samples to judge MODEL.pt by (default: the last quarter of DATA.pt, which then does not calibrate)')
    parser.add_argument('--network', action='append', choices=NETWORKS,
                        help='a network of the benchmark; may be given again (default: all)')
    parser.add_argument('--peers', nargs='+', choices=PEERS, default=PEERS, help='default: all')
    parser.add_argument('--threads', nargs='+', type=positive, default=[1, 2], metavar='N', help='threads to measure with (default: 1 2)')
    parser.add_argument('--batch', nargs='+', type=positive, default=[1, 16], metavar='N', help='rows of a call (default: 1 16)')
    parser.add_argument('--seconds', type=float, default=120,
                        help='of timed turns for each network, all threads and batches together (default: 120)')
    parser.add_argument('--patience', type=float, default=900, help='seconds after which a step of a peer counts as failed (default: 900)')
    parser.add_argument('--seed', type=int, default=0, help='of the order of turns and of the intervals (default: 0)')
    parser.add_argument('--json', metavar='F', help='also write everything, each round\'s times included, to this file')
    parser.add_argument('--plot', metavar='F.png', help='also draw accuracy against latency')
    parser.add_argument('--tsq', type=os.path.abspath, default=str(REPOSITORY / 'build/release/bin/tsq'), metavar='PATH',
                        help='the command tsq (default: build/release/bin/tsq)')
    parser.add_argument('--environment', choices=['own', 'none'], default='own',
                        help='none: run in the present Python, with the packages that it has')
    chosen = parser.parse_args(arguments)
    check(parser, chosen)
    return chosen


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return number


def check(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> None:
    if chosen.model and not chosen.data:
        parser.error('MODEL.pt needs --data with samples to calibrate on')
    if chosen.model and chosen.network:
        parser.error('--network chooses among the networks of the benchmark: leave it out with MODEL.pt')
    if not chosen.model and (chosen.data or chosen.test):
        parser.error('--data and --test belong to MODEL.pt: name one')
