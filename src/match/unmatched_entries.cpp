#include "match/unmatched_entries.h"

#include <fmt/format.h>
#include <tsq/recipe.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <tuple>
#include <utility>

#include "base/known_engines.h"
#include "base/text.h"
#include "config/names/known_names.h"
#include "config/python_regex.h"
#include "ir/analysis.h"
#include "match/qconfig_lookup.h"

namespace tsq::match {
namespace {

constexpr std::size_t kNearestShown = 3;
/// The time that it takes to compare two names grows with the product of their letters. Longer ones are no
/// misspellings.
constexpr std::size_t kLongestCompared = 256;
/// Nobody reads what was meant by more entries than this.
constexpr std::size_t kMostCompared = 100;

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

bool is_in(std::string_view path, std::string_view module) {
  return path == module ||
         (path.size() > module.size() && path.starts_with(module) && path[module.size()] == '.');
}

/// The candidates that are most like `name`: with its last part, or few letters away.
std::vector<std::string> nearest_names(std::string_view name, const std::set<std::string>& candidates) {
  std::vector<std::pair<std::size_t, std::string>> near;
  if (name.size() > kLongestCompared) return {};
  for (const std::string& candidate : candidates) {
    if (candidate.empty() || candidate.size() > kLongestCompared) continue;
    const std::size_t distance = edit_distance(name, candidate);
    const bool same_end = edit_distance(last_part(name), last_part(candidate)) == 0;
    const bool longer = candidate.starts_with(name) || name.starts_with(candidate);
    if (same_end || longer ||
        distance <= std::max<std::size_t>(1, std::max(name.size(), candidate.size()) / 3))
      near.emplace_back(distance, candidate);
  }
  std::ranges::stable_sort(near, {}, [](const auto& each) { return each.first; });
  std::vector<std::string> names;
  for (auto& [distance, candidate] : near | std::views::take(kNearestShown))
    names.push_back(std::move(candidate));
  return names;
}

/// What the model has for a mapping to name.
class Names {
 public:
  Names(const ir::Model& model, const torch::jit::Module& source)
      : model_(model), queries_(qconfig_queries(model)) {
    for (const auto& [node, query] : queries_) {
      if (query.targets.empty()) continue;
      paths_.insert(query.module_path);
      for (const auto& [path, type] : query.opened) paths_.insert(path);
      types_.insert(std::string(query.targets.front().name));
    }
    for (const auto& named : source.named_modules()) {
      modules_.insert(named.name);
      if (const auto& name = named.value.type()->name())
        classes_.insert(std::string(parse_symbol(name->qualifiedName()).name));
    }
  }

  std::optional<UnmatchedEntry> module_name(const std::string& name) const {
    if (std::ranges::any_of(paths_, [&](const auto& path) { return is_in(path, name); })) return std::nullopt;
    const std::string reason = fate_of(name);
    return UnmatchedEntry{.level = "module name",
                          .entry = name,
                          .reason = reason,
                          .nearest = reason.empty() ? nearest(name, modules_) : std::vector<std::string>()};
  }

  std::optional<UnmatchedEntry> regex(const std::string& regex) const {
    const auto matches = [&](const std::string& pattern) {
      return std::ranges::find_if(
          paths_, [&](const std::string& path) { return python_regex_matches(pattern, path); });
    };
    if (matches(regex) != paths_.end()) return std::nullopt;
    constexpr const char* kLevel = "module name regex";
    if (const auto inside = matches(fmt::format(".*(?:{})", regex)); inside != paths_.end()) {
      return UnmatchedEntry{.level = kLevel,
                            .entry = regex,
                            .reason = fmt::format("a regex must match from the beginning of a name, and in "
                                                  "'{}' it matches later: begin it with '.*'",
                                                  *inside),
                            .nearest = {}};
    }
    std::string letters = regex;
    std::erase_if(
        letters, [](char c) { return std::string_view("\\^$*+?()[]{}|").find(c) != std::string_view::npos; });
    return UnmatchedEntry{
        .level = kLevel, .entry = regex, .reason = {}, .nearest = nearest(letters, modules_)};
  }

