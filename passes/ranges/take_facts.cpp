// What observers saw becomes what is known of the values that they looked at. Of a prepared model that
// LibTorch ran by itself, nothing else tells.
//   observer(x) saw float32 alone   →   x: float32, in the observer's range

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "ir/value_numbers.h"
#include "observers/observer_module.h"
#include "passes/context/nodes.h"
#include "passes/ranges/passes.h"

namespace tsq::passes {
namespace {

/// Whether an observer was shown tensors, and all of them were float32.
bool saw_floats(const ir::ObserverEntry& entry) {
  const torch::jit::Module& observer = entry.module.value();
  return finds_qparams(entry.spec) && !resolve(entry.spec).is_dynamic && saw_data(observer) &&
         !saw_other_dtype(observer) && needs_data(entry.spec);
}

/// Whether the minimum and maximum of an observer are those of all finite numbers that it was shown. Moving
/// averages are not.
bool keeps_extremes(const ir::ObserverEntry& entry) {
  namespace names = observer_classes;
  constexpr std::array<std::string_view, 6> kKinds{names::kMinMax,     names::kPerChannelMinMax,
                                                   names::kHistogram,  names::kMSE,
                                                   names::kPercentile, names::kEntropy};
  return std::ranges::find(kKinds, entry.spec.observer) != kKinds.end();
}

std::optional<ir::RangeSeen> range_of(const ir::ObserverEntry& entry) {
  const torch::jit::Module& observer = entry.module.value();
  if (!keeps_extremes(entry) || !observer.hasattr("min_val") || !observer.hasattr("max_val"))
    return std::nullopt;
  const at::Tensor lowest = observer.attr("min_val").toTensor();
  const at::Tensor highest = observer.attr("max_val").toTensor();
  if (lowest.numel() == 0 || highest.numel() == 0) return std::nullopt;
  const ir::RangeSeen range{.lowest = lowest.min().item<double>(), .highest = highest.max().item<double>()};
  return range.lowest <= range.highest ? std::optional(range) : std::nullopt;
}

using Numbers = std::set<std::size_t>;

/// The numbers of the values that each observer looks at: several may share one.
std::map<std::size_t, Numbers> observed_values(const Model& model) {
  std::map<std::size_t, Numbers> observed;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_observer(node)) continue;
    if (const auto number = ir::value_number(before_observers(node->input(0))))
      observed[ir::observer_index(node)].insert(*number);
  }
  return observed;
}

/// Whether calibration knows of another dtype than float32 that one of several values had.
bool had_other_dtype(ir::Facts& facts, const Numbers& numbers) {
  return std::ranges::any_of(numbers, [&](std::size_t number) {
    const auto& dtypes = ir::facts_at(facts, number).dtypes;
    return std::ranges::any_of(dtypes, [](c10::ScalarType each) { return each != c10::ScalarType::Float; });
  });
}

/// What an observer tells of the values with these numbers.
ir::ValueFacts seen_by(const ir::ObserverEntry& entry, const Numbers& numbers, ir::Facts& facts) {
  if (!entry.module) return {};
  // Of another dtype it does not say which.
  if (saw_other_dtype(entry.module.value()) && !had_other_dtype(facts, numbers))
    return {.dtypes = {c10::ScalarType::Undefined}};
  if (!saw_floats(entry)) return {};
  return {.dtypes = {c10::ScalarType::Float},
          .range = numbers.size() == 1 ? range_of(entry) : std::nullopt,
          .is_finite = tensors_not_finite(entry.module.value()) == 0};
}

}  // namespace

bool take_facts(Model& model, const PassContext& /*context*/) {
  const ir::Facts before = model.facts;
  for (const auto& [index, numbers] : observed_values(model)) {
    const ir::ValueFacts seen = seen_by(model.observers.at(index), numbers, model.facts);
    if (seen == ir::ValueFacts()) continue;
    for (const std::size_t number : numbers) ir::join(ir::facts_at(model.facts, number), seen);
  }
  return model.facts != before;
}

}  // namespace tsq::passes
