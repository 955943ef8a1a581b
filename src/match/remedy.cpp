#include "match/remedy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/backends.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "config/names/observer_classes.h"

namespace tsq::match {
namespace {

/// What an observer lacks for a port of a DTypeConfig.
void add_changes(std::vector<std::string>& changes, std::string_view port, const ResolvedObserver& observer,
                 const DTypeWithConstraints& allowed) {
  if (!allowed.dtype) return;
  if (observer.dtype != *allowed.dtype) {
    changes.push_back(fmt::format("give its {} observer dtype {}", port, dtype_name(*allowed.dtype)));
    return;
  }
  if (allowed.quant_min_lower_bound && allowed.quant_max_upper_bound &&
      !(observer.quant_min >= allowed.quant_min_lower_bound && observer.quant_max &&
        *observer.quant_max <= *allowed.quant_max_upper_bound)) {
    changes.push_back(fmt::format("give its {} observer quant_min {} and quant_max {}", port,
                                  *allowed.quant_min_lower_bound, *allowed.quant_max_upper_bound));
  }
  if (allowed.scale_min_lower_bound && !(observer.eps && *observer.eps >= *allowed.scale_min_lower_bound))
    changes.push_back(
        fmt::format("give its {} observer eps {} or more", port, *allowed.scale_min_lower_bound));
  if (!allowed.scale_exact_match || !allowed.zero_point_exact_match) return;
  if (observer.observer != observer_classes::kFixedQParams || observer.scale != *allowed.scale_exact_match ||
      observer.zero_point != *allowed.zero_point_exact_match) {
    changes.push_back(
        fmt::format("make its {} observer a FixedQParamsObserver with scale {} and zero point {}", port,
                    *allowed.scale_exact_match, *allowed.zero_point_exact_match));
  }
}

std::vector<std::string> changes_for(const QConfig& qconfig, const DTypeConfig& config) {
  std::vector<std::string> changes;
  const ResolvedObserver activation = resolve(qconfig.activation);
  const bool is_dynamic = config.is_dynamic.value_or(false);
  if (activation.is_dynamic != is_dynamic) {
    return {is_dynamic ? "give it a dynamic qconfig, such as 'default_dynamic_qconfig'"
                       : "give it a static qconfig, for example with HistogramObserver for its activations"};
  }
  const auto float_or = [](const std::optional<c10::ScalarType>& dtype) {
    return dtype.value_or(c10::ScalarType::Float);
  };
  const bool is_weight_only = float_or(config.input_dtype.dtype) == c10::ScalarType::Float &&
                              float_or(config.weight_dtype.dtype) != c10::ScalarType::Float;
  if (is_weight_only && activation.dtype != c10::ScalarType::Float)
    return {"give it a weight-only qconfig, such as 'float_qparams_weight_only_qconfig'"};
  add_changes(changes, "activation", activation, config.input_dtype);
  if (!is_dynamic) add_changes(changes, "activation", activation, config.output_dtype);
  add_changes(changes, "weight", resolve(qconfig.weight), config.weight_dtype);
  std::vector<std::string> distinct;
  for (std::string& change : changes) {
    if (std::ranges::find(distinct, change) == distinct.end()) distinct.push_back(std::move(change));
  }
  return distinct;
}

/// Operators without int8 kernels anywhere, and what does nearly the same and has one.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kStandIns{{
    {"silu", "torch.nn.Hardswish"},
    {"mish", "torch.nn.Hardswish"},
    {"gelu", "torch.nn.ReLU or torch.nn.Hardswish"},
    {"softplus", "torch.nn.ReLU"},
}};

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

/// "softmax" of "aten::softmax" and of "torch.nn.Softmax".
std::string last_part(const std::string& name) {
  return lower_case(name.substr(name.find_last_of(".:") + 1));
}

}  // namespace

