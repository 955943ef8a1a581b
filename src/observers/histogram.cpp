#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <cmath>
#include <limits>
#include <utility>

#include "config/names/observer_classes.h"
#include "observers/histogram_counts.h"
#include "observers/histogram_search.h"
#include "observers/histogram_state.h"
#include "observers/observer_kind.h"
#include "observers/uniform_qparams.h"

namespace tsq {
namespace {

bool is_counted_as_it_is(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::Float || dtype == c10::ScalarType::Double;
}

/// torch.iinfo(dtype).bits to the power of two (M-14): 256 for every 8-bit and for the 4-bit type.
int64_t levels_of(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::QUInt8:
    case c10::ScalarType::QInt8:
    case c10::ScalarType::QUInt4x2:
    case c10::ScalarType::Byte:
    case c10::ScalarType::Char:
      return int64_t{1} << 8;
    case c10::ScalarType::Short:
    case c10::ScalarType::UInt16:
      return int64_t{1} << 16;
    case c10::ScalarType::QInt32:
    case c10::ScalarType::Int:
      return int64_t{1} << 32;
    default:
      throw Error(ErrorCode::BadConfig, fmt::format("HistogramObserver got dtype {}", c10::toString(dtype)),
                  "use an integer type such as quint8 or qint8");
  }
}

QParams calculate_histogram(const torch::jit::Module& observer) {
  return qparams_of_counts(observer, [&](const HistogramView& view, int64_t) {
    return search_range(view, observer.attr("dst_nbins").toInt());
  });
}

QParams observe_histogram(const ResolvedObserver& config, const at::Tensor& tensor) {
  return qparams_of_tensor(config, tensor, [&](const HistogramView& view, int64_t) {
    return search_range(view, levels_of(config.dtype));
  });
}

/// The histogram over [new_min, new_max], which contains its own range.
at::Tensor over_range(const HistogramView& view, float new_min, float new_max) {
  if (view.min_val == new_min && view.max_val == new_max) {
    return view.histogram;
  }
  if (view.min_val == view.max_val) {
    return at::histc(at::full({1}, view.min_val), view.histogram.size(0), new_min, new_max) *
           view.histogram.sum();
  }
  return widened_counts(view.histogram, {.lowest = view.min_val, .highest = view.max_val},
                        {.lowest = new_min, .highest = new_max});
}

void require_equal_bins(const HistogramView& into, const HistogramView& from) {
  if (into.histogram.size(0) != from.histogram.size(0)) {
    throw Error(ErrorCode::BadModel,
                fmt::format("histograms of {} and {} bins cannot be merged", into.histogram.size(0),
                            from.histogram.size(0)),
                "merge observers of the same prepared model");
  }
}

}  // namespace

ObserverState histogram_state(const ResolvedObserver& config, const ObserverState& more) {
  ObserverState state{{"bins", config.bins},
                      {"dst_nbins", levels_of(config.dtype)},
                      {"upsample_rate", kUpsampleRate},
                      {"histogram", at::zeros({config.bins})},
                      {"min_val", minimum_of_nothing()},
                      {"max_val", maximum_of_nothing()}};
  state.insert(state.end(), more.begin(), more.end());
  return uniform_state(uniform_config(config), state);
}

ObserverState plain_histogram_state(const ResolvedObserver& config) { return histogram_state(config, {}); }

HistogramView view_of(const torch::jit::Module& observer) {
  return {observer.attr("histogram").toTensor(), scalar_state(observer, "min_val"),
          scalar_state(observer, "max_val")};
}

std::optional<HistogramView> histogram_of(const at::Tensor& tensor, int64_t bins) {
  const at::Tensor x =
      finite_values(is_counted_as_it_is(tensor.scalar_type()) ? tensor : tensor.to(at::kFloat));
  if (x.numel() == 0) return std::nullopt;
  const auto [min_val, max_val] = at::aminmax(x);
  const at::Tensor histogram = at::histc(x, bins, min_val.item(), max_val.item());
  return HistogramView{histogram.to(at::kFloat), min_val.item<float>(), max_val.item<float>()};
}

namespace {

class CompiledCounts final : public CompiledObserver {
 public:
  CompiledCounts(const torch::jit::Module& observer, RangeBuffers range, at::Tensor histogram)
      : CompiledObserver(observer), range_(std::move(range)), histogram_(std::move(histogram)) {}

