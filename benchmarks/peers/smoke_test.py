"""Tests the comparison on a tiny network, without peers that must be installed.

  smoke_test.py --tsq build/release/bin/tsq
"""
from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
from torch import nn

import compare
import measures
import options
import table
import turns
from case import Case
from columns import COLUMNS
from processes import Failed
from samples import Unusable

TSQ = ''
RUN = str(Path(__file__).resolve().parent / 'run')


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)).eval()


@functools.cache
def scripted() -> torch.jit.ScriptModule:
    """torch.jit.script knows builtin functions by address, also those that are gone: an attribute that now has such an address is none."""
    model = network()
    builtins = torch.jit._builtins._get_builtin_table()
    for module in model.modules():
        for attribute in vars(module).values():
            builtins.pop(id(attribute), None)
    return torch.jit.script(model)


def data() -> list[tuple]:
    torch.manual_seed(1)
    return [(torch.randn(2, 3, 12, 12),) for _ in range(8)]


class Program(unittest.TestCase):
    """`run` on files of the user's. Starting PyTorch takes most of the time of these tests: few of them start a program."""

    def setUp(self) -> None:
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)
        scripted().save(str(self.folder / 'model.pt'))
        torch.save(data(), self.folder / 'data.pt')

    def arguments(self, model: str, data_file: str, *more: str) -> list[str]:
        return [str(self.folder / model), '--data', str(self.folder / data_file), '--environment', 'none', '--tsq', TSQ, *more]

    def run_on(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, RUN, *self.arguments(*arguments)], capture_output=True, text=True)

    def refusal_of(self, model: str, data_file: str) -> str:
        with self.assertRaises(Unusable) as refused:
            compare.run(options.parse(self.arguments(model, data_file)))
        return str(refused.exception)

    def test_a_peer_that_cannot_is_told_and_the_others_are_measured(self) -> None:
        file = self.folder / 'result.json'
        small = ['--peers', 'libtorch', 'fx', '--threads', '1', '--batch', '1', '--seconds', '0.2']
        done = self.run_on('model.pt', 'data.pt', *small, '--json', str(file))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('FX static, quantize: FX static needs the source of the model', done.stdout)
        columns = {column['key']: column for column in json.loads(file.read_text())['networks'][0]['columns']}
        self.assertEqual(columns['fx_static']['latencies'], [])
        self.assertGreater(columns['libtorch_frozen']['latencies'][0]['median'], 0)

    def test_bad_input_ends_in_one_sentence(self) -> None:
        done = self.run_on('absent.pt', 'data.pt')
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, f"peers: error: there is no file '{self.folder / 'absent.pt'}'\n")

    def test_data_that_is_no_list_of_samples_is_refused(self) -> None:
        torch.save({'x': torch.zeros(1)}, self.folder / 'dict.pt')
        self.assertIn('holds a dict: it must hold a list of samples', self.refusal_of('model.pt', 'dict.pt'))
        torch.save([torch.zeros(1), 'text'], self.folder / 'text.pt')
        self.assertRegex(self.refusal_of('model.pt', 'text.pt'), 'sample 1 of .* is a str')
        (self.folder / 'text.txt').write_text('no tensors')
        self.assertIn('is no file of torch.save', self.refusal_of('model.pt', 'text.txt'))

    def test_one_sample_is_too_few_to_hold_any_back(self) -> None:
        torch.save(data()[:1], self.folder / 'one.pt')
        self.assertIn('has one sample', self.refusal_of('model.pt', 'one.pt'))

    def test_a_file_that_is_no_torchscript_is_refused(self) -> None:
        self.assertIn('is no TorchScript file', self.refusal_of('data.pt', 'data.pt'))

    def test_a_float_model_that_fails_on_the_data_is_refused(self) -> None:
        torch.save([torch.zeros(1, 5, 12, 12)] * 4, self.folder / 'wide.pt')
        self.assertRegex(self.refusal_of('model.pt', 'wide.pt'), 'the float model model fails on calibration sample 0: .*channels')


