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
  if (name == "permute_copy") return {symbol("torch.permute_copy")};
  add_spellings(name, result);
  if (name.ends_with('_') && !name.ends_with("__")) add_spellings(name.substr(0, name.size() - 1), result);
  return result;
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
  if (node->kind().is_aten()) return aten_spellings(node->kind().toUnqualString());
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
