// A clamp after an operator becomes part of its match, so that the range is observed after the clamp.
//   x → conv → obs → hardtanh → obs   becomes   x → conv → hardtanh → obs
// FX observes the convolution's own output, most of which the clamp cuts away: the few codes that are left
// carry the values.

#include <algorithm>

#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "operators/clamp_bounds.h"
#include "passes/match/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;

const MaybeQConfig* qconfig_of(const MatchTable& table, const Node* node) {
  const auto found = table.qconfig_of.find(node);
  return found == table.qconfig_of.end() ? nullptr : &found->second.qconfig;
}

/// The clamp that alone reads what `match` computes, under the same QConfig; null where there is none.
Node* clamp_after(const Model& gm, const MatchTable& table, const Match& match) {
  if (match.shares_observer || match.last->outputs().size() != 1) return nullptr;
  const auto& uses = match.last->output()->uses();
  if (uses.size() != 1) return nullptr;
  Node* user = uses.front().user;
  if (user->owningBlock() != match.last->owningBlock() || !operators::clamp_bounds(gm, user)) return nullptr;
  if (ir::operands(user).front() != match.last->output()) return nullptr;
  const auto found = table.match_of.find(user);
  if (found != table.match_of.end() && table.matches[found->second].nodes.size() != 1) return nullptr;
  const MaybeQConfig* own = qconfig_of(table, match.last);
  const MaybeQConfig* clamps = qconfig_of(table, user);
  return own != nullptr && clamps != nullptr && *own && match::is_static(**own) && *own == *clamps ? user
                                                                                                   : nullptr;
}

}  // namespace

void absorb_clamps(const Model& gm, MatchTable& table) {
  for (std::size_t i = 0; i < table.matches.size(); ++i) {
    Match& match = table.matches[i];
    if (match.nodes.empty()) continue;
    while (Node* clamp = clamp_after(gm, table, match)) {
      if (const auto own = table.match_of.find(clamp); own != table.match_of.end())
        table.matches[own->second].nodes.clear();
      table.match_of[clamp] = i;
      match.nodes.insert(match.nodes.begin(), clamp);
      match.last = clamp;
    }
  }
  remove_empty_matches(table);
}

}  // namespace tsq::passes