 private:
  bool observe_values(const at::Tensor& x) override {
    constexpr int64_t kExactInFloat = int64_t{1} << 24;
    if (x.scalar_type() != at::kFloat || !x.is_cpu() || !x.is_non_overlapping_and_dense() || x.numel() == 0 ||
        x.numel() >= kExactInFloat)
      return false;
    const auto extremes = finite_extremes(x.detach());
    if (!extremes) return false;
    const Extremes before = range_.get();
    const bool is_first = before.lowest == kInfinity && before.highest == -kInfinity;
    const Extremes range = is_first ? *extremes : joined(before, *extremes);
    const bool is_same = !is_first && range.lowest == before.lowest && range.highest == before.highest;
    if (!can_count(range) || (!is_first && !is_same && before.lowest == before.highest)) return false;
    if (is_first) {
      histogram_.zero_();
    } else if (!is_same) {
      histogram_.copy_(widened_counts(histogram_, before, range));
    }
    add_counts(x, range, histogram_);
    if (!is_same) range_.set(range);
    return true;
  }

  [[nodiscard]] bool can_count(const Extremes& range) const {
    return range.highest > range.lowest &&
           std::isfinite((range.highest - range.lowest) * static_cast<float>(histogram_.numel()));
  }

  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  RangeBuffers range_;
  at::Tensor histogram_;
};

}  // namespace

std::unique_ptr<CompiledObserver> compiled_counts(const torch::jit::Module& observer) {
  auto range = RangeBuffers::of(observer);
  at::Tensor histogram = observer.attr("histogram").toTensor();
  const bool can_be_written = range && is_plain_buffer(histogram) && histogram.dim() == 1 &&
                              histogram.numel() != 0 && observer.attr("bins").toInt() == histogram.numel() &&
                              observer.attr("upsample_rate").toInt() == kUpsampleRate;
  return can_be_written ? std::make_unique<CompiledCounts>(observer, *std::move(range), std::move(histogram))
                        : nullptr;
}

/// Each histogram is brought to the union of both ranges by the rule for a batch that widens the range
/// (M-13), then they are added.
void merge_histograms(torch::jit::Module& into, const torch::jit::Module& from) {
  if (!saw_range(from)) {
    return;
  }
  const HistogramView added = view_of(from);
  HistogramView merged = added;
  if (saw_range(into)) {
    const HistogramView before = view_of(into);
    require_equal_bins(before, added);
    merged.min_val = std::min(before.min_val, added.min_val);
    merged.max_val = std::max(before.max_val, added.max_val);
    merged.histogram = over_range(before, merged.min_val, merged.max_val) +
                       over_range(added, merged.min_val, merged.max_val);
  }
  into.attr("histogram").toTensor().copy_(merged.histogram);
  into.attr("min_val").toTensor().fill_(merged.min_val);
  into.attr("max_val").toTensor().fill_(merged.max_val);
}

namespace {

QParams qparams_of_view(const UniformConfig& config, const std::optional<HistogramView>& view,
                        const RangeChoice& choose) {
  if (!view) return qparams_of_range(config, minimum_of_nothing(), maximum_of_nothing());
  const ClippedRange range = choose(*view, config.quant_max - config.quant_min + 1);
  return qparams_of_range(config, at::scalar_tensor(range.min_val, at::kFloat),
                          at::scalar_tensor(range.max_val, at::kFloat));
}

}  // namespace

QParams qparams_of_counts(const torch::jit::Module& observer, const RangeChoice& choose) {
  const auto view = saw_range(observer) ? std::optional(view_of(observer)) : std::nullopt;
  return qparams_of_view(uniform_config(observer), view, choose);
}

QParams qparams_of_tensor(const ResolvedObserver& config, const at::Tensor& tensor,
                          const RangeChoice& choose) {
  return qparams_of_view(uniform_config(config), histogram_of(tensor, config.bins), choose);
}

const ObserverKind histogram_observer{.name = observer_classes::kHistogram,
                                      .source = kHistogramSource,
                                      .state = plain_histogram_state,
                                      .calculate_qparams = calculate_histogram,
                                      .observe_once = observe_histogram,
                                      .compiled = compiled_counts,
                                      .saw_data = saw_range,
                                      .merge = merge_histograms};

}  // namespace tsq
