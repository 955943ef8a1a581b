// A concatenation of values that others read too gets a range of its own. FX gives all of its inputs one
// range, that of the widest, so that the others lose codes wherever they are read.
//   obs1(a), obs1(b), cat([a, b]), obs1   becomes   obs1(a), obs2(b), cat([a, b]), obs3

#include <algorithm>

#include "ir/analysis.h"
#include "operators/traits.h"
#include "passes/match/passes.h"

namespace tsq::passes {
namespace {

bool has_other_readers(const ir::Node* concatenation) {
  const auto operands = ir::operands(concatenation);
  return std::any_of(operands.begin(), operands.end(), [](const ir::Value* operand) {
    return ir::holds_tensor(operand) && ir::users(operand).size() > 1;
  });
}

}  // namespace

bool separate_concatenations(ir::Model& model, const PassContext& /*context*/) {
  bool changed = false;
  for (ir::Match& match : model.matches) {
    if (!match.shares_observer || !operators::is_one_of(model, match.root, {"cat"}) ||
        !has_other_readers(match.root))
      continue;
    match.shares_observer = false;
    changed = true;
  }
  return changed;
}

}  // namespace tsq::passes
