// Matrix products with a constant become linear layers where that gets them a kernel that they have not by
// themselves: traced transformers are written so.
//   %y = aten::addmm(%b, %x, aten::t(%w))   →   y = Linear(x)
// FX has no row for addmm, and only a static one for matmul, which rounds the constant with one scale:
// products of static QConfigs stay what they are unless any spelling counts; then mm, mv, bmm, inner, einsum,
// tensordot and chains of products are products as well, and matrices that are computed of constants.
// F.linear has static and dynamic kernels of its own and becomes a layer where its weight alone is quantized,
// or any spelling counts: what a recipe does to layers it does to modules.

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <unordered_set>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/methods.h"
#include "match/dtype_check.h"
#include "match/qconfig_lookup.h"
#include "operators/constant_expressions.h"
#include "passes/rewrite/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

/// A product as a linear layer: the node whose output it computes, its input, and what is done to both.
struct Product {
  Node* last{};
  Value* input{};
  ir::Weighted weighted{};
  std::vector<int64_t> moved{};        ///< dimensions of the input that become its last ones first
  int64_t flattened{1};                ///< the last dimensions of the input that are multiplied
  std::vector<int64_t> unflattened{};  ///< sizes in place of the output's last dimension
  std::vector<int64_t> order{};        ///< of the output's dimensions
  bool is_turned{false};               ///< the output's last two dimensions change places
};

/// The nodes of a lifted product: what it was, and what it has become.
struct Lifted {
  Node* product{};
  Node* last{};
  Node* layer{};
  std::vector<Node*> after{};  ///< what is done to the layer's output, the last first
};

/// An einsum of two tensors, an ellipsis as one letter.
struct Equation {
  std::string input{};
  std::string weight{};
  std::string output{};
};

/// Empty for sums over one tensor alone, diagonals and equations that leave the output open.
std::optional<Equation> equation_of(std::string text, bool weight_is_first) {
  std::erase(text, ' ');
  // "..." as ".": no letter stands twice.
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == '.' && b == '.'; }),
             text.end());
  const auto comma = text.find(',');
  const auto arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return std::nullopt;
  Equation parts{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
  if (weight_is_first) std::swap(parts.input, parts.weight);
  for (const std::string* part : {&parts.input, &parts.weight, &parts.output}) {
    if (std::set<char>(part->begin(), part->end()).size() != part->size()) return std::nullopt;
  }
  return parts;
}

std::string letters_of(const std::string& text, const std::function<bool(char)>& is_wanted) {
  std::string found;
  std::ranges::copy_if(text, std::back_inserter(found), is_wanted);
  return found;
}

bool holds(const std::string& text, char letter) { return text.find(letter) != std::string::npos; }

bool is_one(const Value* value) {
  const auto number = torch::jit::toIValue(value);
  if (!number) return false;
  return number->isInt() ? number->toInt() == 1 : number->isDouble() && number->toDouble() == 1.0;
}

class ProductLifting {
 public:
  ProductLifting(Model& gm, const QConfigMapping& mapping)
      : gm_(gm), mapping_(mapping), written_(ir::written_attributes(gm)), constants_(gm) {}

