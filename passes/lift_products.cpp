// Matrix products with a constant become linear layers where that gets them a kernel that they have not by
// themselves: traced transformers are written so.
//   %y = aten::addmm(%b, %x, aten::t(%w))   →   y = Linear(x)
// FX has no row for addmm, and only a static one for matmul, which rounds the constant with one scale:
// products of static QConfigs stay what they are unless any spelling counts. F.linear has static and dynamic
// kernels of its own and becomes a layer where its weight alone is quantized, or any spelling counts: what a
// recipe does to layers it does to modules.

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <unordered_set>

#include "ir/constants.h"
#include "match/dtype_check.h"
#include "match/qconfig_lookup.h"
#include "modules/kernel_arguments.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;

/// A product as a linear layer: the node whose output it gives, and its input.
struct Product {
  Node* last{};
  Value* input{};
  ir::Weighted weighted{};
};

bool is_one(const Value* value) {
  const auto number = torch::jit::toIValue(value);
  if (!number) return false;
  return number->isInt() ? number->toInt() == 1 : number->isDouble() && number->toDouble() == 1.0;
}

class ProductLifting {
 public:
  ProductLifting(GraphModule& gm, const QConfigMapping& mapping)
      : gm_(gm), mapping_(mapping), written_(ir::written_attributes(gm)) {}

