// Modules that return their input in evaluation go away: tracing and freezing drop them too, and an observer
// behind one would round a value twice.
//   y = Identity(x); z = conv(y)   →   z = conv(x)

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <array>

#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;

constexpr std::array<std::string_view, 7> kIdentities{
    "torch.nn.Identity",  "torch.nn.Dropout",      "torch.nn.Dropout1d",          "torch.nn.Dropout2d",
    "torch.nn.Dropout3d", "torch.nn.AlphaDropout", "torch.nn.FeatureAlphaDropout"};
constexpr std::array<c10::Symbol, 3> kDropouts{c10::aten::dropout, c10::aten::alpha_dropout,
                                               c10::aten::feature_dropout};

bool is_training(const torch::jit::Module& module) {
  return module.hasattr("training") && module.attr("training").toBool();
}

bool returns_its_input(const GraphModule& gm, const Node* node) {
  if (ir::is_module_call(node)) {
    const ir::ModuleCall& call = ir::call_of(gm, node);
    return std::ranges::find(kIdentities, call.type.name) != kIdentities.end() && call.module &&
           !is_training(*call.module);
  }
  if (std::ranges::find(kDropouts, node->kind()) == kDropouts.end()) return false;
  const auto training = torch::jit::toIValue(node->input(2));
  return training && training->isBool() && !training->toBool();
}

}  // namespace

void drop_identities(GraphModule& gm) {
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!returns_its_input(gm, node) || node->inputs().empty() || node->outputs().size() != 1) continue;
    node->output()->replaceAllUsesWith(node->input(0));
    node->destroy();
  }
}

}  // namespace tsq::passes
