#include "operators/inlined_graph.h"

#include <torch/csrc/jit/passes/inliner.h>

namespace tsq::operators {

std::shared_ptr<ir::Graph> inlined_graph(const torch::jit::Module& module, const std::string& method) {
  const auto found = module.find_method(method);
  if (!found) return nullptr;
  auto graph = torch::jit::toGraphFunction(found->function()).graph()->copy();
  torch::jit::Inline(*graph);
  return graph;
}

}  // namespace tsq::operators
