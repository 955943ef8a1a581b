// The calls of one layer share its parameters again, where passes that worked on each call made equal ones.

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "passes/numerics/passes.h"

namespace tsq::passes {
namespace {

/// Gives `parameter` the memory of an equal tensor among `known`, or joins them.
void share(at::Tensor& parameter, std::vector<at::Tensor>& known) {
  if (!parameter.defined()) return;
  const auto equal = std::ranges::find_if(known, [&](const at::Tensor& other) {
    return other.scalar_type() == parameter.scalar_type() && at::equal(other, parameter);
  });
  if (equal == known.end()) {
    known.push_back(parameter);
  } else {
    parameter = *equal;
  }
}

}  // namespace

void share_parameters(ir::Model& gm) {
  std::map<std::string, std::vector<at::Tensor>> weights;  // by the path of the layer
  std::map<std::string, std::vector<at::Tensor>> biases;
  for (ir::ModuleCall& call : gm.calls) {
    ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr) continue;
    share(weighted->weight, weights[call.path]);
    share(weighted->bias, biases[call.path]);
  }
}

}  // namespace tsq::passes
