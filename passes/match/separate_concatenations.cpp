// A concatenation of values that others read too gets a range of its own. FX gives all of its inputs one
// range, that of the widest, so that the others lose codes wherever they are read.
//   obs1(a), obs1(b), cat([a, b]), obs1   becomes   obs1(a), obs2(b), cat([a, b]), obs3

#include <algorithm>

#include "ir/analysis.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/match/passes.h"

namespace tsq::passes {
namespace {

bool has_other_readers(const ir::Node* concatenation) {
  return std::ranges::any_of(ir::operands(concatenation), [](const ir::Value* operand) {
    return ir::holds_tensor(operand) && ir::users(operand).size() > 1;
  });
}

}  // namespace

bool separate_concatenations(ir::Model& model, const PassContext& /*context*/) {
  return change_each(model.matches, [&](ir::Match& match) {
    const bool separates = match.shares_observer && operators::is_one_of(model, match.root, {"cat"}) &&
                           has_other_readers(match.root);
    match.shares_observer &= !separates;
    return separates;
  });
}

}  // namespace tsq::passes
