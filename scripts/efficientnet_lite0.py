"""EfficientNet-Lite0 as a plain torch.nn module, under the parameter names of its ImageNet checkpoint.

No squeeze-and-excite and no swish: relu6 throughout, depthwise convolutions of 3x3 and 5x5, and TensorFlow's
"SAME" padding, which at stride 2 is one pixel wider at the right and at the bottom.
"""
import torch
from torch import Tensor, nn

INPUT_SIZE = 224
# outputs, kernel, stride, expansion, blocks
STAGES = [(16, 3, 1, 1, 1), (24, 3, 2, 6, 2), (40, 5, 2, 6, 2), (80, 3, 2, 6, 3), (112, 5, 1, 6, 3), (192, 5, 2, 6, 4), (320, 3, 1, 6, 1)]


def same_padding(size: int, kernel: int, stride: int) -> tuple[nn.Module, int]:
    """The padding of one convolution: a module that pads unevenly, or how much the convolution itself pads."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    before, after = total // 2, total - total // 2
    if before == after:
        return nn.Identity(), before
    return nn.ZeroPad2d((before, after, before, after)), 0


def batch_norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class Block(nn.Module):
    """Inverted residual: widen with 1x1, filter each channel, narrow with 1x1, add the input where shapes agree."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int, size: int):
        super().__init__()
        wide = inputs * expansion
        self._expand_conv, self._bn0, self._relu0 = nn.Identity(), nn.Identity(), nn.Identity()
        if expansion != 1:
            self._expand_conv, self._bn0, self._relu0 = nn.Conv2d(inputs, wide, 1, bias=False), batch_norm(wide), nn.ReLU6()
        self._pad, padding = same_padding(size, kernel, stride)
        self._depthwise_conv = nn.Conv2d(wide, wide, kernel, stride, padding, groups=wide, bias=False)
        self._bn1, self._relu1 = batch_norm(wide), nn.ReLU6()
        self._project_conv, self._bn2 = nn.Conv2d(wide, outputs, 1, bias=False), batch_norm(outputs)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self._relu0(self._bn0(self._expand_conv(x)))
        y = self._relu1(self._bn1(self._depthwise_conv(self._pad(y))))
        y = self._bn2(self._project_conv(y))
        return y + x if self.residual else y


class EfficientNetLite0(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        size, inputs = INPUT_SIZE, 32
        self._pad, padding = same_padding(size, 3, 2)
        self._conv_stem, self._bn0, self._relu0 = nn.Conv2d(3, inputs, 3, 2, padding, bias=False), batch_norm(inputs), nn.ReLU6()
        size //= 2
        self._blocks = nn.Sequential()
        for outputs, kernel, first_stride, expansion, blocks in STAGES:
            for stride in [first_stride] + [1] * (blocks - 1):
                self._blocks.append(Block(inputs, outputs, kernel, stride, expansion, size))
                size, inputs = size // stride, outputs
        self._conv_head, self._bn1, self._relu1 = nn.Conv2d(inputs, 1280, 1, bias=False), batch_norm(1280), nn.ReLU6()
        self._pool, self._dropout, self._fc = nn.AdaptiveAvgPool2d(1), nn.Dropout(0.2), nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self._relu0(self._bn0(self._conv_stem(self._pad(x))))
        x = self._relu1(self._bn1(self._conv_head(self._blocks(x))))
        return self._fc(self._dropout(torch.flatten(self._pool(x), 1)))
