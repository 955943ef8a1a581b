// Takes the QConfig away from operators that convert's own QConfigMapping names None (K-02): they are float
// again.

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>

#include "ir/analysis.h"
#include "match/qconfig_lookup.h"
#include "passes/placement/passes.h"

namespace tsq::passes {
namespace {

[[noreturn]] void fail(const std::string& problem) {
  throw Error(ErrorCode::BadConfig, problem,
              "at convert a QConfig may only stay as it was at prepare or become null");
}

/// Every key of prepare's level is there again, with the same QConfig or none.
template <typename Entries, typename Name>
void check_level(const Entries& prepared, const Entries& converted, const char* level, const Name& name_of) {
  for (const auto& entry : prepared) {
    const auto& [key, qconfig] = entry;
    const auto found = std::find_if(converted.begin(), converted.end(),
                                    [&](const auto& each) { return each.first == entry.first; });
    if (found == converted.end())
      fail(fmt::format("the convert mapping lacks the {} '{}' of the prepare mapping", level, name_of(key)));
    if (found->second && found->second != qconfig)
      fail(fmt::format("the convert mapping changes the QConfig of the {} '{}'", level, name_of(key)));
  }
}

void check_mappings(const QConfigMapping& prepared, const QConfigMapping& converted) {
  if (prepared.global_qconfig() != converted.global_qconfig())
    fail("the convert mapping has another global QConfig than the prepare mapping");
  check_level(prepared.object_type_qconfigs(), converted.object_type_qconfigs(), "object type",
              [](const Symbol& type) { return type.name; });
  const auto as_is = [](const std::string& name) { return name; };
  check_level(prepared.module_name_qconfigs(), converted.module_name_qconfigs(), "module name", as_is);
  check_level(prepared.module_name_regex_qconfigs(), converted.module_name_regex_qconfigs(),
              "module name regex", as_is);
}

}  // namespace

void apply_convert_mapping(ir::Model& gm, const QConfigMapping& prepared, const QConfigMapping& converted) {
  check_mappings(prepared, converted);
  const auto decisions = match::find_qconfigs(gm, converted);
  for (ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    const ir::NodeState* state = ir::state_of(gm, node);
    const auto decision = decisions.find(node);
    if (state == nullptr || decision == decisions.end()) continue;
    const MaybeQConfig& qconfig = decision->second.qconfig;
    // A recipe has left it float since.
    if (!state->qconfig) continue;
    if (qconfig && qconfig != state->qconfig)
      fail(fmt::format("the convert mapping changes the QConfig of {}", ir::display_name(gm, node)));
    ir::set_state(gm, node, {.observed = state->observed, .qconfig = qconfig});
  }
}

}  // namespace tsq::passes
