#include "config/observer_constructor.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/registry.h"
#include "base/text.h"
#include "config/names/observer_classes.h"
#include "config/names/registered_names.h"

namespace tsq {
namespace {

using c10::ScalarType;
using enum ObserverConstructor::Range;

constexpr std::string_view kHistogramArguments =
    "bins dtype qscheme reduce_range quant_min quant_max eps is_dynamic";
constexpr std::string_view kEqualizationArguments = "ch_axis dtype qscheme quant_min quant_max";

constexpr ObserverConstructor kConstructors[]{
    {.name = observer_classes::kMinMax,
     .range = Calculated,
     .is_dynamic = true,
     .arguments = "dtype qscheme reduce_range quant_min quant_max eps is_dynamic"},
    {.name = observer_classes::kMovingAverageMinMax,
     .range = Calculated,
     .is_dynamic = true,
     .arguments = "averaging_constant dtype qscheme reduce_range quant_min quant_max eps is_dynamic"},
    {.name = observer_classes::kPerChannelMinMax,
     .qscheme = c10::kPerChannelAffine,
     .range = Calculated,
     .arguments = "ch_axis dtype qscheme reduce_range quant_min quant_max eps is_dynamic group_size"},
    {.name = observer_classes::kMovingAveragePerChannelMinMax,
     .qscheme = c10::kPerChannelAffine,
     .range = Calculated,
     .arguments = "averaging_constant ch_axis dtype qscheme reduce_range quant_min quant_max eps is_dynamic"},
    {.name = observer_classes::kHistogram, .range = Calculated, .arguments = kHistogramArguments},
    {.name = observer_classes::kFixedQParams,
     .range = Fixed,
     .arguments = "scale zero_point dtype qscheme quant_min quant_max is_dynamic"},
    {.name = observer_classes::kPlaceholder,
     .dtype = ScalarType::Float,
     .range = AsGiven,
     .is_dynamic = true,
     .arguments = "dtype quant_min quant_max qscheme eps is_dynamic"},
    {.name = observer_classes::kRecording, .arguments = "dtype"},
    {.name = observer_classes::kNoop, .dtype = ScalarType::Half, .arguments = "dtype"},
    {.name = observer_classes::kReuseInput},
    // fx/_equalize.py; tsq sets ch_axis, the axis of the input channels.
    {.name = observer_classes::kInputEqualization, .range = Calculated, .arguments = kEqualizationArguments},
    {.name = observer_classes::kWeightEqualization,
     .dtype = ScalarType::QInt8,
     .arguments = kEqualizationArguments},
    // tsq's own: ranges by their error, by a share of the values, by information; statistics of channels;
    // whether data came.
    {.name = observer_classes::kMSE, .range = Calculated, .arguments = kHistogramArguments},
    {.name = observer_classes::kPercentile,
     .range = Calculated,
     .arguments = "percentile bins dtype qscheme reduce_range quant_min quant_max eps is_dynamic"},
    {.name = observer_classes::kEntropy, .range = Calculated, .arguments = kHistogramArguments},
    {.name = observer_classes::kInputProducts, .dtype = ScalarType::Float, .arguments = "ch_axis group_size"},
    {.name = observer_classes::kChannelStatistics, .dtype = ScalarType::Float, .arguments = "ch_axis"},
    {.name = observer_classes::kBranch, .dtype = ScalarType::Float},
    {.name = observer_classes::kIdentity, .dtype = ScalarType::Float},
};

}  // namespace

ObserverConstructor observer_constructor(std::string_view name) {
  const auto* const found = std::ranges::find(kConstructors, name, &ObserverConstructor::name);
  if (found != std::end(kConstructors)) return *found;
  if (const auto own = registry_of<ObserverConstructor>().find(name)) return *own;
  const auto names = names_of(kConstructors, &ObserverConstructor::name);
  // Classes of PyTorch's and tsq's are named without a package, those of a program with one.
  if (name.find('.') != std::string_view::npos)
    fail_unknown("an observer", name, name, names, registry_of<ObserverConstructor>().names());
  if (name.empty())
    throw Error(ErrorCode::BadConfig, "an observer has no class", "known: " + quoted_list(names));
  throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not an observer", name), suggestion(name, names));
}

std::string_view observer_of_fake_quantize(std::string_view name) {
  if (std::ranges::find(kFakeQuantizeClasses, name) == kFakeQuantizeClasses.end()) return {};
  return name == "FixedQParamsFakeQuantize" ? observer_classes::kFixedQParams
                                            : observer_classes::kMovingAverageMinMax;
}

void add_observer_constructor(const ObserverConstructor& constructor) {
  registry_of<ObserverConstructor>().set(std::string(constructor.name), constructor);
}

bool is_registered_observer(std::string_view name) {
  return registry_of<ObserverConstructor>().index_of(name).has_value();
}

}  // namespace tsq
