#include "config/observer_classes.h"
#include "observers/observer_class.h"
#include "observers/observer_kind.h"

namespace tsq {
namespace {

/// PlaceholderObserver (M-18): carries its configuration through the prepared model, has no qparams (M-19).
constexpr const char* kPlaceholderSource = R"(
def observe(self, x: Tensor) -> Tensor:
    return x
)";

c10::IValue or_none(const std::optional<int64_t>& value) {
  return value.has_value() ? c10::IValue(*value) : c10::IValue();
}

torch::jit::Module make_placeholder(const ResolvedObserver& config) {
  static const ObserverClass observer_class(
      observer_classes::kPlaceholder,
      {integer("dtype"), integer("qscheme"), optional_integer("quant_min"), optional_integer("quant_max"),
       real("eps")},
      kPlaceholderSource);
  constexpr double kFloatEpsilon = 0x1p-23;
  return observer_class.instance({{"dtype", static_cast<int64_t>(config.dtype)},
                                  {"qscheme", static_cast<int64_t>(config.qscheme)},
                                  {"quant_min", or_none(config.quant_min)},
                                  {"quant_max", or_none(config.quant_max)},
                                  {"eps", config.eps.value_or(kFloatEpsilon)}},
                                 config.is_dynamic);
}

bool placeholder_needs_no_data(const torch::jit::Module&) { return true; }

void merge_placeholder(torch::jit::Module&, const torch::jit::Module&) {}

}  // namespace

const ObserverKind placeholder_observer{observer_classes::kPlaceholder, make_placeholder, nullptr, nullptr,
                                        placeholder_needs_no_data,      merge_placeholder};

}  // namespace tsq
