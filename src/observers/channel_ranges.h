#pragma once

namespace tsq {

/// What observers of each channel's smallest and largest value share (M-11). A tensor of one dimension or
/// none, where PyTorch's flatten fails, has a channel for each value. A channel without a finite value has
/// its minimum above its maximum. The state starts empty and takes the number of channels from the first
/// tensor; it is replaced, because the memory of a tensor out of a file cannot grow.
inline constexpr const char* kChannelRangesSource = R"(
def _ranges(self, x_orig: Tensor) -> Tuple[Tensor, Tensor]:
    rows = x_orig.detach().transpose(0, self.ch_axis).to(self.min_val.dtype)
    if rows.dim() < 2:
        rows = rows.reshape([-1, 1])
    else:
        rows = torch.flatten(rows, 1)
    min_val, max_val = torch.aminmax(rows, dim=1)
    if not bool(torch.isfinite(max_val - min_val).all()):
        others = torch.logical_not(self._finite(rows))
        min_val = torch.amin(rows.masked_fill(others, float("inf")), 1)
        max_val = torch.amax(rows.masked_fill(others, -float("inf")), 1)
    return min_val, max_val

def _update(self, min_val: Tensor, max_val: Tensor):
    self.min_val = min_val
    self.max_val = max_val
)";

}  // namespace tsq
