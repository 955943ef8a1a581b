#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/observer.h>
#include <tsq/qconfig.h>

#include <functional>
#include <memory>
#include <optional>

#include "observers/compiled_observer.h"
#include "observers/histogram_search.h"
#include "observers/observer_class.h"

namespace tsq {

/// HistogramObserver.forward (M-12, M-13). Kept from PyTorch: every operation that rounds, in its order.
/// Different without a change of bits: the old histogram is divided before it is repeated, buckets are
/// clamped instead of assigned by mask. Infinite values are dropped without PyTorch's warning, and so is NaN,
/// of which torch.histc has no histogram. What is neither float32 nor float64, dtype 7, counts as float32:
/// torch.histc has no kernel for integers, and in half precision it loses counts above 2048 and writes
/// outside its buffer.
inline constexpr const char* kHistogramSource = R"(
def _upscale_histogram(self, histogram: Tensor, orig_min: Tensor, orig_max: Tensor, update_min: Tensor,
                       update_max: Tensor) -> Tensor:
    fine_bins = self.bins * self.upsample_rate
    weights = torch.repeat_interleave(histogram / self.upsample_rate, self.upsample_rate)
    bin_size = (orig_max - orig_min) / fine_bins
    mid_points = torch.linspace(orig_min, orig_max, fine_bins + 1)[:-1] + 0.5 * bin_size
    boundaries = torch.linspace(update_min, update_max, self.bins + 1)
    buckets = torch.clamp(torch.bucketize(mid_points, boundaries, right=True) - 1, 0, self.bins - 1)
    return torch.bincount(buckets, weights, self.bins)

def _combine_histograms(self, update_hist: Tensor, update_min: Tensor, update_max: Tensor) -> Tensor:
    orig_hist = self.histogram
    orig_min = self.min_val
    orig_max = self.max_val
    if bool(orig_min == orig_max):
        bin_value = torch.sum(orig_hist)
        return torch.histc(orig_min, self.bins, min=update_min, max=update_max) * bin_value + update_hist
    return update_hist + self._upscale_histogram(orig_hist, orig_min, orig_max, update_min, update_max)

def observe(self, x_orig: Tensor) -> Tensor:
    if x_orig.numel() == 0:
        return x_orig
    x = x_orig.detach()
    if x.dtype != self.min_val.dtype and x.dtype != 7:
        x = x.to(self.min_val.dtype)
    x_min, x_max = torch.aminmax(x)
    if not bool(x_max - x_min < float("inf")):
        x = torch.masked_select(x, self._finite(x))
        if x.numel() == 0:
            return x_orig
        x_min, x_max = torch.aminmax(x)
    current_min = self.min_val
    current_max = self.max_val
    if bool(current_min == float("inf")) or bool(current_max == float("-inf")):
        self.histogram.copy_(torch.histc(x, self.bins, min=x_min, max=x_max))
        self.min_val.copy_(x_min)
        self.max_val.copy_(x_max)
        return x_orig
    new_min = torch.min(current_min, x_min)
    new_max = torch.max(current_max, x_max)
    update_histogram = torch.histc(x, self.bins, min=new_min, max=new_max)
    if bool(new_min == current_min) and bool(new_max == current_max):
        self.histogram.copy_(self.histogram + update_histogram)
    else:
        self.histogram.copy_(self._combine_histograms(update_histogram, new_min, new_max))
        self.min_val.copy_(new_min)
        self.max_val.copy_(new_max)
    return x_orig
)";

/// The attributes of an observer that counts so, under whatever name. What range it chooses is the observer's
/// own affair. `more` are attributes of its own.
ObserverState histogram_state(const ResolvedObserver& config, const ObserverState& more);
ObserverState plain_histogram_state(const ResolvedObserver& config);

/// What such an observer has counted.
HistogramView view_of(const torch::jit::Module& observer);
/// What forward counts of the first tensor; empty for one without finite values.
std::optional<HistogramView> histogram_of(const at::Tensor& tensor, int64_t bins);
/// Such an observer's compiled form; null for one of other buffers.
std::unique_ptr<CompiledObserver> compiled_counts(const torch::jit::Module& observer);
void merge_histograms(torch::jit::Module& into, const torch::jit::Module& from);

/// Which part of what was counted `levels` codes are to cover.
using RangeChoice = std::function<ClippedRange(const HistogramView& view, int64_t levels)>;
/// The qparams of the range that `choose` takes of an observer's counts, and of a single tensor's.
QParams qparams_of_counts(const torch::jit::Module& observer, const RangeChoice& choose);
QParams qparams_of_tensor(const ResolvedObserver& config, const at::Tensor& tensor,
                          const RangeChoice& choose);

}  // namespace tsq
