// Models in half, bfloat16 or double precision → the same in float, between casts at inputs and outputs.
//   y = conv(x); z = softmax(y, dtype=half)   →   y = conv(float(x)); z = half(softmax(y, dtype=float))

#include <algorithm>

#include "ir/analysis.h"
#include "ir/cast.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "passes/capture/dtypes/cast_boundary.h"
#include "passes/capture/dtypes/dtype_origins.h"
#include "passes/capture/dtypes/float_tensors.h"
#include "passes/capture/dtypes/replaced_dtypes.h"
#include "passes/capture/dtypes/told_dtypes.h"
#include "passes/capture/float_code.h"
#include "passes/capture/passes.h"

namespace tsq::passes {
namespace {

/// Whether some operator of the graph writes into a tensor.
bool writes_tensors(ir::Graph& graph) {
  return std::ranges::any_of(ir::nodes_in_order(graph), [](const Node* node) {
    return node->kind().is_aten() && node->maybeSchema() != nullptr && node->schema().is_mutable();
  });
}

void forget_dtypes(Node* node) {
  for (Value* output : node->outputs()) {
    const auto type = output->type()->cast<c10::TensorType>();
    if (type && type->scalarType()) output->setType(c10::TensorType::get());
  }
}

/// Of a graph whose operators become float.
struct GraphInFloat {
  const Dtypes& replaced;
  DtypeOrigins origins{};  ///< as they were in the user's model
  bool writes_tensors{false};
};

bool becomes_float(const GraphInFloat& graph, ScalarType dtype) {
  return replacement(graph.replaced, dtype) == ScalarType::Float;
}

/// What was a copy in another dtype would now be the same tensor.
void replace_cast(const GraphInFloat& graph, Node* node, ScalarType dtype) {
  Value* source = node->input(0);
  const DtypeOrigin origin = graph.origins.of(source);
  const bool was_float =
      origin.dtype && becomes_float(graph, *origin.dtype) && graph.origins.floats.contains(source);
  if (was_float && !graph.writes_tensors) {
    node->output()->replaceAllUsesWith(source);
    return;
  }
  const auto copy = argument_position(node, "copy");
  if (!copy || !graph.writes_tensors || origin.dtype == dtype) return;
  node->replaceInput(*copy, ir::constant_before(node, true));
}

void replace_dtype(const GraphInFloat& graph, Node* node) {
  const auto dtype = constant_dtype(node);
  if (!dtype) return;
  replace_told_dtype(node, graph.replaced);
  if (node->kind() == c10::aten::to && becomes_float(graph, *dtype)) replace_cast(graph, node, *dtype);
}

void compute_graph_in_float(ir::Model& model, ir::Graph& graph, const Dtypes& replaced, const Dtypes& told,
                            FloatTensors& tensors) {
  const GraphInFloat in_float{
      .replaced = replaced, .origins = dtype_origins(model, graph), .writes_tensors = writes_tensors(graph)};
  for (Node* node : ir::LiveNodes(graph)) {
    forget_dtypes(node);
    replace_constant(node, tensors);
    replace_dtype(in_float, node);
  }
  cast_boundary(model, graph, replaced, told, in_float.origins);
  ir::eliminate_dead_code(graph);
}

}  // namespace

bool compute_in_float(ir::Model& model, const PassContext& /*context*/) {
  const auto [replaced, told] = dtypes_of_layers(model);
  if (replaced.empty()) return false;
  FloatTensors tensors(replaced);
  // Dtypes of values are told by the parameters as they are in the model.
  for (const auto& graph : graphs_of(model)) compute_graph_in_float(model, *graph, replaced, told, tensors);
  tensors.replace_in(model.attributes);
  for (ir::ModuleCall& call : model.calls) {
    if (!call.module || call.type.name == ir::kCastType) continue;
    replace_in_code(*call.module, replaced, tensors);
    tensors.replace_in(*call.module);
  }
  return true;
}

}  // namespace tsq::passes
