#include <ATen/ATen.h>

#include "config/names/observer_classes.h"
#include "observers/channel_ranges.h"
#include "observers/observer_kind.h"
#include "observers/observer_module.h"
#include "observers/uniform_qparams.h"

namespace tsq {
namespace {

/// _InputEqualizationObserver.forward: smallest and largest value of each channel along ch_axis, but that
/// what is not finite is left out.
constexpr const char* kInputEqualizationSource = R"(
def observe(self, x_orig: Tensor) -> Tensor:
    if x_orig.numel() == 0:
        return x_orig
    min_val, max_val = self._ranges(x_orig)
    if self.min_val.numel() != 0:
        min_val = torch.min(min_val, self.min_val)
        max_val = torch.max(max_val, self.max_val)
    self._update(min_val, max_val)
    return x_orig
)";

ObserverState input_equalization_state(const ResolvedObserver& config) {
  return {{"ch_axis", config.ch_axis},
          {"min_val", at::empty({0}, at::kFloat)},
          {"max_val", at::empty({0}, at::kFloat)}};
}

bool saw_input_equalization(const torch::jit::Module& observer) {
  return observer.attr("min_val").toTensor().numel() != 0;
}

void merge_input_equalization(torch::jit::Module& into, const torch::jit::Module& from) {
  merge_channel_ranges(into, from, saw_input_equalization, "equalization");
}

}  // namespace

ChannelRanges channel_ranges(const torch::jit::Module& observer) {
  const at::Tensor min_val = observer.attr("min_val").toTensor();
  const at::Tensor max_val = observer.attr("max_val").toTensor();
  const at::Tensor is_unknown = at::gt(min_val, max_val);
  return {.min_val = min_val.masked_fill(is_unknown, 0), .max_val = max_val.masked_fill(is_unknown, 0)};
}

const ObserverKind input_equalization_observer{.name = observer_classes::kInputEqualization,
                                               .source = kInputEqualizationSource,
                                               .helpers = kChannelRangesSource,
                                               .state = input_equalization_state,
                                               .saw_data = saw_input_equalization,
                                               .merge = merge_input_equalization};

}  // namespace tsq
