"""Whole networks: equal in structure to torchvision's ResNets and MobileNetV2, and an EfficientNet-Lite0-like one.

Weights are random; batch norm statistics come from train-mode passes over random data, so that activations keep a
realistic size through the depth.
"""

from typing import List, Optional

import torch
from torch import Tensor, nn

from case import add_case, normal


def conv3x3(channels_in: int, channels: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)


def conv1x1(channels_in: int, channels: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels, 1, stride, bias=False)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, channels_in: int, channels: int, stride: int = 1, downsample: Optional[nn.Module] = None):
        super().__init__()
        self.conv1 = conv3x3(channels_in, channels, stride)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(channels, channels)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        out = self.relu(out)
        return out


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, channels_in: int, channels: int, stride: int = 1, downsample: Optional[nn.Module] = None):
        super().__init__()
        self.conv1 = conv1x1(channels_in, channels)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = conv3x3(channels, channels, stride)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = conv1x1(channels, channels * self.expansion)
        self.bn3 = nn.BatchNorm2d(channels * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        out = self.relu(out)
        out = self.conv3(out)
        out = self.bn3(out)
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        out = self.relu(out)
        return out


class ResNet(nn.Module):
    def __init__(self, block, layers: List[int], classes: int = 1000):
        super().__init__()
        self.inplanes = 64
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], stride=2)
        self.layer3 = self._make_layer(block, 256, layers[2], stride=2)
        self.layer4 = self._make_layer(block, 512, layers[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, classes)

    def _make_layer(self, block, channels: int, blocks: int, stride: int = 1) -> nn.Sequential:
        downsample = None
        if stride != 1 or self.inplanes != channels * block.expansion:
            downsample = nn.Sequential(
                conv1x1(self.inplanes, channels * block.expansion, stride), nn.BatchNorm2d(channels * block.expansion)
            )
        layers = [block(self.inplanes, channels, stride, downsample)]
        self.inplanes = channels * block.expansion
        for _ in range(1, blocks):
            layers.append(block(self.inplanes, channels))
        return nn.Sequential(*layers)

    def _forward_impl(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        x = self.bn1(x)
        x = self.relu(x)
        x = self.maxpool(x)
        x = self.layer1(x)
        x = self.layer2(x)
        x = self.layer3(x)
        x = self.layer4(x)
        x = self.avgpool(x)
        x = torch.flatten(x, 1)
        x = self.fc(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


def resnet18(classes: int = 1000) -> ResNet:
    return ResNet(BasicBlock, [2, 2, 2, 2], classes)


def resnet50(classes: int = 1000) -> ResNet:
    return ResNet(Bottleneck, [3, 4, 6, 3], classes)


class ConvNormActivation(nn.Sequential):
    def __init__(self, channels_in: int, channels: int, kernel: int = 3, stride: int = 1, groups: int = 1):
        super().__init__(
            nn.Conv2d(channels_in, channels, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU6(inplace=True),
        )


class InvertedResidual(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int, expand_ratio: int):
        super().__init__()
        self.stride = stride
        hidden = int(round(channels_in * expand_ratio))
        self.use_res_connect = self.stride == 1 and channels_in == channels
        layers: List[nn.Module] = []
        if expand_ratio != 1:
            layers.append(ConvNormActivation(channels_in, hidden, kernel=1))
        layers.extend(
            [
                ConvNormActivation(hidden, hidden, stride=stride, groups=hidden),
                nn.Conv2d(hidden, channels, 1, 1, 0, bias=False),
                nn.BatchNorm2d(channels),
            ]
        )
        self.conv = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        if self.use_res_connect:
            return x + self.conv(x)
        else:
            return self.conv(x)


class MobileNetV2(nn.Module):
    SETTINGS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]

    def __init__(self, classes: int = 1000):
        super().__init__()
        channels_in = 32
        features: List[nn.Module] = [ConvNormActivation(3, channels_in, stride=2)]
        for expand, channels, repeats, stride in self.SETTINGS:
            for index in range(repeats):
                features.append(InvertedResidual(channels_in, channels, stride if index == 0 else 1, expand))
                channels_in = channels
        features.append(ConvNormActivation(channels_in, 1280, kernel=1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(p=0.2), nn.Linear(1280, classes))

    def _forward_impl(self, x: Tensor) -> Tensor:
        x = self.features(x)
        x = nn.functional.adaptive_avg_pool2d(x, (1, 1))
        x = torch.flatten(x, 1)
        x = self.classifier(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


class SamePadConv(nn.Module):
    """TensorFlow's 'SAME' padding for a known input size: an asymmetric zero pad where one is needed."""

    def __init__(self, channels_in: int, channels: int, kernel: int, stride: int, size: int, groups: int = 1):
        super().__init__()
        out = -(-size // stride)
        pad = max((out - 1) * stride + kernel - size, 0)
        low = pad // 2
        if pad != 2 * low:
            self.pad: nn.Module = nn.ZeroPad2d((low, pad - low, low, pad - low))
            low = 0
        else:
            self.pad = nn.Identity()
        self.conv = nn.Conv2d(channels_in, channels, kernel, stride, padding=low, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.pad(x))


def pad_conv_norm(channels_in: int, channels: int, kernel: int, stride: int, size: int, groups: int = 1) -> List[nn.Module]:
    return [SamePadConv(channels_in, channels, kernel, stride, size, groups), nn.BatchNorm2d(channels, eps=1e-3)]


class LiteBlock(nn.Module):
    def __init__(self, channels_in: int, channels: int, kernel: int, stride: int, expand: int, size: int):
        super().__init__()
        hidden = channels_in * expand
        self.expand = (
            nn.Sequential(*pad_conv_norm(channels_in, hidden, 1, 1, size), nn.ReLU6()) if expand != 1 else nn.Identity()
        )
        self.depthwise = nn.Sequential(*pad_conv_norm(hidden, hidden, kernel, stride, size, hidden), nn.ReLU6())
        self.project = nn.Sequential(*pad_conv_norm(hidden, channels, 1, 1, -(-size // stride)))
        self.skip = stride == 1 and channels_in == channels

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.depthwise(self.expand(x)))
        if self.skip:
            y = y + x
        return y


class EfficientNetLite(nn.Module):
    # repeats, kernel, stride, expand, channels
    BLOCKS = [(1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192), (1, 3, 1, 6, 320)]

    def __init__(self, size: int = 224, classes: int = 1000):
        super().__init__()
        self.stem = nn.Sequential(*pad_conv_norm(3, 32, 3, 2, size), nn.ReLU6())
        size = -(-size // 2)
        blocks: List[nn.Module] = []
        channels_in = 32
        for repeats, kernel, stride, expand, channels in self.BLOCKS:
            for index in range(repeats):
                step = stride if index == 0 else 1
                blocks.append(LiteBlock(channels_in, channels, kernel, step, expand, size))
                size = -(-size // step)
                channels_in = channels
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(*pad_conv_norm(channels_in, 1280, 1, 1, size), nn.ReLU6())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(1280, classes)

    def features(self, x: Tensor) -> Tensor:
        return self.pool(self.head(self.blocks(self.stem(x))))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.dropout(torch.flatten(self.features(x), 1)))


class EfficientNetLiteFlattenMethod(EfficientNetLite):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.dropout(self.features(x).flatten(1)))


class EfficientNetLiteFlattenModule(EfficientNetLite):
    def __init__(self, size: int = 224, classes: int = 1000):
        super().__init__(size, classes)
        self.flatten = nn.Flatten()

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.dropout(self.flatten(self.features(x))))


QNNPACK_CLAMP = {"qnnpack": "section 6: qnnpack's clamp, hardtanh and relu6 are wrong on channels-last tensors"}
FLATTEN = "2.8: aten::flatten has one spelling in TorchScript; torch.flatten's row serves the method and nn.Flatten"

add_case("resnet18", lambda: resnet18(100), normal(2, 3, 64, 64), settle=3)
add_case("resnet50", lambda: resnet50(100), normal(2, 3, 64, 64), settle=3)
add_case("resnet50_224", resnet50, normal(2, 3, 224, 224), settle=2)
add_case("mobilenet_v2", lambda: MobileNetV2(100), normal(2, 3, 64, 64), settle=3, lowered_difference=QNNPACK_CLAMP)
add_case("mobilenet_v2_default_qconfig_of_the_command", lambda: MobileNetV2(10), normal(2, 3, 64, 64), settle=3, pass_qconfig=False, lowered_difference=QNNPACK_CLAMP)
add_case("efficientnet_lite", lambda: EfficientNetLite(64, 100), normal(2, 3, 64, 64), settle=3, lowered_difference=QNNPACK_CLAMP)
add_case(
    "efficientnet_lite_flatten_method",
    lambda: EfficientNetLiteFlattenMethod(64, 100),
    normal(2, 3, 64, 64),
    settle=3,
    known_difference=FLATTEN,
    lowered_difference=QNNPACK_CLAMP,
    fx_model=lambda: EfficientNetLite(64, 100),
    accept_plain_fx=True,
)
add_case(
    "efficientnet_lite_flatten_module",
    lambda: EfficientNetLiteFlattenModule(64, 100),
    normal(2, 3, 64, 64),
    settle=3,
    known_difference=FLATTEN,
    lowered_difference=QNNPACK_CLAMP,
    fx_model=lambda: EfficientNetLite(64, 100),
    accept_plain_fx=True,
)
