#include "passes/observe/operator_names.h"

#include <fmt/format.h>

#include "config/names/known_names.h"
#include "ir/analysis.h"
#include "operators/is_operator.h"
#include "passes/context/names.h"
#include "passes/observe/layer_observers.h"

namespace tsq::passes {
namespace {

std::string describe_value(const Model& model, const Value* value) {
  const Node* maker = value->node();
  const bool is_carried = maker->kind() == c10::prim::Loop || (maker->kind() == c10::prim::Param &&
                                                               maker->owningBlock()->owningNode() != nullptr);
  if (is_carried) return "a value that goes around a loop";
  if (maker->kind() == c10::prim::Param) return "an input of the model";
  if (maker->kind() == c10::prim::If) return "the result of an 'if'";
  if (maker->kind() == c10::aten::__getitem__ || !operators::is_operator(model, maker))
    return "a value from a list or a dict";
  const std::string& layer = ir::layer_of(model, maker);
  return fmt::format("the float result of {}{}", readable_name(model, maker),
                     layer.empty() ? "" : fmt::format(" ('{}')", layer));
}

}  // namespace

std::string readable_name(const Model& model, const Node* node) {
  if (node->kind() == c10::prim::fork) return "torch.jit.fork";
  if (node->kind() != c10::prim::CallMethod) return ir::display_name(model, node);
  const auto named = node->input(0)->type()->cast<c10::NamedType>();
  const std::string type = named && named->name() ? named->name()->qualifiedName() : "a class";
  return fmt::format("{}.{}", parse_symbol(type).name, node->s(c10::attr::name));
}

std::string describe_input(const Model& model, const Node* node) {
  for (const Value* operand : ir::operands(node)) {
    if (ir::holds_tensor(operand) && !ir::is_constant(operand)) return describe_value(model, operand);
  }
  return "a list that is filled when the model runs";
}

}  // namespace tsq::passes
