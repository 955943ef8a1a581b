#include "passes/rewrite/product_spellings.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "passes/rewrite/product_contractions.h"

namespace tsq::passes {
namespace {

/// The product with a bias; empty where one of them is not known, and where they do not fit.
std::optional<Product> with_bias(std::optional<Product> product, const std::optional<at::Tensor>& bias) {
  if (!product || !bias || !is_bias_of(*bias, product->weighted.weight)) return std::nullopt;
  product->weighted.bias = *bias;
  return product;
}

std::optional<Product> inner(const ConstantFactors& factors, Node* node) {
  const auto weight = factors.tensor(node->input(1));
  if (!is_matrix(weight) || factors.tensor(node->input(0))) return std::nullopt;
  return Product{.last = node, .input = node->input(0), .weighted = {.weight = weight->detach()}};
}

std::optional<Product> linear(const ConstantFactors& factors, Node* node) {
  const Value* bias = node->input(2);
  const auto product = inner(factors, node);
  return bias->mustBeNone() ? product : with_bias(product, factors.tensor(bias));
}

std::optional<Product> addmm(const ConstantFactors& factors, Node* node) {
  const auto bias = factors.tensor(node->input(0));
  auto weight = factors.weight_of(node->input(2));
  if (!bias || !weight || !is_bias_of(*bias, *weight) || factors.tensor(node->input(1))) return std::nullopt;
  const bool is_plain = is_one(node->input(3)) && is_one(node->input(4));
  if (is_plain) return Product{node, node->input(1), {.weight = *weight, .bias = *bias}};
  const auto beta = ir::number_constant(node->input(3));
  const auto alpha = ir::number_constant(node->input(4));
  if (!factors.any_spelling() || !beta || !alpha) return std::nullopt;
  return Product{
      node, node->input(1), {.weight = *weight * *alpha, .bias = *bias * *beta, .origin = *weight}};
}

/// Of tensors of three dimensions or any number of them.
bool swaps_last_two(const Node* transpose) {
  const auto first = ir::whole_number_constant(transpose->input(1));
  const auto second = ir::whole_number_constant(transpose->input(2));
  return first && second && std::min(*first, *second) == -2 && std::max(*first, *second) == -1;
}

/// W xᵀ = (x Wᵀ)ᵀ, where what the matrix multiplies has been turned for it.
std::optional<Product> turned_matmul(const ConstantFactors& factors, Node* node) {
  const auto weight = factors.tensor(node->input(0));
  Node* turn = node->input(1)->node();
  const bool is_turn =
      turn->kind() == c10::aten::t || (turn->kind() == c10::aten::transpose && swaps_last_two(turn));
  if (!is_matrix(weight) || !is_turn) return std::nullopt;
  return Product{
      .last = node, .input = turn->input(0), .weighted = {.weight = weight->detach()}, .is_turned = true};
}

/// With the addition of a constant vector after it, where there is one.
std::optional<Product> matmul(const ConstantFactors& factors, Node* node) {
  auto weight = factors.weight_of(node->input(1));
  if (!weight) return factors.any_spelling() ? turned_matmul(factors, node) : std::nullopt;
  if (factors.tensor(node->input(0))) return std::nullopt;
  Product product{node, node->input(0), {.weight = *weight}};
  Node* add = ir::only_reader(node);
  if (add == nullptr || add->kind() != c10::aten::add || add->inputs().size() != 3 || !is_one(add->input(2)))
    return product;
  const auto bias = factors.tensor(add->input(add->input(0) == node->output() ? 1 : 0));
  if (!bias || !is_bias_of(*bias, *weight)) return product;
  product.last = add;
  product.weighted.bias = *bias;
  return product;
}

/// Whether a node returns its tensor several times, side by side.
bool repeats(const Node* node) {
  return node->kind() == c10::aten::expand || node->kind() == c10::aten::repeat ||
         node->kind() == c10::aten::expand_as;
}

/// One matrix for all of a batch, however it was repeated.
std::optional<Product> of_shared_matrix(const ConstantFactors& factors, Node* node, Value* input,
                                        const Value* factor) {
  while (repeats(factor->node())) factor = factor->node()->input(0);
  const auto known = factors.computed_tensor(factor);
  if (!known || factors.tensor(input)) return std::nullopt;
  at::Tensor matrix = known->detach();
  const bool is_repeated =
      matrix.dim() == 3 && matrix.size(0) > 0 && matrix.equal(matrix.narrow(0, 0, 1).expand_as(matrix));
  if (is_repeated) matrix = matrix.select(0, 0);
  if (!is_matrix(matrix)) return std::nullopt;
  return Product{.last = node, .input = input, .weighted = {.weight = matrix.t()}};
}

std::optional<Product> bmm(const ConstantFactors& factors, Node* node) {
  return of_shared_matrix(factors, node, node->input(0), node->input(1));
}

std::optional<Product> baddbmm(const ConstantFactors& factors, Node* node) {
  const auto product = of_shared_matrix(factors, node, node->input(1), node->input(2));
  const auto bias = factors.computed_tensor(node->input(0));
  if (!product || !bias || !is_one(node->input(3)) || !is_one(node->input(4)) || bias->dim() == 0 ||
      bias->numel() != bias->size(-1))
    return std::nullopt;
  return with_bias(product, bias->detach().flatten());
}

std::optional<Product> of_vector(const ConstantFactors& factors, Node* node, const Value* matrix,
                                 Value* vector) {
  const auto known = factors.computed_tensor(matrix);
  if (!is_matrix(known) || factors.computed(vector)) return std::nullopt;
  return Product{.last = node, .input = vector, .weighted = {.weight = known->detach()}};
}

std::optional<Product> mv(const ConstantFactors& factors, Node* node) {
  return of_vector(factors, node, node->input(0), node->input(1));
}

/// addmv(b, W, x)
std::optional<Product> addmv(const ConstantFactors& factors, Node* node) {
  if (!is_one(node->input(3)) || !is_one(node->input(4))) return std::nullopt;
  return with_bias(of_vector(factors, node, node->input(1), node->input(2)), factors.tensor(node->input(0)));
}

struct Spelling {
  std::string_view kind{};
  std::optional<Product> (*read)(const ConstantFactors& factors, Node* node){};
  bool is_rare{false};  ///< FX never quantizes it
};

constexpr bool kIsRare = true;

constexpr std::array kSpellings{
    Spelling{"aten::linear", linear},          Spelling{"aten::addmm", addmm},
    Spelling{"aten::matmul", matmul},          Spelling{"aten::mm", matmul, kIsRare},
    Spelling{"aten::bmm", bmm, kIsRare},       Spelling{"aten::baddbmm", baddbmm, kIsRare},
    Spelling{"aten::einsum", einsum, kIsRare}, Spelling{"aten::mv", mv, kIsRare},
    Spelling{"aten::addmv", addmv, kIsRare},   Spelling{"aten::tensordot", tensordot, kIsRare},
    Spelling{"aten::inner", inner, kIsRare},
};

}  // namespace

std::optional<Product> product_at(const ConstantFactors& factors, Node* node) {
  const auto* const spelling =
      std::ranges::find(kSpellings, std::string_view(node->kind().toQualString()), &Spelling::kind);
  if (spelling == kSpellings.end() || (spelling->is_rare && !factors.any_spelling())) return std::nullopt;
  return spelling->read(factors, node);
}

}  // namespace tsq::passes
