// Products of what each row of a weight meets, for round_weights.
//   x → observer → conv   becomes   x → observer → conv, and beside it x → im2col → product observer

#include <fmt/format.h>

#include "modules/kernel_arguments.h"
#include "modules/weighted.h"
#include "observers/observer_module.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;

/// A matrix of more columns would take more than 16 MB.
constexpr int64_t kMostColumns = 2048;

/// One of each for height and width.
struct Window {
  std::vector<int64_t> kernel{};
  std::vector<int64_t> dilation{};
  std::vector<int64_t> padding{};
  std::vector<int64_t> stride{};
};

/// Empty for convolutions that im2col has no arguments for.
std::optional<Window> window_of(const ir::Weighted& weighted) {
  const std::size_t dims = weighted.stride.size();
  if (dims < 1 || dims > 2 || weighted.padding_mode != "zeros") return std::nullopt;
  Window window;
  if (dims == 1) window = {.kernel = {1}, .dilation = {1}, .padding = {0}, .stride = {1}};
  for (std::size_t i = 0; i < dims; ++i) {
    const int64_t kernel = weighted.weight.size(static_cast<int64_t>(i) + 2);
    const int64_t reach = weighted.dilation[i] * (kernel - 1);
    if (weighted.padding_name == "same" && reach % 2 != 0) return std::nullopt;
    int64_t padding = weighted.padding_name.empty() ? weighted.padding[i] : 0;
    if (weighted.padding_name == "same") padding = reach / 2;
    window.kernel.push_back(kernel);
    window.dilation.push_back(weighted.dilation[i]);
    window.padding.push_back(padding);
    window.stride.push_back(weighted.stride[i]);
  }
  return window;
}

const ir::Weighted* observed_layer(const GraphModule& gm, const Node* node) {
  if (!ir::is_module_call(node) || ir::is_standalone(gm, node)) return nullptr;
  const ir::ModuleCall& call = ir::call_of(gm, node);
  const ir::NodeState* state = ir::state_of(gm, node);
  const Symbol root = call.members.empty() ? call.type : call.members.front().type;
  const ir::Weighted* weighted = ir::weighted_of(call);
  if (weighted == nullptr || modules::is_transposed(root) || state == nullptr || !state->observed ||
      !state->qconfig || resolve(state->qconfig->activation).is_dynamic)
    return nullptr;
  return weighted->weight.numel() / weighted->weight.size(0) <= kMostColumns ? weighted : nullptr;
}

/// What the rows of the weight are multiplied with, along axis -2; the input itself, along the last axis, for
/// a linear layer. Null where it cannot be told.
Value* met_by_rows(GraphModule& gm, const ir::Weighted& weighted, Node* node) {
  Value* input = node->input(0);
  if (weighted.stride.empty()) return input;
  const auto window = window_of(weighted);
  if (!window) return nullptr;
  if (weighted.stride.size() == 1) {
    constexpr int64_t kHeight = -2;
    input = modules::insert_before(gm, node, "aten::unsqueeze",
                                   {input, modules::constant_before(gm, node, kHeight)});
  }
  return modules::insert_before(gm, node, "aten::im2col",
                                {input, modules::constant_before(gm, node, window->kernel),
                                 modules::constant_before(gm, node, window->dilation),
                                 modules::constant_before(gm, node, window->padding),
                                 modules::constant_before(gm, node, window->stride)});
}

bool is_product_observer(const GraphModule& gm, const Node* node) {
  return ir::is_observer(node) &&
         gm.observers[ir::observer_index(node)].spec.observer == "InputProductsObserver";
}

/// The observer stands in front of its layer.
Node* layer_behind(const GraphModule& gm, Node* observer) {
  Node* node = observer->next();
  while (node->kind() != c10::prim::Return && !ir::is_module_call(node)) node = node->next();
  const std::string& path = gm.observers[ir::observer_index(observer)].layer;
  return ir::is_module_call(node) && ir::call_of(gm, node).path == path ? node : nullptr;
}

/// Takes away a value that nobody uses, and what made it for the observer alone.
void destroy_unused(Node* node) {
  const bool made_here =
      ir::is_observer(node) || node->kind() == c10::aten::im2col || node->kind() == c10::aten::unsqueeze;
  if (!made_here || node->hasUses()) return;
  Node* producer = node->input(0)->node();
  node->destroy();
  destroy_unused(producer);
}

}  // namespace

void observe_input_products(GraphModule& gm) {
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    const ir::Weighted* weighted = observed_layer(gm, node);
    if (weighted == nullptr) continue;
    Value* met = met_by_rows(gm, *weighted, node);
    if (met == nullptr) continue;
    const int64_t columns = weighted->weight.numel() / weighted->weight.size(0);
    gm.observers.push_back({fmt::format("activation_post_process_{}", gm.observers.size()),
                            {.observer = "InputProductsObserver",
                             .ch_axis = weighted->stride.empty() ? -1 : -2,
                             .group_size = columns},
                            ir::call_of(gm, node).path});
    Value* seen = ir::insert_observer(gm, met, gm.observers.size() - 1)->output();
    seen->node()->moveBefore(node);
  }
}

void take_input_products(GraphModule& gm, std::span<const torch::jit::Module> observers) {
  for (Node* observer : ir::nodes_in_order(*gm.graph)) {
    if (!is_product_observer(gm, observer)) continue;
    const torch::jit::Module& found = observers[ir::observer_index(observer)];
    if (Node* layer = layer_behind(gm, observer); layer != nullptr && saw_data(found))
      ir::weighted_of(ir::call_of(gm, layer))->input_products = found.attr("products").toTensor();
    destroy_unused(observer);
  }
}

}  // namespace tsq::passes
