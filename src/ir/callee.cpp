#include "ir/callee.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
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

bool is_list_of(const c10::IValue& value, double number) {
  const auto is_it = [&](const c10::IValue& each) {
    return each.isScalar() && each.toScalar().toDouble() == number;
  };
  return value.isList() && !value.toListRef().empty() && std::ranges::all_of(value.toListRef(), is_it);
}

/// Whether a literal may be what an operator reads. TorchScript writes a number that stands for a list as the
/// list.
bool may_be(const std::string& literal, const Value* value) {
  const std::optional<c10::IValue> constant = constant_value(value);
  if (const auto number = number_in(literal)) {
    if (!constant) return value->type()->kind() != c10::TypeKind::TensorType;
    return is_list_of(*constant, *number) ||
           (constant->isScalar() && !constant->isBool() && constant->toScalar().toDouble() == *number);
  }
  if (literal == "None") return constant && constant->isNone();
  if (literal == "True" || literal == "False")
    return constant && constant->isBool() && constant->toBool() == (literal == "True");
  if (literal.starts_with('[')) return value->type()->kind() == c10::TypeKind::ListType;
  return true;
}

/// Whether the arguments that were written can be the inputs of an operator from `first` on.
bool can_be_inputs_from(std::size_t first, const WrittenArguments& written, const Node* node) {
  const c10::FunctionSchema* schema = node->maybeSchema();
  if (schema == nullptr || schema->is_vararg()) return true;
  const auto& arguments = schema->arguments();
  const auto is_list = [&](std::size_t i) {
    return i < arguments.size() && arguments[i].type()->kind() == c10::TypeKind::ListType;
  };
  // `x.view(2, 3)` writes a list as arguments.
  if (first > 0 && written.positional.size() > 1 && is_list(first)) return true;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (i < first) continue;
    const std::size_t position = i - first;
    if (!arguments[i].kwarg_only() && position < written.positional.size()) {
      if (!may_be(written.positional[position], node->input(i))) return false;
    } else if (std::ranges::find(written.keywords, arguments[i].name()) == written.keywords.end()) {
      if (!arguments[i].default_value()) return false;
      const std::optional<c10::IValue> constant = constant_value(node->input(i));
      if (constant && *constant != *arguments[i].default_value()) return false;
    }
  }
  const auto by_position =
      std::ranges::count_if(arguments, [](const c10::Argument& argument) { return !argument.kwarg_only(); });
  return first + written.positional.size() <= static_cast<std::size_t>(by_position);
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
