#include <algorithm>
#include <cctype>
#include <string>

#include "ir/graph_module.h"

namespace tsq::ir {
namespace {

constexpr std::string_view kFunctionalPrefix = "__torch__.torch.nn.functional.";

/// The function behind torch.nn.functional's boolean dispatch: F.max_pool2d is compiled as _max_pool2d.
std::string public_functional_name(std::string_view compiled) {
  if (compiled.starts_with('_') && compiled.find("pool") != std::string_view::npos) compiled.remove_prefix(1);
  return "torch.nn.functional." + std::string(compiled);
}

void add_spellings(std::string_view name, std::vector<Symbol>& result) {
  for (const std::string_view prefix : {"torch.nn.functional.", "torch.", "operator."}) {
    result.push_back(symbol(std::string(prefix) + std::string(name)));
  }
  result.push_back(symbol(name));
}

std::vector<Symbol> aten_spellings(std::string_view name) {
  std::vector<Symbol> result;
  if (name == "__getitem__" || name == "select" || name == "slice")
    result.push_back(symbol("operator.getitem"));
  if (name == "concat" || name == "concatenate")
    return {symbol("torch.cat"), symbol("torch." + std::string(name))};
  if (name == "rsub") return {symbol("operator.sub")};
  if (name == "permute_copy") return {symbol("torch.permute_copy")};
  add_spellings(name, result);
  if (name.ends_with('_') && !name.ends_with("__")) add_spellings(name.substr(0, name.size() - 1), result);
  return result;
}

/// The expression in the user's Python source that a node was compiled from: for a call the callee, for an
/// operator the whole of it. Scripted files carry it; empty for traced files and for files without debug
/// information.
std::string source_expression(const Node* node) {
  torch::jit::SourceRange range = node->sourceRange();
  if (const auto generating = range.findSourceRangeThatGenerated()) {
    range = *generating;
  } else if (range.source() == nullptr || !range.source()->filename() ||
             range.source()->filename()->starts_with("code/")) {
    return {};
  }
  std::string text = range.text().str();
  // A traced node's source is the Python stack at that time.
  if (text.find("): ") != std::string::npos && text.find(".py(") != std::string::npos) return {};
  return text;
}

bool is_identifier_path(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.';
  });
}

/// `1.0 - x` and `1.0 / x` call functions of TorchScript's own, which hold these expressions.
std::optional<Symbol> scalar_on_the_left(std::string_view text) {
  if (text == "torch.neg(b) + a") return symbol("operator.sub");
  if (text == "torch.reciprocal(b) * a") return symbol("operator.truediv");
  return std::nullopt;
}

/// How FX, which traces the Python source, sees an operator that TorchScript spells `aten::name`. Empty: the
/// source does not tell.
std::vector<Symbol> source_spelling(const Node* node, std::string_view name) {
  const std::string text = source_expression(node);
  if (text.empty()) return {};
  if (const auto left = scalar_on_the_left(text)) return {*left};
  const auto dot = text.rfind('.');
  std::string_view callee =
      dot == std::string::npos ? std::string_view(text) : std::string_view(text).substr(dot + 1);
  const std::string_view plain = name.ends_with('_') ? name.substr(0, name.size() - 1) : name;
  const bool named = callee == name || callee == plain;
  if (!named) {
    const bool is_operator = text.find_first_of("+-*/@") != std::string::npos && !is_identifier_path(text);
    return is_operator ? std::vector<Symbol>{symbol("operator." + std::string(plain))}
                       : std::vector<Symbol>{};
  }
  if (dot == std::string::npos) return {symbol("torch." + std::string(plain))};
  const std::string_view prefix = std::string_view(text).substr(0, dot);
  if (prefix == "torch") return {symbol("torch." + std::string(plain))};
  if (prefix == "F" || prefix.ends_with("functional"))
    return {symbol("torch.nn.functional." + std::string(callee))};
  return {symbol(callee)};
}

}  // namespace

std::vector<Symbol> targets(const GraphModule& gm, const Node* node) {
  if (is_module_call(node)) return {call_of(gm, node).type};
  if (node->kind() == c10::prim::CallFunction) {
    const auto function = node->input(0)->type()->cast<c10::FunctionType>();
    const std::string name = function ? function->function()->qualname().qualifiedName() : "";
    if (!name.starts_with(kFunctionalPrefix)) return {};
    return {symbol(public_functional_name(std::string_view(name).substr(kFunctionalPrefix.size())))};
  }
  if (node->kind().is_aten()) {
    const std::string_view name = node->kind().toUnqualString();
    auto spelling = source_spelling(node, name);
    return spelling.empty() ? aten_spellings(name) : spelling;
  }
  return {};
}

std::string display_name(const GraphModule& gm, const Node* node) {
  if (is_module_call(node)) return std::string(call_of(gm, node).type.name);
  if (node->kind() == c10::prim::CallFunction) {
    const auto symbols = targets(gm, node);
    return symbols.empty() ? "a function" : std::string(symbols.front().name);
  }
  return node->kind().toQualString();
}

}  // namespace tsq::ir
