#include "support/rounded_constants.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "ir/analysis.h"
#include "ir/model.h"
#include "operators/inlined_graph.h"

namespace tsq::testing {
namespace {

constexpr std::array<std::string_view, 3> kRounding{"aten::quantize_per_tensor", "aten::quantize_per_channel",
                                                    "aten::dequantize"};

bool is_rounding(const ir::Node* node) {
  return std::ranges::find(kRounding, std::string_view(node->kind().toQualString())) != kRounding.end();
}

bool is_written(const ir::Value* attribute) {
  return std::ranges::any_of(attribute->uses(), [](const torch::jit::Use& use) {
    const c10::FunctionSchema* schema = use.user->maybeSchema();
    return schema != nullptr && schema->is_mutable();
  });
}

bool is_constant(const ir::Value* value) {
  const ir::Node* node = value->node();
  if (node->kind() == c10::prim::GetAttr) return !is_written(value);
  return node->kind() == c10::prim::Constant || (is_rounding(node) && is_constant(node->input(0)));
}

}  // namespace

std::size_t rounded_constants(const torch::jit::Module& model) {
  const auto graph = operators::inlined_graph(model, "forward");
  const auto nodes = ir::nodes_in_order(*graph);
  return static_cast<std::size_t>(std::ranges::count_if(
      nodes, [](const ir::Node* node) { return is_rounding(node) && is_constant(node->input(0)); }));
}

}  // namespace tsq::testing
