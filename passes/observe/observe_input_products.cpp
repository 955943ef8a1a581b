// Products of what each row of a weight meets, for round_weights.
//   x → observer → conv   becomes   x → observer → conv, and after it x → im2col → product observer

#include <fmt/format.h>

#include "config/observer_classes.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

/// A matrix of more columns would take more than 16 MB.
constexpr int64_t kMostColumns = 2048;
/// So many windows of a tensor are cut out at most, evenly spread: neighbours say the same.
constexpr int64_t kMostWindows = 512;

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

const ir::Weighted* layer_to_round(const Model& gm, const Node* node) {
  const ir::Weighted* weighted = observed_layer(gm, node);
  const bool fits =
      weighted != nullptr && weighted->weight.numel() / weighted->weight.size(0) <= kMostColumns;
  return fits ? weighted : nullptr;
}

Value* number(Model& gm, Node* before, const char* kind, const std::vector<Value*>& inputs,
              const c10::TypePtr& type) {
  Value* result = ir::insert_before(gm, before, kind, inputs);
  result->setType(type);
  return result;
}

/// The convolution's strides times what leaves no more than kMostWindows of them.
Value* wide_strides(Model& gm, const ir::Weighted& weighted, const Window& window, Value* input,
                    Node* before) {
  const auto constant = [&](const c10::IValue& value) { return ir::constant_before(gm, before, value); };
  const int64_t values_of_window =
      weighted.weight.size(1) * weighted.groups * window.stride[0] * window.stride[1];
  const bool is_image = weighted.stride.size() == 2;
  Value* values = number(gm, before, "aten::numel", {input}, c10::IntType::get());
  Value* times = number(gm, before, "aten::floordiv", {values, constant(values_of_window * kMostWindows)},
                        c10::IntType::get());
  if (is_image) {
    Value* root = number(gm, before, "aten::sqrt", {times}, c10::FloatType::get());
    times = number(gm, before, "aten::floor", {root}, c10::IntType::get());
  }
  times = number(gm, before, "aten::add", {times, constant(int64_t{1})}, c10::IntType::get());
  const auto wide = [&](int64_t stride) {
    return number(gm, before, "aten::mul", {times, constant(stride)}, c10::IntType::get());
  };
  Node* strides = gm.graph->createList(
      c10::IntType::get(),
      {is_image ? wide(window.stride[0]) : constant(int64_t{1}), wide(window.stride[1])});
  strides->insertBefore(before);
  return strides->output();
}

/// What the rows of the weight are multiplied with, along axis -2; the input itself, along the last axis, for
/// a linear layer. Null where it cannot be told.
Value* met_by_rows(Model& gm, const ir::Weighted& weighted, Value* input, Node* before) {
  if (weighted.stride.empty()) return input;
  const auto window = window_of(weighted);
  if (!window) return nullptr;
  if (weighted.stride.size() == 1) {
    constexpr int64_t kHeight = -2;
    input =
        ir::insert_before(gm, before, "aten::unsqueeze", {input, ir::constant_before(gm, before, kHeight)});
  }
  return ir::insert_before(
      gm, before, "aten::im2col",
      {input, ir::constant_before(gm, before, window->kernel),
       ir::constant_before(gm, before, window->dilation), ir::constant_before(gm, before, window->padding),
       wide_strides(gm, weighted, *window, input, before)});
}

bool is_product_observer(const Model& gm, const Node* node) {
  return ir::is_observer(node) &&
         gm.observers[ir::observer_index(node)].spec.observer == observer_classes::kInputProducts;
}

/// The observer stands after its layer.
Node* layer_of(const Model& gm, Node* observer) {
  Node* node = observer->prev();
  while (node->kind() != c10::prim::Return && !ir::is_module_call(node)) node = node->prev();
  const std::string& path = gm.observers[ir::observer_index(observer)].layer;
  return ir::is_module_call(node) && ir::call_of(gm, node).path == path ? node : nullptr;
}

}  // namespace

void observe_input_products(Model& gm) {
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    const ir::Weighted* weighted = layer_to_round(gm, node);
    if (weighted == nullptr) continue;
    // After the layer: of a tensor that it cannot read, it says so itself.
    Node* before = node->next();
    Value* met = met_by_rows(gm, *weighted, node->input(0), before);
    if (met == nullptr) continue;
    const int64_t columns = weighted->weight.numel() / weighted->weight.size(0);
    gm.observers.push_back({fmt::format("activation_post_process_{}", gm.observers.size()),
                            {.observer = observer_classes::kInputProducts,
                             .ch_axis = weighted->stride.empty() ? -1 : -2,
                             .group_size = columns},
                            ir::call_of(gm, node).path});
    Value* seen = ir::insert_observer(gm, met, gm.observers.size() - 1)->output();
    seen->node()->moveBefore(before);
  }
}

void take_input_products(Model& gm, std::span<const torch::jit::Module> observers) {
  PooledObservers inputs;
  for (Node* observer : ir::nodes_in_order(*gm.graph)) {
    if (!is_product_observer(gm, observer)) continue;
    const torch::jit::Module& found = observers[ir::observer_index(observer)];
    if (Node* layer = layer_of(gm, observer); layer != nullptr && saw_data(found)) {
      inputs.add(*ir::weighted_of(ir::call_of(gm, layer)), found, found.attr("products").toTensor().size(-1));
    }
    observer->destroy();
  }
  inputs.to_each_call([](ir::Weighted& call, const torch::jit::Module& observer) {
    call.input_products = observer.attr("products").toTensor() / observer.attr("values").toInt();
  });
  give_to_unseen_calls(gm, &ir::Weighted::input_products,
                       [](const at::Tensor& products) { return products.defined(); });
  ir::eliminate_dead_code(*gm.graph);
}

}  // namespace tsq::passes
