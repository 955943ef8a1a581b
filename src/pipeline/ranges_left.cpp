#include "pipeline/ranges_left.h"

#include <ATen/ATen.h>

namespace tsq::detail {

void RangesLeft::add(const torch::jit::Module& observer, const at::Tensor& x) {
  if (!observer.hasattr("min_val") || !observer.hasattr("max_val") || x.numel() == 0 ||
      !x.is_floating_point())
    return;
  const at::Tensor low = observer.attr("min_val").toTensor();
  const at::Tensor high = observer.attr("max_val").toTensor();
  if (low.numel() != 1 || high.numel() != 1) return;
  const double lowest = low.item<double>();
  const double highest = high.item<double>();
  if (!(lowest <= highest)) return;  // it has seen nothing
  values += x.numel();
  const auto [smallest, largest] = at::aminmax(x);
  if (smallest.item<double>() >= lowest && largest.item<double>() <= highest) return;  // NaN is neither
  outside += (x.lt(lowest).logical_or_(x.gt(highest))).sum().item<int64_t>();
}

std::optional<double> RangesLeft::share() const {
  if (values == 0) return std::nullopt;
  return static_cast<double>(outside) / static_cast<double>(values);
}

}  // namespace tsq::detail
