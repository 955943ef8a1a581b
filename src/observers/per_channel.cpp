#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <limits>

#include "config/names/observer_classes.h"
#include "observers/channel_ranges.h"
#include "observers/observer_kind.h"
#include "observers/row_ranges.h"
#include "observers/uniform_qparams.h"

namespace tsq {
namespace {

/// PerChannelMinMaxObserver._forward, but that what is not finite is left out.
constexpr const char* kChannelMinMaxSource = R"(
def observe(self, x_orig: Tensor) -> Tensor:
    if x_orig.numel() == 0:
        return x_orig
    min_val = self.min_val
    max_val = self.max_val
    min_val_cur, max_val_cur = self._ranges(x_orig)
    if min_val.numel() == 0 or max_val.numel() == 0:
        min_val, max_val = min_val_cur, max_val_cur
    else:
        min_val = torch.min(min_val_cur, min_val)
        max_val = torch.max(max_val_cur, max_val)
    self._update(min_val, max_val)
    return x_orig
)";

/// `batches` is tsq's own: the weight of this observer in a merge. In a fake quantize module the state has
/// its final size from the start: minima above the maxima say that nothing was seen. So they do of a channel
/// without a finite value, which leaves the average as it is.
constexpr const char* kChannelMovingAverageSource = R"(
def _known(self, min_val: Tensor, max_val: Tensor, other_min: Tensor,
           other_max: Tensor) -> Tuple[Tensor, Tensor]:
    is_known = min_val <= max_val
    return torch.where(is_known, min_val, other_min), torch.where(is_known, max_val, other_max)

def observe(self, x_orig: Tensor) -> Tensor:
    if x_orig.numel() == 0:
        return x_orig
    min_val = self.min_val
    max_val = self.max_val
    min_val_cur, max_val_cur = self._ranges(x_orig)
    if min_val.numel() == 0 or max_val.numel() == 0 or bool((min_val > max_val).all()):
        min_val, max_val = min_val_cur, max_val_cur
    else:
        if self.tensors_not_finite > 0:
            min_val, max_val = self._known(min_val, max_val, min_val_cur, max_val_cur)
            min_val_cur, max_val_cur = self._known(min_val_cur, max_val_cur, min_val, max_val)
        min_val = min_val + self.averaging_constant * (min_val_cur - min_val)
        max_val = max_val + self.averaging_constant * (max_val_cur - max_val)
    self._update(min_val, max_val)
    self.batches = self.batches + 1
    return x_orig
)";

constexpr std::string_view kPerChannel = "per-channel";  // in messages

at::Tensor nothing() { return at::empty({0}, at::kFloat); }

ObserverState channel_min_max_state(const ResolvedObserver& config) {
  return uniform_state(uniform_config(config),
                       {{"ch_axis", config.ch_axis}, {"min_val", nothing()}, {"max_val", nothing()}});
}

ObserverState channel_moving_average_state(const ResolvedObserver& config) {
  return uniform_state(uniform_config(config), {{"ch_axis", config.ch_axis},
                                                {"averaging_constant", config.averaging_constant},
                                                {"batches", int64_t{0}},
                                                {"min_val", nothing()},
                                                {"max_val", nothing()}});
}

at::Tensor known_channels(const torch::jit::Module& observer) {
  return at::le(observer.attr("min_val").toTensor(), observer.attr("max_val").toTensor());
}

bool saw_per_channel(const torch::jit::Module& observer) {
  return known_channels(observer).any().item<bool>();
}

/// A channel that had no finite value counts as one of zeros.
QParams qparams_of_channels(const UniformConfig& config, const at::Tensor& min_val,
                            const at::Tensor& max_val) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const at::Tensor is_unknown = at::eq(min_val, kInfinity).logical_and(at::eq(max_val, -kInfinity));
  if (is_unknown.all().item<bool>()) return qparams_of_range(config, nothing(), nothing());
  if (!is_unknown.any().item<bool>()) return qparams_of_range(config, min_val, max_val);
  return qparams_of_range(config, min_val.masked_fill(is_unknown, 0), max_val.masked_fill(is_unknown, 0));
}

QParams calculate_per_channel(const torch::jit::Module& observer) {
  return qparams_of_channels(uniform_config(observer), observer.attr("min_val").toTensor(),
                             observer.attr("max_val").toTensor());
}

at::Tensor rows_of(const at::Tensor& tensor, int64_t axis) {
  const at::Tensor swapped = tensor.transpose(0, axis).to(at::kFloat);
  return swapped.dim() < 2 ? swapped.reshape({-1, 1}) : swapped.flatten(1);
}

