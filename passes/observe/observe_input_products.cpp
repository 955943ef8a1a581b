// Products of what each row of a weight meets, for round_weights.
//   x → observer → conv   becomes   x → observer → conv, and after it x → im2col → product observer

#include <limits>
#include <optional>
#include <vector>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

/// A matrix of more columns would take more than 16 MB.
constexpr int64_t kMostColumns = 2048;
/// So many windows, or rows, of a tensor are taken at most, evenly spread: neighbours say the same. Fewer
/// where their products would cost more than half of the layer's own, down to the fewest, unless the effort
/// is high. Of n in all, the least error that rounding finds is too good by a share of about columns / n.
constexpr int64_t kMostWindows = 512;
constexpr int64_t kFewestWindows = 32;

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

int64_t columns_of(const ir::Weighted& weighted) { return weighted.weight.numel() / weighted.weight.size(0); }

const ir::Weighted* layer_to_round(const Model& model, const Node* node) {
  const ir::Weighted* weighted = observed_layer(model, node);
  return weighted != nullptr && columns_of(*weighted) <= kMostColumns ? weighted : nullptr;
}

/// Of how many windows of `input` one is taken, less one. A window has `values` values of its own.
Value* windows_for_one(const ir::Weighted& weighted, Effort effort, int64_t values, Value* input,
                       Node* before) {
  const auto of_integers = [before](const char* kind, Value* left, const c10::IValue& right) {
    return ir::insert_before(before, kind, {left, ir::constant_before(before, right)}, c10::IntType::get());
  };
  const int64_t outputs_of_group = weighted.weight.size(0) / weighted.groups;
  const int64_t for_half_of_layer = effort == Effort::High ? 0 : 2 * columns_of(weighted) / outputs_of_group;
  Value* count = ir::insert_before(before, "aten::numel", {input}, c10::IntType::get());
  Value* wanted = of_integers("aten::floordiv", count, values * kMostWindows);
  wanted = of_integers("prim::max", wanted, for_half_of_layer);
  Value* most = of_integers("aten::floordiv", count, values * kFewestWindows);
  return ir::insert_before(before, "prim::min", {wanted, most}, c10::IntType::get());
}

/// The convolution's strides times what leaves that many of them.
Value* wide_strides(const ir::Weighted& weighted, Effort effort, const Window& window, Value* input,
                    Node* before) {
  const auto constant = [&](const c10::IValue& value) { return ir::constant_before(before, value); };
  const int64_t values_of_window =
      weighted.weight.size(1) * weighted.groups * window.stride[0] * window.stride[1];
  const bool is_image = weighted.stride.size() == 2;
  Value* times = windows_for_one(weighted, effort, values_of_window, input, before);
  if (is_image) {
    Value* root = ir::insert_before(before, "aten::sqrt", {times}, c10::FloatType::get());
    times = ir::insert_before(before, "aten::floor", {root}, c10::IntType::get());
  }
  times = ir::insert_before(before, "aten::add", {times, constant(int64_t{1})}, c10::IntType::get());
  const auto wide = [&](int64_t stride) {
    return ir::insert_before(before, "aten::mul", {times, constant(stride)}, c10::IntType::get());
  };
  Value* height = is_image ? wide(window.stride[0]) : constant(int64_t{1});
  Value* width = wide(window.stride[1]);
  return ir::list_before(before, c10::IntType::get(), {height, width});
}

/// Rows of a linear layer's input: one, then as many as windows_for_one says are left out, and so on.
Value* spread_rows(const ir::Weighted& weighted, Effort effort, Value* input, Node* before) {
  const auto constant = [&](const c10::IValue& value) { return ir::constant_before(before, value); };
  const int64_t columns = columns_of(weighted);
  Value* step = ir::insert_before(
      before, "aten::add", {windows_for_one(weighted, effort, columns, input, before), constant(int64_t{1})},
      c10::IntType::get());
  Value* rows =
      ir::insert_before(before, "aten::reshape", {input, constant(std::vector<int64_t>{-1, columns})});
  return ir::insert_before(before, "aten::slice",
                           {rows, constant(int64_t{0}), constant(int64_t{0}),
                            constant(std::numeric_limits<int64_t>::max()), step});
}

/// What the rows of the weight are multiplied with, along axis -2; along the last axis for a linear layer.
/// Null where it cannot be told.
Value* met_by_rows(const ir::Weighted& weighted, Effort effort, Value* input, Node* before) {
  if (weighted.stride.empty()) return spread_rows(weighted, effort, input, before);
  const auto window = window_of(weighted);
  if (!window) return nullptr;
  if (weighted.stride.size() == 1) {
    constexpr int64_t kHeight = -2;
    input = ir::insert_before(before, "aten::unsqueeze", {input, ir::constant_before(before, kHeight)});
  }
  return ir::insert_before(
      before, "aten::im2col",
      {input, ir::constant_before(before, window->kernel), ir::constant_before(before, window->dilation),
       ir::constant_before(before, window->padding), wide_strides(weighted, effort, *window, input, before)});
}

}  // namespace

bool observe_input_products(Model& model, const PassContext& context) {
  return change_nodes(model, [&](Node* node) {
    const ir::Weighted* weighted = layer_to_round(model, node);
    if (weighted == nullptr) return false;
    // After the layer: of a tensor that it cannot read, it says so itself.
    Node* before = node->next();
    Value* met = met_by_rows(*weighted, context.options.effort, node->input(0), before);
    if (met == nullptr) return false;
    const ObserverSpec spec{.observer = observer_classes::kInputProducts,
                            .ch_axis = weighted->stride.empty() ? -1 : -2,
                            .group_size = columns_of(*weighted)};
    insert_observer_before(model, met, new_observer(model, spec, ir::call_of(model, node).path), before);
    return true;
  });
}

}  // namespace tsq::passes
