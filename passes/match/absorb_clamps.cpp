// A clamp after an operator becomes part of its match, so that the range is observed after the clamp.
//   x → conv → obs → hardtanh → obs   becomes   x → conv → hardtanh → obs
// FX observes the convolution's own output, most of which the clamp cuts away: the few codes that are left
// carry the values.

#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "operators/clamp_bounds.h"
#include "passes/match/matches.h"
#include "passes/match/passes.h"

namespace tsq::passes {
namespace {

using ir::Match;

/// Whether the results of two operators are observed alike. Transposed convolutions have other weights.
bool round_alike(const ir::NodeRecord* a, const ir::NodeRecord* b) {
  if (a == nullptr || b == nullptr || !a->lookup.qconfig || !b->lookup.qconfig) return false;
  return match::is_static(*a->lookup.qconfig) && match::is_static(*b->lookup.qconfig) &&
         a->lookup.qconfig->activation == b->lookup.qconfig->activation;
}

/// The clamp that alone reads what `match` computes, observed alike; null where there is none.
Node* clamp_after(const Model& model, const Match& match) {
  if (match.shares_observer) return nullptr;
  Node* reader = ir::only_reader(match.last);
  if (reader == nullptr || reader->owningBlock() != match.last->owningBlock() ||
      !operators::clamp_bounds(model, reader) || ir::operands(reader).front() != match.last->output())
    return nullptr;
  const ir::NodeRecord* record = ir::record_of(model, reader);
  const bool is_of_several =
      record != nullptr && record->match && model.matches[*record->match].nodes.size() != 1;
  return !is_of_several && round_alike(ir::record_of(model, match.last), record) ? reader : nullptr;
}

}  // namespace

bool absorb_clamps(Model& model, const PassContext& /*context*/) {
  bool changed = false;
  for (std::size_t i = 0; i < model.matches.size(); ++i) {
    Match& match = model.matches[i];
    if (match.nodes.empty()) continue;
    while (Node* clamp = clamp_after(model, match)) {
      ir::NodeRecord& record = ir::record_for(model, clamp);
      if (record.match) model.matches[*record.match].nodes.clear();
      record.match = i;
      match.nodes.insert(match.nodes.begin(), clamp);
      match.last = clamp;
      changed = true;
    }
  }
  remove_empty_matches(model);
  return changed;
}

}  // namespace tsq::passes
