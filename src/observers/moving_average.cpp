#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "config/observer_classes.h"
#include "observers/observer_class.h"
#include "observers/observer_kind.h"
#include "observers/uniform_qparams.h"

namespace tsq {
namespace {

/// MovingAverageMinMaxObserver.forward (M-10). `batches` is tsq's own: the weight of this observer in a
/// merge.
constexpr const char* kMovingAverageSource = R"(
def observe(self, x_orig: Tensor) -> Tensor:
    if x_orig.numel() == 0:
        return x_orig
    x = x_orig.detach().to(self.min_val.dtype)
    min_val = self.min_val
    max_val = self.max_val
    min_val_cur, max_val_cur = torch.aminmax(x)
    if bool(min_val == float("inf")) and bool(max_val == float("-inf")):
        min_val, max_val = min_val_cur, max_val_cur
    else:
        min_val = min_val + self.averaging_constant * (min_val_cur - min_val)
        max_val = max_val + self.averaging_constant * (max_val_cur - max_val)
    self.min_val.copy_(min_val)
    self.max_val.copy_(max_val)
    self.batches = self.batches + 1
    return x_orig
)";

torch::jit::Module make_moving_average(const ResolvedObserver& config) {
  static const ObserverClass observer_class(
      observer_classes::kMovingAverageMinMax,
      uniform_attributes(
          {real("averaging_constant"), integer("batches"), buffer("min_val"), buffer("max_val")}),
      kMovingAverageSource);
  const ObserverValues state{{"averaging_constant", config.averaging_constant},
                             {"batches", int64_t{0}},
                             {"min_val", minimum_of_nothing()},
                             {"max_val", maximum_of_nothing()}};
  return observer_class.instance(uniform_values(uniform_config(config), state), config.is_dynamic);
}

/// One tensor is its own average.
QParams observe_moving_average(const ResolvedObserver& config, const at::Tensor& tensor) {
  return min_max_observer.observe_once(config, tensor);
}

void merge_moving_average(torch::jit::Module& into, const torch::jit::Module& from) {
  const c10::NoGradGuard no_grad;
  const int64_t before = into.attr("batches").toInt();
  const int64_t added = from.attr("batches").toInt();
  if (added == 0) {
    return;
  }
  for (const char* name : {"min_val", "max_val"}) {
    const at::Tensor state = into.attr(name).toTensor();
    const at::Tensor other = from.attr(name).toTensor();
    const double weight = static_cast<double>(added) / static_cast<double>(before + added);
    state.copy_(before == 0 ? other : at::lerp(state, other, weight));
  }
  into.setattr("batches", before + added);
}

QParams calculate_moving_average(const torch::jit::Module& observer) {
  return min_max_observer.calculate_qparams(observer);
}

}  // namespace

const ObserverKind moving_average_min_max_observer{observer_classes::kMovingAverageMinMax,
                                                   make_moving_average,
                                                   calculate_moving_average,
                                                   observe_moving_average,
                                                   saw_range,
                                                   merge_moving_average};

}  // namespace tsq