  void run() {
    std::vector<std::tuple<Node*, Node*, Node*>> lifted;  // the product, its last node, the layer
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (const auto product = product_at(node)) lifted.emplace_back(node, product->last, insert(*product));
    }
    const auto qconfigs = match::find_qconfigs(gm_, mapping_);
    for (const auto& [product, last, layer] : lifted) {
      const bool is_left_float = !qconfigs.at(product).qconfig || !qconfigs.at(last).qconfig;
      const MaybeQConfig& layers = qconfigs.at(layer).qconfig;
      if (product->kind() == c10::aten::linear ? is_wanted_of_linear(qconfigs.at(product).qconfig, layers)
                                               : is_wanted(is_left_float, layers))
        continue;
      layer->output()->replaceAllUsesWith(last->output());
      layer->destroy();
    }
    ir::eliminate_dead_code(*gm_.graph);
  }

 private:
  /// F.linear: where its weight alone is quantized, and where both are quantized alike and any spelling
  /// counts.
  bool is_wanted_of_linear(const MaybeQConfig& own, const MaybeQConfig& layers) const {
    if (!layers) return false;
    if (gm_.any_spelling && own) return *own == *layers;
    return match::is_weight_only(*layers) && (!own || match::is_weight_only(*own));
  }

  bool is_wanted(bool is_left_float, const MaybeQConfig& layers) const {
    if (!layers) return false;
    if (match::is_weight_only(*layers) || resolve(layers->activation).is_dynamic) return true;
    return gm_.any_spelling && !is_left_float;
  }

  std::optional<Product> product_at(Node* node) const {
    if (node->kind() == c10::aten::linear) return linear(node);
    if (node->kind() == c10::aten::addmm) return addmm(node);
    if (node->kind() == c10::aten::matmul) return matmul(node);
    return std::nullopt;
  }

  std::optional<Product> linear(Node* node) const {
    const auto weight = constant_tensor(node->input(1));
    if (!is_matrix(weight) || constant_tensor(node->input(0))) return std::nullopt;
    Product product{node, node->input(0), {.weight = weight->detach()}};
    if (node->input(2)->mustBeNone()) return product;
    const auto bias = constant_tensor(node->input(2));
    if (!bias || !is_bias_of(*bias, *weight)) return std::nullopt;
    product.weighted.bias = *bias;
    return product;
  }

  std::optional<Product> addmm(Node* node) const {
    const auto bias = constant_tensor(node->input(0));
    auto weight = weight_of(node->input(2));
    if (!bias || !weight || !is_one(node->input(3)) || !is_one(node->input(4))) return std::nullopt;
    if (!is_bias_of(*bias, *weight) || constant_tensor(node->input(1))) return std::nullopt;
    return Product{node, node->input(1), {.weight = *weight, .bias = *bias}};
  }

  /// With the addition of a constant vector behind it, where there is one.
  std::optional<Product> matmul(Node* node) const {
    auto weight = weight_of(node->input(1));
    if (!weight || constant_tensor(node->input(0))) return std::nullopt;
    Product product{node, node->input(0), {.weight = *weight}};
    if (node->output()->uses().size() != 1) return product;
    Node* add = node->output()->uses().front().user;
    if (add->kind() != c10::aten::add || add->inputs().size() != 3 || !is_one(add->input(2))) return product;
    const auto bias = constant_tensor(add->input(add->input(0) == node->output() ? 1 : 0));
    if (!bias || !is_bias_of(*bias, *weight)) return product;
    product.last = add;
    product.weighted.bias = *bias;
    return product;
  }

  static bool is_matrix(const std::optional<at::Tensor>& tensor) {
    return tensor && tensor->dim() == 2 && tensor->scalar_type() == at::kFloat;
  }

  static bool is_bias_of(const at::Tensor& bias, const at::Tensor& weight) {
    return bias.dim() == 1 && bias.size(0) == weight.size(0) && bias.scalar_type() == at::kFloat;
  }

  /// A parameter that nobody writes, or a constant.
  std::optional<at::Tensor> constant_tensor(const Value* value) const {
    const Node* node = value->node();
    std::optional<c10::IValue> found;
    if (node->kind() == c10::prim::GetAttr && node->input(0) == gm_.graph->inputs().at(0)) {
      const std::string& name = node->s(c10::attr::name);
      if (!written_.contains(name)) found = gm_.attributes.attr(name);
    } else {
      found = torch::jit::toIValue(value);
    }
    return found && found->isTensor() ? std::optional(found->toTensor()) : std::nullopt;
  }

  /// The weight of a linear layer, outputs first, out of the second factor.
  std::optional<at::Tensor> weight_of(const Value* factor) const {
    if (const auto matrix = constant_tensor(factor); is_matrix(matrix))
      return matrix->detach().t().contiguous();
    const Node* node = factor->node();
    const bool is_transpose =
        node->kind() == c10::aten::t || (node->kind() == c10::aten::transpose && swaps_both(node));
    if (!is_transpose) return std::nullopt;
    const auto matrix = constant_tensor(node->input(0));
    return is_matrix(matrix) ? matrix : std::nullopt;
  }

  /// Whether a transposition of a matrix names its two dimensions.
  static bool swaps_both(const Node* transpose) {
    const auto first = ir::whole_number_constant(transpose->input(1));
    const auto second = ir::whole_number_constant(transpose->input(2));
    return first && second && (*first - *second) % 2 != 0;
  }

  Node* insert(const Product& product) {
    const std::string& scope = ir::scope_of(gm_, product.last).path;
    ir::ModuleCall call{.type = symbol("torch.nn.Linear"),
                        .path = fmt::format("{}{}linear_{}", scope, scope.empty() ? "" : ".", count_++)};
    call.weighted = product.weighted;
    Node* layer = ir::create_module_call(gm_, std::move(call), {product.input},
                                         ir::scope_index(product.last).value_or(0));
    layer->insertAfter(product.last);
    layer->output()->setType(product.last->output()->type());
    layer->setSourceRange(product.last->sourceRange());
    product.last->output()->replaceAllUsesAfterNodeWith(layer, layer->output());
    return layer;
  }

  GraphModule& gm_;
  const QConfigMapping& mapping_;
  std::unordered_set<std::string> written_;
  int count_{0};
};

}  // namespace

void lift_products(GraphModule& gm, const QConfigMapping& mapping) { ProductLifting(gm, mapping).run(); }

}  // namespace tsq::passes
