#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include "observers/observer_class.h"
#include "observers/observer_kind.h"

namespace tsq {
namespace {

/// The mean of each channel along ch_axis over all values seen. The state starts empty and takes the number
/// of channels from the first tensor.
constexpr const char* kSource = R"(
def observe(self, x_orig: Tensor) -> Tensor:
    if x_orig.numel() == 0 or not x_orig.is_floating_point() or x_orig.dim() == 0:
        return x_orig
    axis = self.ch_axis
    if axis < 0:
        axis = axis + x_orig.dim()
    others: List[int] = []
    for i in range(x_orig.dim()):
        if i != axis:
            others.append(i)
    mean = x_orig.detach()
    if len(others) != 0:
        mean = torch.mean(mean, others)
    mean = mean.to(self.mean.dtype)
    values = x_orig.numel() // x_orig.size(axis)
    if self.mean.numel() != 0:
        mean = self.mean + (mean - self.mean) * (float(values) / float(self.values + values))
    self.mean = mean
    self.values = self.values + values
    return x_orig
)";

torch::jit::Module make(const ResolvedObserver& config) {
  static const ObserverClass observer_class("ChannelMeanObserver",
                                            {integer("ch_axis"), integer("values"), buffer("mean")}, kSource);
  return observer_class.instance(
      {{"ch_axis", config.ch_axis}, {"values", int64_t{0}}, {"mean", at::empty({0}, at::kDouble)}},
      config.is_dynamic);
}

bool saw_channels(const torch::jit::Module& observer) {
  return observer.attr("mean").toTensor().numel() != 0;
}

void merge(torch::jit::Module& into, const torch::jit::Module& from) {
  const c10::NoGradGuard no_grad;
  if (!saw_channels(from)) return;
  const at::Tensor added = from.attr("mean").toTensor();
  const int64_t added_values = from.attr("values").toInt();
  const int64_t values = into.attr("values").toInt();
  at::Tensor mean = added.clone();
  if (saw_channels(into)) {
    const at::Tensor before = into.attr("mean").toTensor();
    if (before.sizes() != added.sizes()) {
      throw Error(ErrorCode::BadModel,
                  fmt::format("observers of the means of {} and {} channels cannot be merged", before.numel(),
                              added.numel()),
                  "merge observers of the same prepared model");
    }
    mean = before + (added - before) *
                        (static_cast<double>(added_values) / static_cast<double>(values + added_values));
  }
  into.setattr("mean", mean);
  into.setattr("values", values + added_values);
}

}  // namespace

const ObserverKind channel_mean_observer{"ChannelMeanObserver", make, nullptr, nullptr, saw_channels, merge};

}  // namespace tsq
