#include "passes/capture/other_methods.h"

#include <string>

#include "passes/capture/evaluate_python.h"
#include "passes/capture/inline_calls.h"
#include "passes/capture/leaf_modules.h"
#include "passes/capture/module_calls.h"
#include "passes/capture/module_choice.h"

namespace tsq::passes {
namespace {

/// Methods that others are made of are left out when their names start with an underscore: nobody is meant to
/// call them, and they would hold the float weights.
bool is_for_users(const Capturing& state, const std::string& method) {
  return !is_forward(method) && !method.starts_with("__") &&
         !(method.starts_with("_") && state.called_methods.contains(method));
}

}  // namespace

bool opens_methods(const torch::jit::Module& model, const PrepareCustomConfig& custom) {
  if (!custom.input_quantized_indexes().empty() || !custom.output_quantized_indexes().empty()) return false;
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.is_floating_point() && parameter.scalar_type() != c10::ScalarType::Float) return false;
  }
  return true;
}

void capture_other_methods(Capturing& state) {
  const auto forward = state.model.graph;
  state.in_other_method = true;
  for (const auto& method : state.source.module.get_methods()) {
    if (!is_for_users(state, method.name())) continue;
    const auto graph = inline_calls(state, method);
    if (!looks_into_leaves(state)) {
      evaluate_python(graph);
      make_module_calls(state);
    }
    keep_chosen_modules(state, *graph);
    state.model.methods.push_back(
        {.name = method.name(), .graph = graph, .schema = method.function().getSchema()});
  }
  state.in_other_method = false;
  state.model.graph = forward;
}

}  // namespace tsq::passes
