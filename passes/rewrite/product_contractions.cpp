#include "passes/rewrite/product_contractions.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tsq::passes {
namespace {

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

/// The weight of a product: the first `kept` dimensions of a tensor are rows, the others columns.
void set_weight(Product& product, const at::Tensor& ordered, std::size_t kept) {
  const c10::IntArrayRef rows = ordered.sizes().slice(0, kept);
  if (kept > 1) product.unflattened = rows.vec();
  product.weighted.weight = ordered.reshape({c10::multiply_integers(rows), -1});
  product.weighted.origin = ordered;
}

std::optional<Product> of_equation(Node* node, Value* input, const at::Tensor& weight,
                                   const Equation& names) {
  const auto in_weight = [&](char letter) { return holds(names.weight, letter); };
  const std::string multiplied = letters_of(names.input, in_weight);
  const std::string kept = letters_of(names.input, [&](char letter) { return !in_weight(letter); });
  const std::string made = letters_of(names.output, in_weight);
  const auto is_in_output = [&](char letter) { return holds(names.output, letter); };
  if (multiplied.empty() || made.empty() || !names.input.ends_with(multiplied) || holds(names.weight, '.') ||
      std::ranges::any_of(multiplied, is_in_output) || !std::ranges::all_of(kept, is_in_output) ||
      multiplied.size() + made.size() != names.weight.size() ||
      kept.size() + made.size() != names.output.size() ||
      static_cast<std::size_t>(weight.dim()) != names.weight.size())
    return std::nullopt;
  const std::string given = fmt::format("{}{}", kept, made);
  if (given != names.output && holds(given, '.')) return std::nullopt;
  Product product{.last = node, .input = input, .flattened = static_cast<int64_t>(multiplied.size())};
  std::vector<int64_t> order;
  for (const char letter : fmt::format("{}{}", made, multiplied))
    order.push_back(static_cast<int64_t>(names.weight.find(letter)));
  set_weight(product, weight.permute(order), made.size());
  if (given == names.output) return product;
  for (const char letter : names.output) product.order.push_back(static_cast<int64_t>(given.find(letter)));
  return product;
}

/// The dimensions of a tensor of so many that are not among others, in order.
std::vector<int64_t> others(int64_t count, const std::vector<int64_t>& dimensions) {
  std::vector<int64_t> found;
  for (int64_t i = 0; i < count; ++i) {
    if (std::ranges::find(dimensions, i) == dimensions.end()) found.push_back(i);
  }
  return found;
}

}  // namespace

std::optional<Product> einsum(const ConstantFactors& factors, Node* node) {
  const auto text = torch::jit::toIValue(node->input(0));
  const Node* list = node->input(1)->node();
  if (!text || !text->isString() || list->kind() != c10::prim::ListConstruct || list->inputs().size() != 2)
    return std::nullopt;
  const auto first = factors.computed(list->input(0));
  const auto second = factors.computed(list->input(1));
  if (first.has_value() == second.has_value()) return std::nullopt;
  const at::Tensor weight = (first ? first : second)->toTensor().detach();
  const auto equation = equation_of(text->toStringRef(), first.has_value());
  if (!equation || weight.scalar_type() != at::kFloat) return std::nullopt;
  return of_equation(node, const_cast<Value*>(list->input(first ? 1 : 0)), weight, *equation);
}

std::optional<Product> tensordot(const ConstantFactors& factors, Node* node) {
  const auto known = factors.computed_tensor(node->input(1));
  const auto of_input = factors.computed(node->input(2));
  const auto of_weight = factors.computed(node->input(3));
  if (!known || factors.computed(node->input(0)) || !of_input || !of_input->isIntList() || !of_weight ||
      !of_weight->isIntList())
    return std::nullopt;
  const at::Tensor weight = known->detach();
  const std::vector<int64_t> moved = of_input->toIntVector();
  std::vector<int64_t> multiplied;
  for (const int64_t dimension : of_weight->toIntVector())
    multiplied.push_back(dimension < 0 ? dimension + weight.dim() : dimension);
  // One number for all of a dimension is a sum.
  if (std::ranges::any_of(multiplied, [&](int64_t dimension) { return weight.size(dimension) == 1; }))
    return std::nullopt;
  const std::vector<int64_t> kept = others(weight.dim(), multiplied);
  if (weight.scalar_type() != at::kFloat || moved.empty() || moved.size() != multiplied.size() ||
      kept.empty())
    return std::nullopt;
  Product product{.last = node, .input = node->input(0), .flattened = static_cast<int64_t>(moved.size())};
  std::vector<int64_t> last(moved.size());
  std::iota(last.begin(), last.end(), -product.flattened);
  if (moved != last) product.moved = moved;
  std::vector<int64_t> order = kept;
  order.insert(order.end(), multiplied.begin(), multiplied.end());
  set_weight(product, weight.permute(order), kept.size());
  return product;
}

}  // namespace tsq::passes
