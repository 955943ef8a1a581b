#include <ATen/ATen.h>

#include "config/names/observer_classes.h"
#include "observers/observer_kind.h"

namespace tsq {
namespace {

/// FixedQParamsObserver (M-17): the qparams are arguments, data does not matter.
constexpr const char* kFixedQparamsSource = R"(
def observe(self, X: Tensor) -> Tensor:
    return X
)";

constexpr int64_t kDefaultQuantMin = 0;
constexpr int64_t kDefaultQuantMax = 255;

ObserverState fixed_qparams_state(const ResolvedObserver& config) {
  return {{"dtype", static_cast<int64_t>(config.dtype)},
          {"qscheme", static_cast<int64_t>(config.qscheme)},
          {"quant_min", config.quant_min.value_or(kDefaultQuantMin)},
          {"quant_max", config.quant_max.value_or(kDefaultQuantMax)},
          {"scale", at::full({1}, config.scale, at::kFloat)},
          {"zero_point", at::full({1}, config.zero_point, at::kInt)}};
}

QParams calculate_fixed_qparams(const torch::jit::Module& observer) {
  return {observer.attr("scale").toTensor().clone(), observer.attr("zero_point").toTensor().to(at::kLong),
          static_cast<c10::ScalarType>(observer.attr("dtype").toInt()), c10::QScheme::PER_TENSOR_AFFINE};
}

QParams observe_fixed_qparams(const ResolvedObserver& config, const at::Tensor&) {
  return {at::full({1}, config.scale, at::kFloat), at::full({1}, config.zero_point, at::kLong), config.dtype,
          c10::QScheme::PER_TENSOR_AFFINE};
}

}  // namespace

const ObserverKind fixed_qparams_observer{.name = observer_classes::kFixedQParams,
                                          .source = kFixedQparamsSource,
                                          .state = fixed_qparams_state,
                                          .calculate_qparams = calculate_fixed_qparams,
                                          .observe_once = observe_fixed_qparams};

}  // namespace tsq
