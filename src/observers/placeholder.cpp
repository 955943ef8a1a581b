#include "config/names/observer_classes.h"
#include "observers/observer_kind.h"

namespace tsq {
namespace {

/// PlaceholderObserver (M-18): carries its configuration through the prepared model, has no qparams (M-19).
constexpr const char* kPlaceholderSource = R"(
def observe(self, x: Tensor) -> Tensor:
    return x
)";

ObserverState placeholder_state(const ResolvedObserver& config) {
  constexpr double kFloatEpsilon = 0x1p-23;
  const c10::TypePtr optional_integer = c10::OptionalType::create(c10::IntType::get());
  return {{"dtype", static_cast<int64_t>(config.dtype)},
          {"qscheme", static_cast<int64_t>(config.qscheme)},
          {"quant_min", config.quant_min, optional_integer},
          {"quant_max", config.quant_max, optional_integer},
          {"eps", config.eps.value_or(kFloatEpsilon)}};
}

}  // namespace

const ObserverKind placeholder_observer{
    .name = observer_classes::kPlaceholder, .source = kPlaceholderSource, .state = placeholder_state};

}  // namespace tsq
