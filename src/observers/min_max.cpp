#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "config/observer_classes.h"
#include "observers/observer_class.h"
#include "observers/observer_kind.h"
#include "observers/uniform_qparams.h"

namespace tsq {
namespace {

/// MinMaxObserver.forward (M-09): infinities and NaN are not filtered, empty tensors are skipped.
constexpr const char* kMinMaxSource = R"(
def observe(self, x_orig: Tensor) -> Tensor:
    if x_orig.numel() == 0:
        return x_orig
    x = x_orig.detach().to(self.min_val.dtype)
    min_val_cur, max_val_cur = torch.aminmax(x)
    self.min_val.copy_(torch.min(min_val_cur, self.min_val))
    self.max_val.copy_(torch.max(max_val_cur, self.max_val))
    return x_orig
)";

torch::jit::Module make_min_max(const ResolvedObserver& config) {
  static const ObserverClass observer_class(
      observer_classes::kMinMax, uniform_attributes({buffer("min_val"), buffer("max_val")}), kMinMaxSource);
  const ObserverValues state{{"min_val", minimum_of_nothing()}, {"max_val", maximum_of_nothing()}};
  return observer_class.instance(uniform_values(uniform_config(config), state), config.is_dynamic);
}

QParams calculate_min_max(const torch::jit::Module& observer) {
  return qparams_of_range(uniform_config(observer), observer.attr("min_val").toTensor(),
                          observer.attr("max_val").toTensor());
}

QParams observe_min_max(const ResolvedObserver& config, const at::Tensor& tensor) {
  const c10::NoGradGuard no_grad;
  if (tensor.numel() == 0) {
    return qparams_of_range(uniform_config(config), minimum_of_nothing(), maximum_of_nothing());
  }
  const auto [min_val, max_val] = at::aminmax(tensor.to(at::kFloat));
  return qparams_of_range(uniform_config(config), at::min(min_val, minimum_of_nothing()),
                          at::max(max_val, maximum_of_nothing()));
}

void merge_min_max(torch::jit::Module& into, const torch::jit::Module& from) {
  const c10::NoGradGuard no_grad;
  const at::Tensor min_val = into.attr("min_val").toTensor();
  const at::Tensor max_val = into.attr("max_val").toTensor();
  min_val.copy_(at::min(min_val, from.attr("min_val").toTensor()));
  max_val.copy_(at::max(max_val, from.attr("max_val").toTensor()));
}

}  // namespace

const ObserverKind min_max_observer{observer_classes::kMinMax, make_min_max, calculate_min_max,
                                    observe_min_max,           saw_range,    merge_min_max};

}  // namespace tsq