  std::optional<UnmatchedEntry> object_type(const Symbol& type) const {
    const auto has_type = [&](const auto& each) {
      const QConfigQuery& query = each.second;
      return std::ranges::find(query.targets, type) != query.targets.end() || query.order_type == type ||
             (!query.is_module && query.module_type == type) ||
             std::ranges::any_of(query.opened, [&](const auto& around) { return around.second == type; });
    };
    if (std::ranges::any_of(queries_, has_type)) return std::nullopt;
    const std::string reason = absorption_of(type);
    return UnmatchedEntry{
        .level = "object type",
        .entry = std::string(type.name),
        .reason = reason,
        .nearest = reason.empty() ? nearest(type.name, types_) : std::vector<std::string>()};
  }

  std::optional<UnmatchedEntry> order(const QConfigMapping::ModuleNameObjectTypeOrder& order) const {
    int uses = 0;
    for (const auto& [node, query] : queries_) {
      const bool same_type = query.order_type ? *query.order_type == order.object_type
                                              : std::find(query.targets.begin(), query.targets.end(),
                                                          order.object_type) != query.targets.end();
      if (!same_type || query.parent_path != order.module_name || query.order_index < 0) continue;
      if (query.order_index == order.index) return std::nullopt;
      ++uses;
    }
    return UnmatchedEntry{
        .level = "module name, object type and order",
        .entry = fmt::format("{}, {}, {}", order.module_name, order.object_type.name, order.index),
        .reason = fmt::format("module '{}' itself uses {} {} times, and the order counts from 0",
                              order.module_name, order.object_type.name, uses),
        .nearest = {}};
  }

  /// A name or class in the PrepareCustomConfig, under PyTorch's key.
  std::optional<UnmatchedEntry> custom(const char* key, const std::string& entry) const {
    const auto& known = std::string_view(key).find("class") == std::string_view::npos ? modules_ : classes_;
    if (known.contains(entry)) return std::nullopt;
    return UnmatchedEntry{.level = key, .entry = entry, .nearest = nearest(entry, known), .is_custom = true};
  }

  /// A class that the PrepareCustomConfig observes.
  std::optional<UnmatchedEntry> observed(const std::string& type) const {
    constexpr const char* kKey = "float_to_observed_custom_module_class";
    if (auto unknown = custom(kKey, type)) return unknown;
    bool is_called = false;
    for (const ir::Node* node : ir::nodes_in_order(*model_.graph)) {
      if (!ir::is_module_call(node) || ir::call_of(model_, node).type.name != type) continue;
      if (ir::call_of(model_, node).custom != ir::CustomState::None) return std::nullopt;
      is_called = true;
    }
    return UnmatchedEntry{.level = kKey,
                          .entry = type,
                          .reason = is_called
                                        ? "the file was traced, and passes the states of its layers one by "
                                          "one: script the model"
                                        : "forward calls none of this class",
                          .is_custom = true};
  }

 private:
  std::vector<std::string> nearest(std::string_view name, const std::set<std::string>& candidates) const {
    if (compared_ == kMostCompared) return {};
    ++compared_;
    return nearest_names(name, candidates);
  }

  /// Into what operators of a type are fused; empty when none is.
  std::string absorption_of(const Symbol& type) const {
    const auto call = std::ranges::find_if(model_.calls, [&](const ir::ModuleCall& each) {
      return std::ranges::find(each.parts, type, &ir::Scope::type) != each.parts.end();
    });
    if (call == model_.calls.end()) return {};
    return fmt::format(
        "each of this type is fused into another operator, such as '{}': the type of that one, {}, counts",
        call->path, call->parts.front().type.name);
  }

  /// Why no operator has the name of a module that there is; empty when there is none.
  std::string fate_of(const std::string& name) const {
    for (const ir::ModuleCall& call : model_.calls) {
      if (call.path == name) continue;
      if (std::ranges::find(call.parts, name, &ir::Scope::path) != call.parts.end())
        return fmt::format("it is fused into '{}', whose entry applies", call.path);
      if (is_in(name, call.path)) {
        return fmt::format("it is inside '{}', which is {}", call.path,
                           call.standalone ? "a standalone module with a mapping of its own"
                                           : fmt::format("one operator, {}", call.type.name));
      }
    }
    return modules_.contains(name) ? "forward runs no operator of this module" : "";
  }

