// The calls of one layer share its parameters again, where passes that worked on each call made equal ones.

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "passes/weights/passes.h"

namespace tsq::passes {
namespace {

/// Gives `parameter` the memory of an equal tensor among `known`, or joins them; whether its memory is
/// another then.
bool share(at::Tensor& parameter, std::vector<at::Tensor>& known) {
  if (!parameter.defined()) return false;
  const auto equal = std::ranges::find_if(known, [&](const at::Tensor& other) {
    return other.scalar_type() == parameter.scalar_type() && at::equal(other, parameter);
  });
  if (equal == known.end()) {
    known.push_back(parameter);
    return false;
  }
  const bool has_changed = !parameter.is_same(*equal);
  parameter = *equal;
  return has_changed;
}

}  // namespace

bool share_parameters(ir::Model& model, const PassContext&) {
  bool has_changed = false;
  std::map<std::string, std::vector<at::Tensor>> weights;  // by the path of the layer
  std::map<std::string, std::vector<at::Tensor>> biases;
  for (ir::ModuleCall& call : model.calls) {
    ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr) continue;
    has_changed |= share(weighted->weight, weights[call.path]);
    has_changed |= share(weighted->bias, biases[call.path]);
  }
  return has_changed;
}

}  // namespace tsq::passes
