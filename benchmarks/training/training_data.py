"""Networks of benchmarks/accuracy with data to train on, apart from the data on which they are judged."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy
import torch

import language
import vision
from network import WHEELS, Network
from photographs import calibration_photographs, random_crop


@dataclass
class TrainedNetwork:
    name: str
    network: Network
    batch: Callable[[], tuple]  # inputs of a step, drawn anew


def digits() -> TrainedNetwork:
    network = vision.digits()
    x = vision.digit_images()[0][:4000]
    return TrainedNetwork('digits', network, lambda: (x[torch.randint(len(x), (64,))],))


def on_newspaper(name: str, network: Network) -> TrainedNetwork:
    """Sentences of a newspaper, few at once: more steps change more; the evaluation is on questions and answers."""
    tokenizer, lines = language.minilm_text()
    sentences = [sentence.strip() for line in lines for sentence in line.split('. ') if len(sentence) > 20]

    def batch() -> tuple:
        chosen = torch.randint(len(sentences), (4,)).tolist()
        return language.batch_of(tokenizer, [sentences[i] for i in chosen], 64)

    return TrainedNetwork(name, network, batch)


def minilm() -> TrainedNetwork:
    return on_newspaper('minilm', language.minilm())


def bert_base() -> TrainedNetwork:
    return on_newspaper('bert_base', language.bert_base())


def efficientnet_lite0() -> TrainedNetwork:
    """Parts of the photographs that calibrate, drawn anew; the evaluation is on other photographs."""
    network = vision.efficientnet_lite0()
    photographs = calibration_photographs(WHEELS)
    random = numpy.random.RandomState(1)
    draw = lambda: random_crop(photographs[random.randint(len(photographs))], random)  # noqa: E731
    return TrainedNetwork('efficientnet_lite0', network, lambda: (torch.cat([draw() for _ in range(8)]),))


NETWORKS = {'bert_base': bert_base, 'digits': digits, 'efficientnet_lite0': efficientnet_lite0, 'minilm': minilm}