  const ir::Model& model_;
  std::vector<std::pair<const ir::Node*, QConfigQuery>> queries_;
  std::set<std::string> paths_;    ///< of modules with operators
  std::set<std::string> types_;    ///< of operators
  std::set<std::string> modules_;  ///< all of the user's model
  std::set<std::string> classes_;  ///< of those
  mutable std::size_t compared_{0};
};

/// The mappings that nobody has written: of every backend, mode and recipe.
std::vector<QConfigMapping> default_mappings() {
  std::vector<QConfigMapping> mappings{symmetric_qnnpack_qconfig_mapping(),
                                       symmetric_qnnpack_qat_qconfig_mapping(), dynamic_qconfig_mapping(),
                                       best_dynamic_qconfig_mapping()};
  for (const std::string_view backend : known_engines()) {
    mappings.push_back(default_qconfig_mapping(backend));
    mappings.push_back(best_qconfig_mapping(backend));
    mappings.push_back(best_qat_qconfig_mapping(backend));
    for (const int version : {0, 1}) mappings.push_back(default_qat_qconfig_mapping(backend, version));
  }
  for (const int bits : {8, 4, 2}) {
    for (const int64_t group_size : {32, 64, 128, 256})
      mappings.push_back(weight_only_qconfig_mapping(bits, group_size));
  }
  return mappings;
}

/// Two observers that find the same with the same data, whichever of the class's defaults were written out.
bool is_same(const ObserverSpec& a, const ObserverSpec& b) {
  const auto meaning = [](const ResolvedObserver& r) {
    return std::make_tuple(r.observer, r.dtype, r.qscheme, r.reduce_range, r.quant_min, r.quant_max, r.eps,
                           r.averaging_constant, r.ch_axis, r.is_dynamic, r.group_size, r.bins, r.percentile,
                           r.scale, r.zero_point);
  };
  return a == b || (a.fake_quantize == b.fake_quantize && meaning(resolve(a)) == meaning(resolve(b)));
}

bool is_same(const MaybeQConfig& a, const MaybeQConfig& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return is_same(a->activation, b->activation) && is_same(a->weight, b->weight);
}

bool is_default_entry(const std::pair<Symbol, MaybeQConfig>& entry) {
  static const std::vector<QConfigMapping> kDefaults = default_mappings();
  return std::ranges::any_of(kDefaults, [&](const QConfigMapping& mapping) {
    return std::ranges::any_of(mapping.object_type_qconfigs(), [&](const auto& known) {
      return known.first == entry.first && is_same(known.second, entry.second);
    });
  });
}

}  // namespace

std::vector<UnmatchedEntry> unmatched_entries(const ir::Model& model, const torch::jit::Module& source,
                                              const QConfigMapping& mapping,
                                              const PrepareCustomConfig& custom) {
  const Names names(model, source);
  std::vector<UnmatchedEntry> entries;
  const auto add = [&entries](std::optional<UnmatchedEntry> entry) {
    if (entry) entries.push_back(std::move(*entry));
  };
  for (const auto& entry : mapping.object_type_qconfigs()) {
    if (!is_default_entry(entry)) add(names.object_type(entry.first));
  }
  for (const auto& [regex, qconfig] : mapping.module_name_regex_qconfigs()) add(names.regex(regex));
  for (const auto& [name, qconfig] : mapping.module_name_qconfigs()) add(names.module_name(name));
  for (const auto& order : mapping.module_name_object_type_order_qconfigs()) add(names.order(order));
  const nlohmann::json dict = custom.to_dict();
  for (const char* key : {"standalone_module_name", "standalone_module_class"}) {
    for (const auto& each : dict.value(key, nlohmann::json::array()))
      add(names.custom(key, each.at(0).get<std::string>()));
  }
  for (const std::string& name : custom.non_traceable_module_names())
    add(names.custom("non_traceable_module_name", name));
  for (const Symbol& type : custom.non_traceable_module_classes())
    add(names.custom("non_traceable_module_class", std::string(type.name)));
  for (const auto& of_type : dict.value("float_to_observed_custom_module_class", nlohmann::json::object())) {
    for (const auto& [type, observed] : of_type.items()) add(names.observed(type));
  }
  return entries;
}

}  // namespace tsq::match
