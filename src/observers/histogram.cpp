#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include "config/observer_classes.h"
#include "observers/histogram_search.h"
#include "observers/histogram_state.h"
#include "observers/observer_class.h"
#include "observers/observer_kind.h"
#include "observers/uniform_qparams.h"

namespace tsq {
namespace {

/// HistogramObserver.forward (M-12, M-13). Kept from PyTorch: every operation that rounds, in its order.
/// Different without a change of bits: the old histogram is divided before it is repeated, buckets are
/// clamped instead of assigned by mask. Infinite values are dropped without PyTorch's warning;
/// `tensors_with_infinity` counts them. What is neither float32 nor float64 counts as float32: torch.histc
/// has no kernel for integers, and in half precision it loses counts above 2048 and writes outside its
/// buffer.
constexpr const char* kHistogramSource = R"(
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
    if x.dtype != self.min_val.dtype and x.dtype != {float64}:
        x = x.to(self.min_val.dtype)
    x_min, x_max = torch.aminmax(x)
    if bool(x_min == float("-inf")) or bool(x_max == float("inf")):
        self.tensors_with_infinity = self.tensors_with_infinity + 1
        x = torch.masked_select(x, x.abs() != float("inf"))
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

/// TorchScript source that is compiled from C++ knows dtypes by number only.
std::string source() {
  return fmt::format(kHistogramSource, fmt::arg("float64", static_cast<int>(c10::ScalarType::Double)));
}

bool is_counted_as_it_is(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::Float || dtype == c10::ScalarType::Double;
}

constexpr int64_t kUpsampleRate = 16;

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

torch::jit::Module make_histogram(const ResolvedObserver& config) {
  static const ObserverClass observer_class = histogram_class(observer_classes::kHistogram);
  return make_histogram(observer_class, config);
}

QParams qparams_of(const UniformConfig& config, const HistogramView& view, int64_t dst_bins) {
  const ClippedRange range = search_range(view, dst_bins);
  return qparams_of_range(config, at::scalar_tensor(range.min_val, at::kFloat),
                          at::scalar_tensor(range.max_val, at::kFloat));
}

QParams calculate_histogram(const torch::jit::Module& observer) {
  const UniformConfig config = uniform_config(observer);
  if (!saw_range(observer)) {
    return qparams_of_range(config, minimum_of_nothing(), maximum_of_nothing());
  }
  return qparams_of(config, view_of(observer), observer.attr("dst_nbins").toInt());
}

QParams observe_histogram(const ResolvedObserver& config, const at::Tensor& tensor) {
  const UniformConfig uniform = uniform_config(config);
  const auto view = histogram_of(tensor, config.bins);
  if (!view) return qparams_of_range(uniform, minimum_of_nothing(), maximum_of_nothing());
  return qparams_of(uniform, *view, levels_of(config.dtype));
}

/// _upscale_histogram of forward's source, for merges.
at::Tensor upscale(const HistogramView& view, float new_min, float new_max) {
  const int64_t bins = view.histogram.size(0);
  const int64_t fine_bins = bins * kUpsampleRate;
  const at::Tensor weights = at::repeat_interleave(view.histogram / kUpsampleRate, kUpsampleRate);
  const float bin_size = (view.max_val - view.min_val) / static_cast<float>(fine_bins);
  const at::Tensor mid_points =
      at::linspace(view.min_val, view.max_val, fine_bins + 1).slice(0, 0, fine_bins) + 0.5F * bin_size;
  const at::Tensor boundaries = at::linspace(new_min, new_max, bins + 1);
  const at::Tensor buckets =
      at::clamp(at::bucketize(mid_points, boundaries, /*out_int32=*/false, /*right=*/true) - 1, 0, bins - 1);
  return at::bincount(buckets, weights, bins);
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
  return upscale(view, new_min, new_max);
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

ObserverClass histogram_class(std::string_view name, const std::vector<ObserverAttribute>& more) {
  std::vector<ObserverAttribute> attributes{
      integer("bins"),     integer("dst_nbins"), integer("upsample_rate"), integer("tensors_with_infinity"),
      buffer("histogram"), buffer("min_val"),    buffer("max_val")};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return {name, uniform_attributes(std::move(attributes)), source()};
}

torch::jit::Module make_histogram(const ObserverClass& observer_class, const ResolvedObserver& config,
                                  const ObserverValues& more) {
  ObserverValues state{{"bins", config.bins},
                       {"dst_nbins", levels_of(config.dtype)},
                       {"upsample_rate", kUpsampleRate},
                       {"tensors_with_infinity", int64_t{0}},
                       {"histogram", at::zeros({config.bins})},
                       {"min_val", minimum_of_nothing()},
                       {"max_val", maximum_of_nothing()}};
  state.insert(state.end(), more.begin(), more.end());
  return observer_class.instance(uniform_values(uniform_config(config), std::move(state)), config.is_dynamic);
}

HistogramView view_of(const torch::jit::Module& observer) {
  return {observer.attr("histogram").toTensor(), scalar_state(observer, "min_val"),
          scalar_state(observer, "max_val")};
}

std::optional<HistogramView> histogram_of(const at::Tensor& tensor, int64_t bins) {
  const c10::NoGradGuard no_grad;
  at::Tensor x = is_counted_as_it_is(tensor.scalar_type()) ? tensor : tensor.to(at::kFloat);
  if (x.numel() != 0 && x.isinf().any().item<bool>()) {
    x = x.masked_select(x.isinf().logical_not());
  }
  if (x.numel() == 0) return std::nullopt;
  const auto [min_val, max_val] = at::aminmax(x);
  const at::Tensor histogram = at::histc(x, bins, min_val.item(), max_val.item());
  return HistogramView{histogram.to(at::kFloat), min_val.item<float>(), max_val.item<float>()};
}

/// Each histogram is brought to the union of both ranges by the rule for a batch that widens the range
/// (M-13), then they are added.
void merge_histograms(torch::jit::Module& into, const torch::jit::Module& from) {
  const c10::NoGradGuard no_grad;
  into.setattr("tensors_with_infinity",
               into.attr("tensors_with_infinity").toInt() + from.attr("tensors_with_infinity").toInt());
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

const ObserverKind histogram_observer{observer_classes::kHistogram,
                                      make_histogram,
                                      calculate_histogram,
                                      observe_histogram,
                                      saw_range,
                                      merge_histograms};

}  // namespace tsq
