// Results of comparisons have no range.
//   c = gt(x, 0); o = observer(c); y = mul(x, o)   becomes   c = gt(x, 0); y = mul(x, c)

#include <algorithm>
#include <array>

#include "ir/analysis.h"
#include "passes/context/nodes.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

bool is_comparison(const ir::Node* node) {
  constexpr std::array kComparisons{c10::aten::eq, c10::aten::ne, c10::aten::lt,
                                    c10::aten::le, c10::aten::gt, c10::aten::ge};
  return std::ranges::find(kComparisons, node->kind()) != kComparisons.end();
}

}  // namespace

bool leave_conditions(ir::Model& model, const PassContext& /*context*/) {
  return change_nodes(model, [](Node* node) {
    if (!ir::is_observer(node) || !is_comparison(node->input(0)->node())) return false;
    bypass(node);
    return true;
  });
}

}  // namespace tsq::passes
