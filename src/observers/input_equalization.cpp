#include <ATen/ATen.h>

#include "config/names/observer_classes.h"
#include "observers/observer_kind.h"
#include "observers/uniform_qparams.h"

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

const ObserverKind input_equalization_observer{.name = observer_classes::kInputEqualization,
                                               .source = kInputEqualizationSource,
                                               .state = input_equalization_state,
                                               .saw_data = saw_input_equalization,
                                               .merge = merge_input_equalization};

}  // namespace tsq
