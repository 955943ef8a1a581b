#include "ir/observer_results.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "config/names/observer_classes.h"
#include "observers/observer_module.h"

namespace tsq::ir {
namespace {

namespace names = observer_classes;

/// What a program registers may mean something else by the attributes of those that count.
bool has_counted(const ObserverEntry& entry) {
  constexpr std::array<std::string_view, 4> kKinds{names::kHistogram, names::kMSE, names::kPercentile,
                                                   names::kEntropy};
  const bool is_ours = std::ranges::find(kKinds, entry.spec.observer) != kKinds.end();
  return is_ours && entry.module && counts_values(*entry.module);
}

}  // namespace

ObserverResult result_of(const ObserverEntry& entry) {
  if (entry.result) return *entry.result;
  const ObserverSpec& spec = entry.spec;
  const torch::jit::Module& observer = entry.module.value();
  if (spec.observer == names::kInputEqualization || spec.observer == names::kChannelStatistics ||
      spec.observer == names::kInputProducts)
    return {};
  ObserverResult result{.saw_data = saw_data(observer), .saw_other_dtype = saw_other_dtype(observer)};
  if (finds_qparams(spec)) result.qparams = calculate_qparams(observer);
  return result;
}

std::optional<RoundingNoise> noise_of(const ObserverEntry& entry) {
  if (!has_counted(entry)) return std::nullopt;
  const ObserverResult result = result_of(entry);
  return result.qparams ? rounding_noise(*entry.module, *result.qparams) : std::nullopt;
}

}  // namespace tsq::ir
