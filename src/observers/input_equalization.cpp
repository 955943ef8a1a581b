#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include "config/observer_classes.h"
#include "observers/observer_class.h"
#include "observers/observer_kind.h"

namespace tsq {
namespace {

/// _InputEqualizationObserver.forward: smallest and largest value of each channel along ch_axis. The state
/// starts empty and takes the number of channels from the first tensor.
constexpr const char* kInputEqualizationSource = R"(
def observe(self, x_orig: Tensor) -> Tensor:
    if x_orig.numel() == 0:
        return x_orig
    x = x_orig.detach().to(self.min_val.dtype).transpose(0, self.ch_axis)
    min_val, max_val = torch.aminmax(x.reshape([x.size(0), -1]), dim=1)
    if self.min_val.numel() != 0:
        min_val = torch.min(min_val, self.min_val)
        max_val = torch.max(max_val, self.max_val)
    self.min_val = min_val
    self.max_val = max_val
    return x_orig
)";

torch::jit::Module make_input_equalization(const ResolvedObserver& config) {
  static const ObserverClass observer_class(observer_classes::kInputEqualization,
                                            {integer("ch_axis"), buffer("min_val"), buffer("max_val")},
                                            kInputEqualizationSource);
  return observer_class.instance({{"ch_axis", config.ch_axis},
                                  {"min_val", at::empty({0}, at::kFloat)},
                                  {"max_val", at::empty({0}, at::kFloat)}},
                                 config.is_dynamic);
}

bool saw_input_equalization(const torch::jit::Module& observer) {
  return observer.attr("min_val").toTensor().numel() != 0;
}

void merge_input_equalization(torch::jit::Module& into, const torch::jit::Module& from) {
  const c10::NoGradGuard no_grad;
  if (!saw_input_equalization(from)) return;
  at::Tensor min_val = from.attr("min_val").toTensor();
  at::Tensor max_val = from.attr("max_val").toTensor();
  if (saw_input_equalization(into)) {
    const at::Tensor before = into.attr("min_val").toTensor();
    if (before.sizes() != min_val.sizes()) {
      throw Error(ErrorCode::BadModel,
                  fmt::format("equalization observers of {} and {} channels cannot be merged", before.numel(),
                              min_val.numel()),
                  "merge observers of the same model");
    }
    min_val = at::min(before, min_val);
    max_val = at::max(into.attr("max_val").toTensor(), max_val);
  }
  into.setattr("min_val", min_val.clone());
  into.setattr("max_val", max_val.clone());
}

}  // namespace

const ObserverKind input_equalization_observer{observer_classes::kInputEqualization,
                                               make_input_equalization,
                                               nullptr,
                                               nullptr,
                                               saw_input_equalization,
                                               merge_input_equalization};

}  // namespace tsq
