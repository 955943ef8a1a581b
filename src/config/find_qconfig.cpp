#include <fmt/format.h>
#include <tsq/qconfig_mapping.h>

#include <algorithm>
#include <array>
#include <ranges>

#include "base/entries.h"
#include "config/python_regex.h"

namespace tsq {
namespace {

/// In the order of QConfigSource.
constexpr std::array<std::string_view, 6> kSourceNames{"none",        "global",
                                                       "object type", "module name regex",
                                                       "module name", "module name, object type and order"};

/// The nearest configured module: itself, else its parents from near to far (B-07).
const std::pair<std::string, MaybeQConfig>* nearest_ancestor(const QConfigMapping& mapping,
                                                             std::string path) {
  while (!path.empty()) {
    if (const auto* found = find_entry(mapping.module_name_qconfigs(), path)) return found;
    const auto dot = path.rfind('.');
    path.resize(dot == std::string::npos ? 0 : dot);
  }
  return nullptr;
}

void decide_by_type(const QConfigMapping& mapping, Symbol type, QConfigDecision& decision) {
  if (const auto* entry = find_entry(mapping.object_type_qconfigs(), type))
    decision = {entry->second, QConfigSource::ObjectType, std::string(type.name)};
}

}  // namespace

std::string_view to_string(QConfigSource source) { return kSourceNames[static_cast<std::size_t>(source)]; }

// Source: _generate_node_name_to_qconfig in fx/qconfig_mapping_utils.py. For functions and methods the type
// of the containing module comes after their own (B-10, B-11); of several spellings of one operator the first
// that is configured counts.
QConfigDecision find_qconfig(const QConfigMapping& mapping, const QConfigQuery& query) {
  QConfigDecision decision;
  if (mapping.global_qconfig()) decision = {mapping.global_qconfig(), QConfigSource::Global, ""};

  for (auto target = query.targets.rbegin(); target != query.targets.rend(); ++target)
    decide_by_type(mapping, *target, decision);
  for (const auto& [path, type] : query.opened) decide_by_type(mapping, type, decision);
  // FX has no class for the outermost module: what is called there has its own type alone.
  const bool inside_module = !query.is_module && query.module_type && !query.module_path.empty();
  if (inside_module) decide_by_type(mapping, *query.module_type, decision);

  for (const auto& [regex, qconfig] : mapping.module_name_regex_qconfigs()) {
    const auto matches = [&regex](const std::string& path) { return python_regex_matches(regex, path); };
    if (matches(query.module_path) || std::ranges::any_of(std::views::keys(query.opened), matches)) {
      decision = {qconfig, QConfigSource::ModuleNameRegex, regex};
      break;
    }
  }
  if (const auto* entry = nearest_ancestor(mapping, query.module_path))
    decision = {entry->second, QConfigSource::ModuleName, entry->first};

  const std::string& counted_in = query.is_module ? query.parent_path : query.module_path;
  for (const auto& order : mapping.module_name_object_type_order_qconfigs()) {
    const bool same_type = query.order_type
                               ? *query.order_type == order.object_type
                               : std::ranges::find(query.targets, order.object_type) != query.targets.end();
    if (query.order_index >= 0 && order.index == query.order_index && order.module_name == counted_in &&
        same_type) {
      decision = {order.qconfig, QConfigSource::ModuleNameObjectTypeOrder,
                  fmt::format("{}, {}, {}", order.module_name, order.object_type.name, order.index)};
      break;
    }
  }
  return decision;
}

}  // namespace tsq