std::string describe(const DTypeConfig& config) {
  std::vector<std::string> ports{config.is_dynamic.value_or(false) ? "dynamic" : "static"};
  const auto add = [&](std::string_view port, const std::optional<c10::ScalarType>& dtype) {
    if (dtype) ports.push_back(fmt::format("{} {}", port, dtype_name(*dtype)));
  };
  add("input", config.input_dtype.dtype);
  add("weight", config.weight_dtype.dtype);
  add("bias", config.bias_dtype);
  add("output", config.output_dtype.dtype);
  return fmt::format("{}", fmt::join(ports, ", "));
}

std::string describe(const QConfig& qconfig) {
  const auto observer = [](const ObserverSpec& spec) {
    const ResolvedObserver resolved = resolve(spec);
    return fmt::format("{} {}{}", resolved.observer, dtype_name(resolved.dtype),
                       resolved.is_dynamic ? " dynamic" : "");
  };
  return fmt::format("activation {}, weight {}", observer(qconfig.activation), observer(qconfig.weight));
}

Remedy remedy_for(const QConfig& qconfig, const BackendPatternConfig& row) {
  Remedy remedy;
  std::optional<std::size_t> fewest;
  for (std::size_t i = 0; i < row.dtype_configs.size(); ++i) {
    const std::vector<std::string> changes = changes_for(qconfig, row.dtype_configs[i]);
    if (fewest && changes.size() >= *fewest) continue;
    fewest = changes.size();
    remedy = {.dtype_config = i, .text = fmt::format("{}", fmt::join(changes, " and "))};
  }
  return remedy;
}

std::string remedy_for_none(const QConfigDecision& decision, const std::string& op) {
  switch (decision.source) {
    case QConfigSource::None:
      return fmt::format(
          "add an entry to the mapping: \"\" for everything ('tsq qconfig show best_x86' prints one to begin "
          "with), or one for object type '{}' or for its module name",
          op);
    case QConfigSource::Global:
      return fmt::format("give the mapping a global qconfig, or one for object type '{}'", op);
    case QConfigSource::ObjectType:
    case QConfigSource::ModuleNameRegex:
    case QConfigSource::ModuleName:
    case QConfigSource::ModuleNameObjectTypeOrder:
      break;
  }
  const std::string entry = decision.key.empty() ? std::string() : fmt::format(" '{}'", decision.key);
  return fmt::format("remove the entry for {}{} from the mapping, or give it a qconfig",
                     to_string(decision.source), entry);
}

std::vector<std::string> other_backends_with_row(const Pattern& pattern, const BackendConfig& backend) {
  std::vector<std::string> others;
  for (const BackendEntry& entry : backend_entries()) {
    if (entry.name == backend.name() || entry.name != entry.engine) continue;
    const BackendConfig table = entry.table();
    const auto has_pattern = [&](const BackendPatternConfig& row) { return row.key() == pattern; };
    if (std::ranges::any_of(table.configs(), has_pattern)) others.emplace_back(entry.name);
  }
  return others;
}

std::optional<std::string> spelling_with_row(const std::string& op, const BackendConfig& backend) {
  const std::string last = last_part(op);
  for (const BackendPatternConfig& row : backend.configs()) {
    std::string spelling = to_string(row.key());
    if (spelling.find('(') == std::string::npos && last_part(spelling) == last) return spelling;
  }
  return std::nullopt;
}

std::string remedy_without_row(const std::string& op, const BackendConfig& backend) {
  if (const auto spelling = spelling_with_row(op, backend))
    return fmt::format("write it as {}, which backend '{}' has a row for", *spelling, backend.name());
  const std::string name = lower_case(op);
  for (const auto& [part, stand_in] : kStandIns) {
    if (name.ends_with(part) || name.ends_with(fmt::format("{}_", part))) {
      return fmt::format("no engine has an int8 kernel for it: leave it float, or train the model with {}",
                         stand_in);
    }
  }
  return "leave it float: no engine backend of tsq has a row for it";
}

}  // namespace tsq::match
