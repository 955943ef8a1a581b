// What observers of products have found goes to their layers, for round_weights.
//   x → observer → conv, and after it x → im2col → product observer   becomes   x → observer → conv

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "observers/observer_module.h"
#include "passes/context/nodes.h"
#include "passes/ranges/calls_of_layer.h"
#include "passes/ranges/passes.h"

namespace tsq::passes {
namespace {

using torch::jit::Module;

bool is_product_observer(const Model& model, const Node* node) {
  return ir::is_observer(node) &&
         ir::observer_of(model, node).spec.observer == observer_classes::kInputProducts;
}

/// The observer stands after its layer. Null where the layer is gone.
const Node* observed_call(const Model& model, const Node* observer) {
  const Node* node = observer->prev();
  while (node->kind() != c10::prim::Return && !ir::is_module_call(node)) node = node->prev();
  const std::string& path = ir::observer_of(model, observer).layer;
  return ir::is_module_call(node) && ir::call_of(model, node).path == path ? node : nullptr;
}

}  // namespace

bool take_input_products(Model& model, const PassContext& /*context*/) {
  PooledObservers inputs;
  const auto take = [&](Node* observer) {
    const Module& found = ir::observer_of(model, observer).module.value();
    const Node* layer = observed_call(model, observer);
    if (layer != nullptr && saw_data(found)) {
      inputs.add(*ir::weighted_of(ir::call_of(model, layer)), found,
                 found.attr("products").toTensor().size(-1));
    }
    observer->destroy();
  };
  const bool changed = change_nodes(
      model, [&](const Node* node) { return is_product_observer(model, node); }, take);
  inputs.to_each_call([](ir::Weighted& call, const Module& observer) {
    call.seen.input_products = observer.attr("products").toTensor();
  });
  give_to_unseen_calls(model, &ir::LayerStatistics::input_products,
                       [](const at::Tensor& products) { return products.defined(); });
  ir::eliminate_dead_code(*model.graph);
  return changed;
}

}  // namespace tsq::passes
