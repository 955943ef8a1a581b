#include "operators/attention.h"

#include <optional>

#include "ir/analysis.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace {

using ir::Node;
using ir::Value;

bool is_product(const ir::Model& model, const Node* node) {
  return is_one_of(model, node, {"matmul", "bmm"}) && node->inputs().size() == 2;
}

/// The product of queries and keys that nobody reads but a softmax, scaled and masked on the way; null where
/// there is none.
Node* scores_before(const ir::Model& model, Value* value) {
  if (value->uses().size() != 1) return nullptr;
  Node* node = value->node();
  if (is_product(model, node)) return node;
  if (!is_one_of(model, node, {"add", "mul", "div"})) return nullptr;
  for (Value* operand : ir::operands(node)) {
    if (Node* scores = scores_before(model, operand)) return scores;
  }
  return nullptr;
}

std::optional<Attention> written_out(const ir::Model& model, Node* product) {
  if (!is_product(model, product)) return std::nullopt;
  Value* shares = product->input(0);
  if (shares->uses().size() != 1 || !is_one_of(model, shares->node(), {"softmax"})) return std::nullopt;
  Node* scores = scores_before(model, ir::operands(shares->node()).front());
  if (scores == nullptr) return std::nullopt;
  return Attention{.query = {scores, 0}, .key = {scores, 1}, .value = {product, 1}, .result = product};
}

}  // namespace

std::vector<Attention> attentions(const ir::Model& model) {
  std::vector<Attention> found;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->kind() == c10::aten::scaled_dot_product_attention) {
      found.push_back({.query = {node, 0}, .key = {node, 1}, .value = {node, 2}, .result = node});
    } else if (const auto attention = written_out(model, node)) {
      found.push_back(*attention);
    }
  }
  return found;
}

}  // namespace tsq::operators
