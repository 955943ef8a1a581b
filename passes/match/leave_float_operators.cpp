// Operators stay float for what they are, or for what is computed from them. Their kinds, constants and
// weights say so: no range, size or dtype of a value is needed.
//   log(clamp(linear(x))): {linear}   →   linear
// One rule for each reason; the first that holds is told.

#include <algorithm>
#include <array>

#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "operators/amplified.h"
#include "operators/images/whole_average.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/match/matches.h"
#include "passes/match/passes.h"
#include "torchscript/modules/embedding.h"

namespace tsq::passes {
namespace {

using ir::Match;
using ir::Reason;

/// The table whose rows a match looks up; null for others.
const ir::EmbeddingTable* table_of(const Model& model, const Match& match) {
  if (!ir::is_module_call(match.root)) return nullptr;
  const auto& table = ir::call_of(model, match.root).embedding;
  return table ? &*table : nullptr;
}

/// A few columns take less than their scale and smallest value do.
bool has_short_rows(const Model& model, const Match& match) {
  const ir::EmbeddingTable* table = table_of(model, match);
  const MaybeQConfig& qconfig = qconfig_of(model, match.last);
  if (table == nullptr || !match::is_weight_only(*qconfig) || table->weight.dim() != 2) return false;
  const int64_t row = torchscript::bytes_of_row(table->weight.size(1), resolve(qconfig->weight).dtype);
  return row >= table->weight.size(1) * static_cast<int64_t>(sizeof(float));
}

/// Products of activations and what is computed with them have a wide range, and no engine is fast with them.
bool is_of_attention(const Model& model, const Match& match) {
  return is_static(model, match) && operators::is_of_attention(model, match.root);
}

/// An average uses a small part of the range of its map, in which the quantized pool rounds.
bool is_whole_average(const Model& model, const Match& match) {
  return is_static(model, match) && operators::is_whole_average(model, match.root);
}

/// A logarithm and its like are steep where the values are small: those that rounding makes zero would be
/// its largest results.
bool is_amplified(const Model& model, const Match& match) {
  const bool rounds = table_of(model, match) != nullptr || is_static(model, match) ||
                      (has_weight(model, match) && is_dynamic(model, match));
  return rounds && std::ranges::any_of(match.last->outputs(), [&](const Value* value) {
           return operators::is_amplified(model, value);
         });
}

struct Rule {
  Reason reason{};
  bool (*holds)(const Model& model, const Match& match){};
};

constexpr std::array kRules{
    Rule{Reason::ShortRows, has_short_rows},
    Rule{Reason::OfAttention, is_of_attention},
    Rule{Reason::WholeAverage, is_whole_average},
    Rule{Reason::Amplified, is_amplified},
};

/// A module that is quantized by itself is what the user says it is.
bool is_of_the_user(const Model& model, const Match& match) {
  return ir::is_standalone(model, match.root) ||
         (ir::is_opaque(model, match.root) && is_static(model, match));
}

}  // namespace

bool leave_float_operators(Model& model, const PassContext& /*context*/) {
  const bool has_changed = change_each(model.matches, [&](Match& match) {
    if (!qconfig_of(model, match.last) || is_of_the_user(model, match)) return false;
    const auto* const rule =
        std::ranges::find_if(kRules, [&](const Rule& each) { return each.holds(model, match); });
    if (rule != kRules.end()) leave_match_float(model, match, rule->reason);
    return rule != kRules.end();
  });
  remove_empty_matches(model);
  return has_changed;
}

}  // namespace tsq::passes
