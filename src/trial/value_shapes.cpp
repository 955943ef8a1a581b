#include "trial/value_shapes.h"

#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "operators/inlined_graph.h"

namespace tsq::detail {
namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

/// Operators that return as many values as meet a condition.
constexpr std::array<std::string_view, 10> kSelecting{"aten::nonzero",           "aten::nonzero_numpy",
                                                      "aten::masked_select",     "aten::_unique",
                                                      "aten::_unique2",          "aten::unique_consecutive",
                                                      "aten::unique_dim",        "torchvision::nms",
                                                      "aten::repeat_interleave", "aten::argwhere"};

/// A tensor's value as a number of the program.
constexpr std::array<std::string_view, 6> kReading{"aten::Bool", "aten::Int",    "aten::Float",
                                                   "aten::item", "aten::tolist", "aten::is_nonzero"};

constexpr std::array<std::string_view, 9> kComparing{
    "aten::gt", "aten::lt",          "aten::ge",         "aten::le",         "aten::eq",
    "aten::ne", "aten::logical_and", "aten::logical_or", "aten::logical_not"};

template <std::size_t N>
bool is_one_of(const Node* node, const std::array<std::string_view, N>& names) {
  return std::ranges::find(names, std::string_view(node->kind().toQualString())) != names.end();
}

/// Traces read sizes as tensors and turn them back into numbers.
bool is_size(const Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::NumToTensor || node->kind() == c10::prim::Constant) return true;
  const bool is_arithmetic = node->kind() == c10::aten::mul || node->kind() == c10::aten::add ||
                             node->kind() == c10::aten::sub || node->kind() == c10::aten::floor_divide ||
                             node->kind() == c10::aten::div || node->kind() == c10::aten::detach;
  return is_arithmetic && is_size(node->input(0));
}

bool reads_value(const Node* node) {
  return is_one_of(node, kReading) && !node->inputs().empty() &&
         node->input(0)->type()->isSubtypeOf(*c10::TensorType::get()) && !is_size(node->input(0));
}

bool selects(const Node* node) {
  if (is_one_of(node, kSelecting)) return true;
  if (node->kind() == c10::aten::where) return node->inputs().size() == 1;
  if (node->kind() != c10::aten::index || node->inputs().size() < 2) return false;
  const Node* indices = node->input(1)->node();
  return std::ranges::any_of(indices->inputs(),
                             [](const Value* index) { return is_one_of(index->node(), kComparing); });
}

bool depends_on_values(const Block* block) {
  return std::ranges::any_of(block->nodes(), [](const Node* node) {
    return selects(node) || reads_value(node) || std::ranges::any_of(node->blocks(), depends_on_values);
  });
}

}  // namespace

bool has_value_dependent_shapes(const torch::jit::Module& model) {
  return depends_on_values(operators::inlined_graph(model, "forward")->block());
}

}  // namespace tsq::detail