RowRanges ranges_of(const at::Tensor& rows, c10::QScheme scheme) {
  // A float zero point keeps the sign of a zero minimum, which row_ranges does not promise.
  if (scheme != c10::QScheme::PER_CHANNEL_AFFINE_FLOAT_QPARAMS) {
    if (auto ranges = row_ranges(rows.contiguous())) {
      return *std::move(ranges);
    }
  }
  const auto [min_val, max_val] = at::aminmax(rows, 1);
  return {min_val, max_val};
}

/// What is not finite is left out, as by the observers.
RowRanges finite_ranges_of(const at::Tensor& rows, c10::QScheme scheme) {
  RowRanges ranges = ranges_of(rows, scheme);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (at::lt(ranges.max_val - ranges.min_val, kInfinity).all().item<bool>()) return ranges;
  const at::Tensor others = at::isfinite(rows).logical_not();
  return {at::amin(rows.masked_fill(others, kInfinity), 1),
          at::amax(rows.masked_fill(others, -kInfinity), 1)};
}

QParams observe_per_channel(const ResolvedObserver& config, const at::Tensor& tensor) {
  if (tensor.numel() == 0) return qparams_of_range(uniform_config(config), nothing(), nothing());
  const RowRanges ranges = finite_ranges_of(rows_of(tensor, config.ch_axis), config.qscheme);
  return qparams_of_channels(uniform_config(config), ranges.min_val, ranges.max_val);
}

void require_equal_channels(const at::Tensor& into, const at::Tensor& from, std::string_view kind) {
  if (into.sizes() == from.sizes()) return;
  throw Error(
      ErrorCode::BadModel,
      fmt::format("{} observers of {} and {} channels cannot be merged", kind, into.numel(), from.numel()),
      "merge observers of the same model");
}

void merge_channel_min_max(torch::jit::Module& into, const torch::jit::Module& from) {
  merge_channel_ranges(into, from, saw_per_channel, kPerChannel);
}

void merge_channel_moving_average(torch::jit::Module& into, const torch::jit::Module& from) {
  const int64_t before = into.attr("batches").toInt();
  const int64_t added = from.attr("batches").toInt();
  if (added == 0) {
    return;
  }
  if (before != 0)
    require_equal_channels(into.attr("min_val").toTensor(), from.attr("min_val").toTensor(), kPerChannel);
  const double weight = static_cast<double>(added) / static_cast<double>(before + added);
  // A channel that one of both has not seen is the other's.
  const at::Tensor is_seen = known_channels(into);
  const at::Tensor is_added = known_channels(from);
  for (const char* name : {"min_val", "max_val"}) {
    const at::Tensor state = into.attr(name).toTensor();
    const at::Tensor other = from.attr(name).toTensor();
    into.setattr(name, before == 0 ? other.clone()
                                   : at::where(is_seen.logical_and(is_added), at::lerp(state, other, weight),
                                               at::where(is_added, other, state)));
  }
  into.setattr("batches", before + added);
}

}  // namespace

void merge_channel_ranges(torch::jit::Module& into, const torch::jit::Module& from,
                          bool (*saw)(const torch::jit::Module& observer), std::string_view kind) {
  if (!saw(from)) return;
  at::Tensor min_val = from.attr("min_val").toTensor();
  at::Tensor max_val = from.attr("max_val").toTensor();
  if (saw(into)) {
    require_equal_channels(into.attr("min_val").toTensor(), min_val, kind);
    min_val = at::min(into.attr("min_val").toTensor(), min_val);
    max_val = at::max(into.attr("max_val").toTensor(), max_val);
  }
  into.setattr("min_val", min_val.clone());
  into.setattr("max_val", max_val.clone());
}

const ObserverKind per_channel_min_max_observer{.name = observer_classes::kPerChannelMinMax,
                                                .source = kChannelMinMaxSource,
                                                .helpers = kChannelRangesSource,
                                                .state = channel_min_max_state,
                                                .calculate_qparams = calculate_per_channel,
                                                .observe_once = observe_per_channel,
                                                .saw_data = saw_per_channel,
                                                .merge = merge_channel_min_max};

const ObserverKind moving_average_per_channel_min_max_observer{
    .name = observer_classes::kMovingAveragePerChannelMinMax,
    .source = kChannelMovingAverageSource,
    .helpers = kChannelRangesSource,
    .state = channel_moving_average_state,
    .calculate_qparams = calculate_per_channel,
    .observe_once = observe_per_channel,
    .saw_data = saw_per_channel,
    .merge = merge_channel_moving_average};

}  // namespace tsq
