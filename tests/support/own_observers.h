#pragma once

namespace tsq::testing {

/// Observers of a program's own that find what PyTorch's MinMaxObserver and, with a symmetric scheme,
/// PerChannelMinMaxObserver find.
inline constexpr const char* kOwnMinMax = R"(class OwnMinMax(Module):
  smallest : Tensor
  largest : Tensor
  quant_min : int
  quant_max : int
  eps : Tensor
  def forward(self, x: Tensor) -> Tensor:
    smallest, largest = torch.aminmax(x)
    if torch.numel(self.smallest) == 0:
      self.smallest = smallest
      self.largest = largest
    else:
      self.smallest = torch.min(smallest, self.smallest)
      self.largest = torch.max(largest, self.largest)
    return x
  def calculate_qparams(self) -> Tuple[Tensor, Tensor]:
    smallest = torch.min(self.smallest, torch.zeros_like(self.smallest))
    largest = torch.max(self.largest, torch.zeros_like(self.largest))
    scale = torch.max((largest - smallest) / float(self.quant_max - self.quant_min), self.eps)
    zero_point = self.quant_min - torch.to(torch.round(smallest / scale), 3)
    return scale, torch.clamp(zero_point, self.quant_min, self.quant_max)
)";

inline constexpr const char* kOwnChannels = R"(class OwnChannels(Module):
  seen : Tensor
  ch_axis : int
  quant_min : int
  quant_max : int
  def forward(self, x: Tensor) -> Tensor:
    self.seen = x
    return x
  def calculate_qparams(self) -> Tuple[Tensor, Tensor]:
    rows = torch.flatten(torch.transpose(self.seen, 0, self.ch_axis), 1)
    scale = torch.amax(torch.abs(rows), [1]) / (float(self.quant_max - self.quant_min) / 2)
    return scale, torch.zeros_like(scale)
)";

}  // namespace tsq::testing
