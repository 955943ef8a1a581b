// Weights that the model computes from its parameters alone are computed and packed now (L-07,
// torch/ao/quantization/fx/_lower_to_native_backend.py, fold_weight).
//   packed = linear_prepack(quantize(w * s), bias)   →   packed = an attribute

#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "backends/kernels/engine_packing.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/lower/weight_packing.h"
#include "passes/pack/passes.h"

namespace tsq::passes {
namespace {

/// Copies what a value is computed from into a graph of its own, attributes as constants. False where it
/// depends on the model's input or state.
class Slice {
 public:
  Slice(const Model& model, const std::unordered_set<std::string>& written)
      : model_(model), written_(written), graph_(std::make_shared<torch::jit::Graph>()) {}

  std::optional<c10::IValue> run(Value* value) {
    Value* result = copied(value);
    if (result == nullptr) return std::nullopt;
    graph_->registerOutput(result);
    torch::jit::GraphFunction function("packing", graph_, nullptr);
    torch::jit::Stack stack;
    function.run(stack);
    return stack.back();
  }

 private:
  Value* copied(Value* value) {
    if (const auto found = copies_.find(value); found != copies_.end()) return found->second;
    Node* node = value->node();
    if (node->kind() == c10::prim::GetAttr) return attribute(value);
    if (!is_computed_from_inputs_alone(node)) return nullptr;
    for (Value* input : node->inputs()) {
      if (copied(input) == nullptr) return nullptr;
    }
    Node* made = graph_->createClone(node, [&](Value* input) { return copies_.at(input); });
    graph_->insertNode(made);
    for (std::size_t i = 0; i < node->outputs().size(); ++i) copies_[node->output(i)] = made->output(i);
    return copies_.at(value);
  }

  static bool is_computed_from_inputs_alone(Node* node) {
    const bool known = node->kind().is_aten() || node->kind() == c10::prim::Constant ||
                       node->kind() == c10::prim::ListConstruct || node->kind() == c10::prim::TupleUnpack ||
                       std::string_view(node->kind().toQualString()).starts_with("quantized::");
    return known && node->blocks().empty() && !node->isNondeterministic() &&
           (node->maybeSchema() == nullptr || !node->schema().is_mutable());
  }

  Value* attribute(Value* value) {
    const Node* node = value->node();
    const std::string& name = node->s(c10::attr::name);
    if (node->input(0) != model_.graph->inputs().at(0) || written_.contains(name)) return nullptr;
    const c10::IValue held = model_.attributes.attr(name);
    const auto constant = torch::jit::tryInsertConstant(
        *graph_, held.isTensor() ? c10::IValue(held.toTensor().detach()) : held);
    return constant ? copies_[value] = *constant : nullptr;
  }

  const Model& model_;
  const std::unordered_set<std::string>& written_;
  std::shared_ptr<torch::jit::Graph> graph_;
  std::unordered_map<Value*, Value*> copies_;
};

}  // namespace

bool fold_packed_weights(Model& model, const PassContext& context) {
  bool has_changed = false;
  const auto written = ir::written_attributes(model);
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (!is_packing(node)) continue;
    const kernels::EnginePacking engine(context.target);
    const auto packed = Slice(model, written).run(node->output());
    if (!packed) continue;
    const torch::jit::WithInsertPoint guard(node);
    const std::string name = ir::scope_of(model, node).path + "_packed_params";
    node->output()->replaceAllUsesWith(ir::insert_attribute(model, name, *packed, packed->type()));
    node->destroy();
    has_changed = true;
  }
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
