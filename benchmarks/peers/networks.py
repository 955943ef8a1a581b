"""The networks of the benchmark, with their data. Published weights and data come out of Python packages, as for benchmarks/accuracy."""
# No `from __future__ import annotations` here: the text of types would go into the modules that FX writes, and be no type there.
import io
import sys

import numpy
import torch
from torch import Tensor, nn

from case import Case
from options import REPOSITORY
from samples import Sample

for folder in ('scripts', 'benchmarks/accuracy', 'benchmarks/tool_time'):
    sys.path.insert(0, str(REPOSITORY / folder))

import compare_with_nncf  # noqa: E402, F401  declares the operators without which torchvision cannot be imported
import language  # noqa: E402
import speech  # noqa: E402
from export_efficientnet_lite0 import pretrained  # noqa: E402
from network import WHEELS, Network  # noqa: E402
from photographs import calibration_set, evaluation_set, labelled_photographs  # noqa: E402

DRAWN = 'weights drawn, real data'
PUBLISHED = 'published weights, real data'
CALIBRATION_SECONDS = 10  # of the recording for the LSTM; the rest is for the test


def photographs_for(network: nn.Module, name: str, note: str) -> Case:
    test = evaluation_set(labelled_photographs(WHEELS))
    return Case(name, note, torch.jit.script(network), calibration_set(WHEELS), test, network, __name__)


def drawn_vision(name: str, title: str) -> Case:
    """A network of torchvision whose batch norms have seen the calibration data, so that values keep their size from layer to layer."""
    import torchvision

    torch.manual_seed(0)
    network = getattr(torchvision.models, name)(weights=None)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.2)
    network.train()
    with torch.no_grad():
        for sample in calibration_set(WHEELS):
            network(*sample)
    return photographs_for(network.eval(), title, DRAWN)


def mobilenet_v2() -> Case:
    return drawn_vision('mobilenet_v2', 'MobileNetV2')


def resnet50() -> Case:
    return drawn_vision('resnet50', 'ResNet-50')


def efficientnet_lite0() -> Case:
    return photographs_for(pretrained(WHEELS), 'EfficientNet-Lite0', PUBLISHED)


def evaluated_on(network: Network) -> list[Sample]:
    """The samples on which benchmarks/accuracy evaluates a network."""
    seen: list[Sample] = []

    def recorded(*arguments: Tensor) -> Tensor:
        seen.append(arguments)
        return network.module(*arguments)

    network.evaluate(recorded)
    return seen


def minilm() -> Case:
    network = language.minilm()
    return Case('MiniLM-L6', PUBLISHED, network.scripted(), network.calibration, evaluated_on(network), network.module, __name__)


def bert_base() -> Case:
    network = language.bert_base()
    return Case('BERT-base', DRAWN, network.scripted(), network.calibration, evaluated_on(network), network.module, __name__)


class VoiceEncoder(nn.Module):
    """Resemblyzer: a mel spectrogram [batch, 160, 40] → a vector of length 1 that tells voices apart."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.linear, self.relu = nn.LSTM(40, 256, 3, batch_first=True), nn.Linear(256, 256), nn.ReLU()

    def forward(self, mels: Tensor) -> Tensor:
        _, (hidden, _) = self.lstm(mels)
        voice = self.relu(self.linear(hidden[-1]))
        return voice / torch.norm(voice, dim=1, keepdim=True)


def mel_filters(bins: int = 201, mels: int = 40) -> Tensor:
    """Slaney's triangles of equal area up to half the rate, which librosa has by default: [mels, bins]."""
    def hertz(mel: numpy.ndarray) -> numpy.ndarray:
        return numpy.where(mel < 15, mel * 200 / 3, 1000 * 6.4 ** ((mel - 15) / 27))

    highest = 15 + 27 * numpy.log(speech.RATE / 2 / 1000) / numpy.log(6.4)
    corners = hertz(numpy.linspace(0, highest, mels + 2))
    bin_frequencies = numpy.linspace(0, speech.RATE / 2, bins)
    rising = (bin_frequencies - corners[:-2, None]) / (corners[1:-1] - corners[:-2])[:, None]
    falling = (corners[2:, None] - bin_frequencies) / (corners[2:] - corners[1:-1])[:, None]
    triangles = numpy.maximum(0, numpy.minimum(rising, falling))
    return torch.from_numpy((triangles * 2 / (corners[2:] - corners[:-2])[:, None]).astype(numpy.float32))


def mel_windows(sound: Tensor) -> list[Sample]:
    """Windows of 1.6 s, a quarter of that apart, of a sound that is brought to Resemblyzer's loudness of -30 dB."""
    sound = sound * (10 ** (-30 / 20) / sound.square().mean().sqrt())
    power = torch.stft(sound, 400, 160, window=torch.hann_window(400), pad_mode='constant', return_complex=True).abs().square()
    return [(window.t().unsqueeze(0).contiguous(),) for window in (mel_filters() @ power).unfold(1, 160, 40).unbind(1)]


def lstm() -> Case:
    network = VoiceEncoder()
    with WHEELS.open('Resemblyzer', '0.1.4') as wheel:
        state = torch.load(io.BytesIO(wheel.read('resemblyzer/pretrained.pt')), map_location='cpu', weights_only=True)['model_state']
    network.load_state_dict({name: value for name, value in state.items() if name in network.state_dict()})
    sound, _ = speech.recording()
    border = CALIBRATION_SECONDS * speech.RATE
    calibration, test = mel_windows(sound[:border]), mel_windows(sound[border:])
    return Case('LSTM (Resemblyzer)', PUBLISHED, torch.jit.script(network.eval()), calibration, test, network, __name__)


MAKERS = {maker.__name__: maker for maker in (mobilenet_v2, efficientnet_lite0, resnet50, minilm, bert_base, lstm)}