class Comparison(unittest.TestCase):
    """A column of each peer that needs no further package, on a network with its source."""

    KEYS = ('libtorch_frozen', 'fx_static', 'tsq_x86_static')

    @classmethod
    def setUpClass(cls) -> None:
        samples = data()
        tiny = Case('tiny', 'drawn', scripted(), samples[:6], samples[6:], network())
        chosen = options.parse(['--threads', '1', '--batch', '1', '3', '--seconds', '0.2', '--tsq', TSQ])
        cls.result = compare.compared(tiny, [COLUMNS[key] for key in cls.KEYS], chosen)
        cls.columns = {column.key: column for column in cls.result.columns}

    def test_each_column_has_accuracy_cost_and_size(self) -> None:
        for key in ('fx_static', 'tsq_x86_static'):
            with self.subTest(key):
                column = self.columns[key]
                self.assertEqual(column.errors, {})
                self.assertGreater(column.sqnr, 10)
                self.assertTrue(0 <= column.agreement <= 1)
                self.assertGreater(column.quantize_seconds, 0)
                self.assertGreater(column.quantize_megabytes, 10)
                self.assertGreater(column.megabytes, 0)
                self.assertEqual(list(column.model_megabytes), [1])

    def test_frozen_float_equals_float(self) -> None:
        self.assertGreater(self.columns['libtorch_frozen'].sqnr, 90)
        self.assertEqual(self.columns['libtorch_frozen'].agreement, 1)

    def test_each_column_is_timed_at_each_batch_size_and_tsq_is_the_base(self) -> None:
        for column in self.columns.values():
            self.assertEqual([(x.threads, x.batch) for x in column.latencies], [(1, 1), (1, 3)])
            for latency in column.latencies:
                self.assertLessEqual(latency.minimum, latency.median)
                self.assertLessEqual(latency.over_tsq.low, latency.over_tsq.high)
        self.assertEqual([latency.over_tsq.ratio for latency in self.columns['tsq_x86_static'].latencies], [1, 1])

    def test_all_of_it_can_be_written_as_json(self) -> None:
        written = json.loads(json.dumps(compare.plain(self.result), allow_nan=False))
        self.assertEqual({'name', 'note', 'calibration_samples', 'test_samples', 'columns', 'refused_batches', 'turns'}, set(written))
        self.assertEqual(len(written['turns']), 2)
        self.assertEqual(set(written['turns'][0]['medians']), set(self.columns))

    def test_the_table_has_a_row_for_each_column(self) -> None:
        text = table.of_network(self.result)
        for column in self.columns.values():
            self.assertIn(column.name, text)


class FakeWorker:
    """Answers like a worker, and keeps a diary that all share."""

    def __init__(self, key: str, diary: list[str], last_turn: int | None = None) -> None:
        self.key, self.diary, self.last_turn = key, diary, last_turn

    def ask(self, **request: object) -> dict:
        if request['do'] == 'warm':
            return {'seconds': 0.01}
        self.diary.append(self.key)
        if self.last_turn is not None and self.diary.count(self.key) > self.last_turn:
            raise Failed('it fell over')
        return {'seconds': [0.01] * request['calls']}


class Turns(unittest.TestCase):
    def test_columns_are_interleaved_in_orders_that_change(self) -> None:
        diary: list[str] = []
        taken = turns.take({key: FakeWorker(key, diary) for key in 'abcd'}, 1, 1, batches=3, seconds=0.2, seed=0)
        self.assertGreaterEqual(len(taken.orders), turns.FEWEST_ROUNDS)
        self.assertEqual(diary, [key for order in taken.orders for key in order])
        self.assertTrue(all(sorted(order) == list('abcd') for order in taken.orders))
        self.assertGreater(len({tuple(order) for order in taken.orders}), 1)

    def test_the_seed_decides_the_order(self) -> None:
        def orders(seed: int) -> list[list[str]]:
            return turns.take({key: FakeWorker(key, []) for key in 'abcd'}, 1, 1, batches=3, seconds=0, seed=seed).orders

        self.assertEqual(orders(1), orders(1))
        self.assertNotEqual(orders(1), orders(2))

    def test_a_column_that_fails_on_the_way_ends_and_the_others_go_on(self) -> None:
        diary: list[str] = []
        workers = {'a': FakeWorker('a', diary), 'b': FakeWorker('b', diary, last_turn=2)}
        taken = turns.take(workers, 1, 1, batches=1, seconds=0, seed=0)
        self.assertEqual(taken.failures, {'b': 'it fell over'})
        self.assertEqual(set(taken.medians), {'a'})
        self.assertEqual(len(taken.medians['a']), len(taken.orders))


class Measures(unittest.TestCase):
    def test_the_worst_output_counts(self) -> None:
        good, bad = torch.ones(1, 4), torch.full((1, 4), 10.0)
        self.assertAlmostEqual(measures.sqnr([[good, bad]], [[good * 1.001, bad * 1.1]]), 20, places=3)

    def test_embeddings_are_no_scores(self) -> None:
        scores = torch.tensor([[1.0, 3.0], [2.0, 0.5]])
        self.assertEqual(measures.agreement([[scores]], [[scores.flip(1)]]), 0)
        self.assertIsNone(measures.agreement([[nn.functional.normalize(scores)]], [[scores]]))

    def test_a_ratio_is_of_the_same_round(self) -> None:
        found = measures.ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], seed=0)
        self.assertEqual((found.ratio, found.low, found.high), (2, 2, 2))

    def test_outputs_of_another_shape_are_refused(self) -> None:
        with self.assertRaises(measures.Different):
            measures.check([[torch.zeros(2)]], [[torch.zeros(3)]])


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--tsq', default=str(options.REPOSITORY / 'build/release/bin/tsq'),
                        help='the program to test with (default: build/release/bin/tsq)')
    chosen, others = parser.parse_known_args()
    TSQ = chosen.tsq
    unittest.main(argv=[sys.argv[0], *others])
