#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/observer.h>
#include <tsq/qconfig.h>

#include <functional>
#include <optional>
#include <string_view>

#include "observers/histogram_search.h"
#include "observers/observer_class.h"

namespace tsq {

/// The class of an observer that counts as PyTorch's HistogramObserver does, under a name of its own. What
/// range it chooses is the observer's own affair. `more` are attributes of its own.
ObserverClass histogram_class(std::string_view name, const std::vector<ObserverAttribute>& more = {});
torch::jit::Module make_histogram(const ObserverClass& observer_class, const ResolvedObserver& config,
                                  const ObserverValues& more = {});

/// What such an observer has counted.
HistogramView view_of(const torch::jit::Module& observer);
/// What forward counts of the first tensor; empty for one without finite values.
std::optional<HistogramView> histogram_of(const at::Tensor& tensor, int64_t bins);
void merge_histograms(torch::jit::Module& into, const torch::jit::Module& from);

/// Which part of what was counted `levels` codes are to cover.
using RangeChoice = std::function<ClippedRange(const HistogramView& view, int64_t levels)>;
/// The qparams of the range that `choose` takes of an observer's counts, and of a single tensor's.
QParams qparams_of_counts(const torch::jit::Module& observer, const RangeChoice& choose);
QParams qparams_of_tensor(const ResolvedObserver& config, const at::Tensor& tensor,
                          const RangeChoice& choose);

}  // namespace tsq
