// Takes the QConfig away from operators that convert's own QConfigMapping names None (K-02): they are float
// again.

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "ir/analysis.h"
#include "match/qconfig_lookup.h"
#include "passes/place/passes.h"

namespace tsq::passes {
namespace {

[[noreturn]] void fail(const std::string& problem) {
  throw Error(ErrorCode::BadConfig, problem,
              "at convert a QConfig may only stay as it was at prepare or become null");
}

/// Every key of prepare's level is there again, with the same QConfig or none.
template <typename Entry, typename Name>
void check_level(const std::vector<Entry>& prepared, const std::vector<Entry>& converted, const char* level,
                 const Name& name_of) {
  for (const auto& [key, qconfig] : prepared) {
    const auto found = std::ranges::find(converted, key, &Entry::first);
    if (found == converted.end())
      fail(fmt::format("the convert mapping lacks the {} '{}' of the prepare mapping", level,
                       std::invoke(name_of, key)));
    if (found->second && found->second != qconfig)
      fail(fmt::format("the convert mapping changes the QConfig of the {} '{}'", level,
                       std::invoke(name_of, key)));
  }
}

void check_mappings(const QConfigMapping& prepared, const QConfigMapping& converted) {
  if (prepared.global_qconfig() != converted.global_qconfig())
    fail("the convert mapping has another global QConfig than the prepare mapping");
  check_level(prepared.object_type_qconfigs(), converted.object_type_qconfigs(), "object type",
              &Symbol::name);
  check_level(prepared.module_name_qconfigs(), converted.module_name_qconfigs(), "module name",
              std::identity{});
  check_level(prepared.module_name_regex_qconfigs(), converted.module_name_regex_qconfigs(),
              "module name regex", std::identity{});
}

}  // namespace

bool apply_convert_mapping(ir::Model& model, const PassContext& context) {
  if (!context.convert_mapping) return false;
  check_mappings(context.mapping, *context.convert_mapping);
  bool has_changed = false;
  const auto lookups = match::find_qconfigs(model, *context.convert_mapping);
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    ir::NodeRecord* record = ir::record_of(model, node);
    const auto lookup = lookups.find(node);
    // Where there is none, prepare had none, or a recipe has left it float since.
    if (record == nullptr || lookup == lookups.end() || !record->lookup.qconfig) continue;
    const MaybeQConfig& qconfig = lookup->second.qconfig;
    if (qconfig && qconfig != record->lookup.qconfig)
      fail(fmt::format("the convert mapping changes the QConfig of {}", ir::display_name(model, node)));
    if (qconfig) continue;
    record->lookup.qconfig.reset();
    record->reason = ir::Reason::ConvertMapping;
    has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
