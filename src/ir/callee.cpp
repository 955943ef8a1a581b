#include "ir/callee.h"

#include <torch/csrc/jit/passes/normalize_ops.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/text.h"
#include "config/names/known_names.h"
#include "config/names/pytorch_names.h"
#include "ir/constants.h"

namespace tsq::ir {
namespace {

constexpr std::string_view kTorchPrefix = "torch.";
constexpr std::string_view kFunctionalPrefix = "torch.nn.functional.";
constexpr std::array<std::string_view, 12> kPythonFunctionals{
    "relu",       "relu_",      "max_pool1d", "max_pool2d",    "max_pool3d", "softmax",
    "layer_norm", "group_norm", "sigmoid",    "instance_norm", "tanh",       "dropout"};

/// The text before the last point of a callee, and the name after it.
std::pair<std::string_view, std::string_view> split_callee(std::string_view callee) {
  const auto dot = callee.rfind('.');
  if (dot == std::string_view::npos) return {{}, callee};
  return {callee.substr(0, dot), callee.substr(dot + 1)};
}

/// FX writes "torch._C._nn.linear" in the code of its GraphModules.
bool is_functional(std::string_view prefix) {
  return prefix == "F" || prefix.ends_with("functional") || prefix == "torch._C._nn";
}

std::optional<double> number_in(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return text.empty() || end != text.c_str() + text.size() ? std::nullopt : std::optional(number);
}

/// Traces hold numbers as tensors.
bool is_number(const c10::IValue& value, double number) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.numel() == 1 && !tensor.is_complex() && tensor.item().toDouble() == number;
  }
  return (value.isInt() || value.isDouble()) && value.toScalar().toDouble() == number;
}

/// Whether a literal may be what an operator reads. TorchScript writes a number that stands for a list as the
/// list.
bool may_be(const std::string& literal, const Value* value) {
  const std::optional<c10::IValue> constant = constant_value(value);
  if (const auto number = number_in(literal)) {
    if (!constant) return value->type()->kind() != c10::TypeKind::TensorType;
    if (!constant->isList()) return is_number(*constant, *number);
    const auto elements = constant->toListRef();
    return !elements.empty() &&
           std::ranges::all_of(elements, [&](const c10::IValue& each) { return is_number(each, *number); });
  }
  if (literal == "None") return constant && constant->isNone();
  if (literal == "True" || literal == "False")
    return constant && constant->isBool() && constant->toBool() == (literal == "True");
  if (literal.starts_with('[')) return value->type()->kind() == c10::TypeKind::ListType;
  return true;
}

/// Whether an input that was not written can have its value: the default.
bool may_be_default(const c10::Argument& argument, const Value* value) {
  if (!argument.default_value()) return false;
  const std::optional<c10::IValue> constant = constant_value(value);
  return !constant || *constant == *argument.default_value();
}

/// Whether the arguments that were written can be the inputs of an operator from `first` on.
bool can_be_inputs_from(std::size_t first, const WrittenArguments& written, const Node* node) {
  const c10::FunctionSchema* schema = node->maybeSchema();
  if (schema == nullptr || schema->is_vararg()) return true;
  const auto& arguments = schema->arguments();
  const auto by_position = std::ranges::count_if(arguments, std::not_fn(&c10::Argument::kwarg_only));
  // `x.view(2, 3)` writes a list as arguments.
  const bool is_open = first > 0 && written.positional.size() > 1 && first < arguments.size() &&
                       arguments[first].type()->kind() == c10::TypeKind::ListType;
  if (is_open) return true;
  if (first + written.positional.size() > static_cast<std::size_t>(by_position)) return false;
  for (std::size_t i = first; i < arguments.size(); ++i) {
    const bool is_by_position = i - first < written.positional.size();
    if (is_by_position && !may_be(written.positional[i - first], node->input(i))) return false;
    const bool is_written =
        is_by_position || std::ranges::find(written.keywords, arguments[i].name()) != written.keywords.end();
    if (!is_written && !may_be_default(arguments[i], node->input(i))) return false;
  }
  return true;
}

/// Functions of that name that are one operator.
std::vector<Symbol> functions(std::string_view name) {
  std::vector<Symbol> found;
  for (const std::string_view space : {kFunctionalPrefix, kTorchPrefix}) {
    if (space == kFunctionalPrefix && is_python_functional(name)) continue;
    if (has_word(pytorch_names(space), name)) found.push_back(parse_symbol(std::string(space).append(name)));
  }
  return found;
}

}  // namespace

bool is_python_functional(std::string_view name) {
  return std::ranges::find(kPythonFunctionals, name) != kPythonFunctionals.end();
}

bool names_operator(std::string_view called, std::string_view aten) {
  if (without_underscore(called) == without_underscore(aten)) return true;
  const auto graph = std::make_shared<torch::jit::Graph>();
  graph->insertNode(graph->create(c10::Symbol::aten(std::string(without_underscore(called))), 0));
  torch::jit::NormalizeOps(graph);
  return graph->nodes().begin()->kind().toUnqualString() == without_underscore(aten);
}

bool calls_method(const Node* node, const Origin& origin) {
  const auto [prefix, name] = split_callee(origin.expression);
  if (prefix.empty() || node->kind() == c10::prim::CallFunction) return false;
  if (prefix == "torch" || prefix == "operator" || is_functional(prefix)) return false;
  if (!has_word(tensor_methods(), name)) return false;
  if (functions(name).empty()) return true;
  const std::optional<WrittenArguments> written = written_arguments(node);
  return !written || can_be_inputs_from(1, *written, node) || !can_be_inputs_from(0, *written, node);
}

std::vector<Symbol> called_symbols(const Node* node, const Origin& origin) {
  const auto [prefix, name] = split_callee(origin.expression);
  const auto in = [&name = name](std::string_view space) {
    return std::vector{parse_symbol(std::string(space).append(name))};
  };
  if (prefix == "torch") return in(kTorchPrefix);
  if (is_functional(prefix)) return in(kFunctionalPrefix);
  if (prefix == "operator") return {parse_symbol(origin.expression)};
  if (calls_method(node, origin)) return in("");
  std::vector<Symbol> found = functions(name);
  return found.empty() ? in(kTorchPrefix) : found;
}

}  // namespace tsq::ir
