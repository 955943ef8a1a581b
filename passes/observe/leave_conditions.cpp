#include "passes/train/leave_conditions.h"

#include <algorithm>
#include <array>

#include "ir/analysis.h"

namespace tsq::passes {
namespace {

bool is_comparison(const ir::Node* node) {
  constexpr std::array kComparisons{c10::aten::eq, c10::aten::ne, c10::aten::lt,
                                    c10::aten::le, c10::aten::gt, c10::aten::ge};
  return std::ranges::find(kComparisons, node->kind()) != kComparisons.end();
}

}  // namespace

void leave_conditions(ir::Model& gm) {
  for (ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!ir::is_observer(node) || !is_comparison(node->input(0)->node())) continue;
    node->output()->replaceAllUsesWith(node->input(0));
    node->destroy();
  }
}

}  // namespace tsq::passes
