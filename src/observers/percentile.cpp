#include <ATen/ATen.h>

#include "config/names/observer_classes.h"
#include "observers/histogram_ranges.h"
#include "observers/histogram_state.h"
#include "observers/observer_kind.h"
#include "observers/uniform_qparams.h"

namespace tsq {
namespace {

RangeChoice range_of(double percentile) {
  return [percentile](const HistogramView& view, int64_t) { return percentile_range(view, percentile); };
}

ObserverState percentile_state(const ResolvedObserver& config) {
  return histogram_state(config, {{"percentile", config.percentile}});
}

QParams calculate_percentile(const torch::jit::Module& observer) {
  return qparams_of_counts(observer, range_of(observer.attr("percentile").toDouble()));
}

QParams observe_percentile(const ResolvedObserver& config, const at::Tensor& tensor) {
  return qparams_of_tensor(config, tensor, range_of(config.percentile));
}

}  // namespace

Bins bins_of(const HistogramView& view) {
  const at::Tensor counts = view.histogram.to(at::kDouble).contiguous();
  const double* first = counts.const_data_ptr<double>();
  return {.counts = {first, first + counts.numel()},
          .width = (static_cast<double>(view.max_val) - view.min_val) / static_cast<double>(counts.numel())};
}

ClippedRange percentile_range(const HistogramView& view, double percentile) {
  const Bins bins = bins_of(view);
  double total = 0;
  for (const double count : bins.counts) total += count;
  const double tail = total * (1 - percentile / 100);
  std::size_t first = 0;
  std::size_t end = bins.counts.size();
  double below = bins.counts[first];
  while (below <= tail && first + 1 < end) below += bins.counts[++first];
  double above = bins.counts[end - 1];
  while (above <= tail && end > first + 1) above += bins.counts[--end - 1];
  return {static_cast<float>(view.min_val + bins.width * static_cast<double>(first)),
          static_cast<float>(view.min_val + bins.width * static_cast<double>(end))};
}

/// tsq's own: what HistogramObserver counts, without the last 100 - percentile percent of either side.
const ObserverKind percentile_observer{.name = observer_classes::kPercentile,
                                       .source = kHistogramSource,
                                       .state = percentile_state,
                                       .calculate_qparams = calculate_percentile,
                                       .observe_once = observe_percentile,
                                       .compiled = compiled_counts,
                                       .saw_data = saw_range,
                                       .merge = merge_histograms};

}  // namespace tsq