  void run() {
    if (gm_.any_spelling) {
      for (Node* node : ir::nodes_in_order(*gm_.graph)) open_chain(node);
    }
    std::vector<Lifted> lifted;
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (const auto product = product_at(node)) lifted.push_back(insert(node, *product));
    }
    const auto qconfigs = match::find_qconfigs(gm_, mapping_);
    for (const Lifted& each : lifted) {
      const bool is_left_float = !qconfigs.at(each.product).qconfig || !qconfigs.at(each.last).qconfig;
      const MaybeQConfig& layers = qconfigs.at(each.layer).qconfig;
      if (each.product->kind() == c10::aten::linear
              ? is_wanted_of_linear(qconfigs.at(each.product).qconfig, layers)
              : is_wanted(is_left_float, layers))
        continue;
      take_back(each);
    }
    ir::eliminate_dead_code(*gm_.graph);
  }

 private:
  /// multi_dot([x, W, V])   →   matmul(matmul(x, W), V)
  void open_chain(Node* node) const {
    const bool is_chain = node->kind() == c10::Symbol::fromQualString("aten::linalg_multi_dot") ||
                          node->kind() == c10::Symbol::fromQualString("aten::chain_matmul");
    if (!is_chain || node->inputs().size() != 1) return;
    Node* list = node->input(0)->node();
    if (list->kind() != c10::prim::ListConstruct || list->inputs().size() < 2 ||
        constants_.value_of(list->input(0)))
      return;
    const auto is_weight = [&](const Value* factor) { return weight_of(factor).has_value(); };
    if (!std::all_of(list->inputs().begin() + 1, list->inputs().end(), is_weight)) return;
    Value* product = list->inputs()[0];
    for (std::size_t i = 1; i < list->inputs().size(); ++i) {
      product = ir::insert_before(gm_, node, "aten::matmul", {product, list->inputs()[i]});
      product->node()->setSourceRange(node->sourceRange());
      ir::take_scope(product->node(), node);
    }
    node->output()->replaceAllUsesWith(product);
  }

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
    return gm_.any_spelling ? rare_product(node) : std::nullopt;
  }

  /// Products that FX never quantizes.
  std::optional<Product> rare_product(Node* node) const {
    if (node->kind() == c10::aten::mm) return matmul(node);
    if (node->kind() == c10::aten::bmm) return of_shared_matrix(node, node->input(0), node->input(1));
    if (node->kind() == c10::aten::baddbmm) return with_addend(node);
    if (node->kind() == c10::aten::einsum) return einsum(node);
    if (node->kind() == c10::aten::mv) return of_vector(node, node->input(0), node->input(1));
    if (node->kind() == c10::Symbol::fromQualString("aten::addmv")) return with_vector(node);
    if (node->kind() == c10::Symbol::fromQualString("aten::tensordot")) return tensordot(node);
    if (node->kind() != c10::Symbol::fromQualString("aten::inner")) return std::nullopt;
    const auto weight = constant_tensor(node->input(1));
    if (!is_matrix(weight) || constant_tensor(node->input(0))) return std::nullopt;
    return Product{.last = node, .input = node->input(0), .weighted = {.weight = weight->detach()}};
  }

  std::optional<Product> of_vector(Node* node, const Value* matrix, Value* vector) const {
    const auto known = constants_.value_of(matrix);
    if (!known || !known->isTensor() || !is_matrix(known->toTensor()) || constants_.value_of(vector))
      return std::nullopt;
    return Product{
        .last = node, .input = vector, .weighted = {.weight = known->toTensor().detach().contiguous()}};
  }

  /// addmv(b, W, x)
  std::optional<Product> with_vector(Node* node) const {
    auto product = of_vector(node, node->input(1), node->input(2));
    const auto bias = constant_tensor(node->input(0));
    if (!product || !bias || !is_bias_of(*bias, product->weighted.weight) || !is_one(node->input(3)) ||
        !is_one(node->input(4)))
      return std::nullopt;
    product->weighted.bias = *bias;
    return product;
  }

  /// Over any dimensions of the input: they are moved after the others where they do not stand there.
  std::optional<Product> tensordot(Node* node) const {
    const auto known = constants_.value_of(node->input(1));
    const auto of_input = constants_.value_of(node->input(2));
    const auto of_weight = constants_.value_of(node->input(3));
    if (!known || !known->isTensor() || constants_.value_of(node->input(0)) || !of_input ||
        !of_input->isIntList() || !of_weight || !of_weight->isIntList())
      return std::nullopt;
    const at::Tensor weight = known->toTensor().detach();
    const std::vector<int64_t> moved = of_input->toIntVector();
    std::vector<int64_t> order;  // of the weight: what is kept, what is multiplied
    std::vector<int64_t> multiplied;
    for (const int64_t dimension : of_weight->toIntVector())
      multiplied.push_back(dimension < 0 ? dimension + weight.dim() : dimension);
    // One number for all of a dimension is a sum.
    if (std::ranges::any_of(multiplied, [&](int64_t dimension) { return weight.size(dimension) == 1; }))
      return std::nullopt;
    for (int64_t i = 0; i < weight.dim(); ++i) {
      if (std::ranges::find(multiplied, i) == multiplied.end()) order.push_back(i);
    }
    if (weight.scalar_type() != at::kFloat || moved.empty() || moved.size() != multiplied.size() ||
        order.empty())
      return std::nullopt;
    Product product{.last = node, .input = node->input(0), .flattened = static_cast<int64_t>(moved.size())};
    std::vector<int64_t> last(moved.size());
    std::iota(last.begin(), last.end(), -product.flattened);
    if (moved != last) product.moved = moved;
    if (order.size() > 1) {
      for (const int64_t dimension : order) product.unflattened.push_back(weight.size(dimension));
    }
    int64_t rows = 1;
    for (const int64_t dimension : order) rows *= weight.size(dimension);
    order.insert(order.end(), multiplied.begin(), multiplied.end());
    product.weighted.weight = weight.permute(order).reshape({rows, -1}).contiguous();
    return product;
  }

  /// One matrix for all of a batch, however it was repeated.
  std::optional<Product> of_shared_matrix(Node* node, Value* input, const Value* factor) const {
    while (true) {
      const c10::Symbol kind = factor->node()->kind();
      const bool repeats =
          kind == c10::aten::expand || kind == c10::aten::repeat || kind == c10::aten::expand_as;
      if (!repeats) break;
      factor = factor->node()->input(0);
    }
    const auto known = constants_.value_of(factor);
    if (!known || !known->isTensor() || constant_tensor(input)) return std::nullopt;
    at::Tensor matrix = known->toTensor().detach();
    const bool is_repeated =
        matrix.dim() == 3 && matrix.size(0) > 0 && matrix.equal(matrix.narrow(0, 0, 1).expand_as(matrix));
    if (is_repeated) matrix = matrix.select(0, 0);
    if (!is_matrix(matrix)) return std::nullopt;
    return Product{.last = node, .input = input, .weighted = {.weight = matrix.t().contiguous()}};
  }

  std::optional<Product> with_addend(Node* node) const {
    auto product = of_shared_matrix(node, node->input(1), node->input(2));
    const auto known = constants_.value_of(node->input(0));
    if (!product || !known || !known->isTensor() || !is_one(node->input(3)) || !is_one(node->input(4)))
      return std::nullopt;
    const at::Tensor bias = known->toTensor().detach();
    const at::Tensor& weight = product->weighted.weight;
    if (bias.dim() == 0 || bias.numel() != bias.size(-1) || !is_bias_of(bias.flatten(), weight))
      return std::nullopt;
    product->weighted.bias = bias.flatten();
    return product;
  }

  /// Where the input's last dimensions alone are multiplied, and none is common to all three tensors.
  std::optional<Product> einsum(Node* node) const {
    const auto text = torch::jit::toIValue(node->input(0));
    const Node* list = node->input(1)->node();
    if (!text || !text->isString() || list->kind() != c10::prim::ListConstruct || list->inputs().size() != 2)
      return std::nullopt;
    const auto first = constants_.value_of(list->input(0));
    const auto second = constants_.value_of(list->input(1));
    if (first.has_value() == second.has_value()) return std::nullopt;
    const at::Tensor weight = (first ? first : second)->toTensor().detach();
    const auto equation = equation_of(text->toStringRef(), first.has_value());
    if (!equation || weight.scalar_type() != at::kFloat) return std::nullopt;
    return of_equation(node, list->input(first ? 1 : 0), weight, *equation);
  }

  static std::optional<Product> of_equation(Node* node, Value* input, const at::Tensor& weight,
                                            const Equation& names) {
    const auto in_weight = [&](char letter) { return holds(names.weight, letter); };
    const std::string multiplied = letters_of(names.input, in_weight);
    const std::string kept = letters_of(names.input, [&](char letter) { return !in_weight(letter); });
    const std::string made = letters_of(names.output, in_weight);
    const auto is_in_output = [&](char letter) { return holds(names.output, letter); };
    if (multiplied.empty() || made.empty() || !names.input.ends_with(multiplied) ||
        holds(names.weight, '.') || std::ranges::any_of(multiplied, is_in_output) ||
        !std::ranges::all_of(kept, is_in_output) || multiplied.size() + made.size() != names.weight.size() ||
        kept.size() + made.size() != names.output.size() ||
        static_cast<std::size_t>(weight.dim()) != names.weight.size())
      return std::nullopt;
    const std::string given = fmt::format("{}{}", kept, made);
    if (given != names.output && holds(given, '.')) return std::nullopt;
    Product product{.last = node, .input = input, .flattened = static_cast<int64_t>(multiplied.size())};
    std::vector<int64_t> order;
    for (const char letter : fmt::format("{}{}", made, multiplied))
      order.push_back(static_cast<int64_t>(names.weight.find(letter)));
    const at::Tensor ordered = weight.permute(order);
    int64_t rows = 1;
    for (std::size_t i = 0; i < made.size(); ++i) {
      rows *= ordered.size(static_cast<int64_t>(i));
      if (made.size() > 1) product.unflattened.push_back(ordered.size(static_cast<int64_t>(i)));
    }
    product.weighted.weight = ordered.reshape({rows, -1}).contiguous();
    if (given == names.output) return product;
    for (const char letter : names.output) product.order.push_back(static_cast<int64_t>(given.find(letter)));
    return product;
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
    if (!bias || !weight || !is_bias_of(*bias, *weight) || constant_tensor(node->input(1)))
      return std::nullopt;
    const bool is_plain = is_one(node->input(3)) && is_one(node->input(4));
    if (is_plain) return Product{node, node->input(1), {.weight = *weight, .bias = *bias}};
    const auto beta = torch::jit::toIValue(node->input(3));
    const auto alpha = torch::jit::toIValue(node->input(4));
    if (!gm_.any_spelling || !beta || !alpha || !beta->isScalar() || !alpha->isScalar()) return std::nullopt;
    return Product{
        node, node->input(1), {.weight = *weight * alpha->toScalar(), .bias = *bias * beta->toScalar()}};
  }

  /// With the addition of a constant vector after it, where there is one.
  std::optional<Product> matmul(Node* node) const {
    auto weight = weight_of(node->input(1));
    if (!weight) return gm_.any_spelling ? turned_matmul(node) : std::nullopt;
    if (constant_tensor(node->input(0))) return std::nullopt;
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

  /// W xᵀ = (x Wᵀ)ᵀ, where what the matrix multiplies has been turned for it.
  std::optional<Product> turned_matmul(Node* node) const {
    const auto weight = constant_tensor(node->input(0));
    Node* turn = node->input(1)->node();
    const bool is_turn =
        turn->kind() == c10::aten::t || (turn->kind() == c10::aten::transpose && swaps_last_two(turn));
    if (!is_matrix(weight) || !is_turn) return std::nullopt;
    return Product{
        .last = node, .input = turn->input(0), .weighted = {.weight = weight->detach()}, .is_turned = true};
  }

  /// Of tensors of three dimensions or any number of them.
  static bool swaps_last_two(const Node* transpose) {
    const auto first = ir::whole_number_constant(transpose->input(1));
    const auto second = ir::whole_number_constant(transpose->input(2));
    if (!first || !second) return false;
    return std::min(*first, *second) == -2 && std::max(*first, *second) == -1;
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
    if (is_transpose) {
      const auto matrix = constant_tensor(node->input(0));
      return is_matrix(matrix) ? matrix : std::nullopt;
    }
    const auto computed = gm_.any_spelling ? constants_.value_of(factor) : std::nullopt;
    if (!computed || !computed->isTensor() || !is_matrix(computed->toTensor())) return std::nullopt;
    return computed->toTensor().detach().t().contiguous();
  }

  /// Whether a transposition of a matrix names its two dimensions.
  static bool swaps_both(const Node* transpose) {
    const auto first = ir::whole_number_constant(transpose->input(1));
    const auto second = ir::whole_number_constant(transpose->input(2));
    return first && second && (*first - *second) % 2 != 0;
  }

  Lifted insert(Node* node, const Product& product) {
    const std::string& scope = ir::scope_of(gm_, product.last).path;
    ir::ModuleCall call{.type = symbol("torch.nn.Linear"),
                        .path = fmt::format("{}{}linear_{}", scope, scope.empty() ? "" : ".", count_++)};
    call.weighted = product.weighted;
    Node* before = product.last->next();
    Value* input = product.input;
    if (!product.moved.empty()) {
      std::vector<int64_t> last(product.moved.size());
      std::iota(last.begin(), last.end(), -product.flattened);
      input = insert_before(before, product.last, "aten::movedim", input, {product.moved, last});
    }
    if (product.flattened > 1)
      input = insert_before(before, product.last, "aten::flatten", input, {-product.flattened, int64_t{-1}});
    Node* layer =
        ir::create_module_call(gm_, std::move(call), {input}, ir::scope_index(product.last).value_or(0));
    layer->insertBefore(before);
    layer->output()->setType(product.last->output()->type());
    layer->setSourceRange(product.last->sourceRange());
    ir::take_place(layer, product.last);
    Lifted lifted{.product = node, .last = product.last, .layer = layer};
    const auto give = [&](const char* kind, const std::vector<c10::IValue>& arguments) {
      Value* from = lifted.after.empty() ? layer->output() : lifted.after.front()->output();
      Value* made = insert_before(before, product.last, kind, from, arguments);
      lifted.after.insert(lifted.after.begin(), made->node());
    };
    if (!product.unflattened.empty()) give("aten::unflatten", {int64_t{-1}, product.unflattened});
    if (!product.order.empty()) give("aten::permute", {product.order});
    if (product.is_turned) give("aten::transpose", {int64_t{-2}, int64_t{-1}});
    Node* result = lifted.after.empty() ? layer : lifted.after.front();
    product.last->output()->replaceAllUsesAfterNodeWith(result, result->output());
    return lifted;
  }

  Value* insert_before(Node* before, const Node* origin, const char* kind, Value* input,
                       const std::vector<c10::IValue>& arguments) {
    std::vector<Value*> inputs{input};
    for (const c10::IValue& argument : arguments)
      inputs.push_back(ir::constant_before(gm_, before, argument));
    Value* made = ir::insert_before(gm_, before, kind, inputs);
    ir::take_scope(made->node(), origin);
    return made;
  }

  static void take_back(const Lifted& lifted) {
    Node* result = lifted.after.empty() ? lifted.layer : lifted.after.front();
    result->output()->replaceAllUsesWith(lifted.last->output());
    for (Node* node : lifted.after) node->destroy();
    lifted.layer->destroy();
  }

  Model& gm_;
  const QConfigMapping& mapping_;
  std::unordered_set<std::string> written_;
  operators::ConstantExpressions constants_;
  int count_{0};
};

}  // namespace

void lift_products(Model& gm, const QConfigMapping& mapping) { ProductLifting(gm, mapping).run(); }

}  // namespace tsq::passes
