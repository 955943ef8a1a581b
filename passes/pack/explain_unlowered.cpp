// Why an operator that was observed is still a float operator after lowering.

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "backends/kernels/lowering_table.h"
#include "ir/analysis.h"
#include "operators/functional_weighted.h"
#include "passes/decision_index.h"
#include "passes/lower/passes.h"
#include "passes/observe/explain_observed.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

struct Explanation {
  std::string reason{};
  std::string remedy{};
};

bool is_dequantized(const Value* value) {
  return value->node()->kind() == c10::Symbol::fromQualString("aten::dequantize");
}
bool is_quantize(const Node* node) {
  return node->kind() == c10::Symbol::fromQualString("aten::quantize_per_tensor");
}

/// "torch.nn.SiLU ('block.act')", "aten::cat ('z')".
std::string name_with_place(const Model& gm, const Node* node) {
  const std::string place = ir::is_module_call(node)  ? ir::call_of(gm, node).path
                            : node->outputs().empty() ? ir::scope_of(gm, node).path
                                                      : node->outputs().front()->debugName();
  return fmt::format("{}{}", ir::display_name(gm, node), place.empty() ? "" : fmt::format(" ('{}')", place));
}

bool has_kernel(const Model& gm, const Node* node) {
  for (const Symbol& target : ir::targets(gm, node)) {
    if (kernels::binary_kernel(target.name) != nullptr || kernels::unary_kernel(target) != nullptr)
      return true;
    const std::string_view module = operators::module_of_functional(target.name);
    if (kernels::weighted_kernel(module.empty() ? target.name : module, kernels::PostOp::None) != nullptr)
      return true;
  }
  if (!ir::is_module_call(node)) return false;
  const ir::ModuleCall& call = ir::call_of(gm, node);
  return !call.members.empty() && kernels::weighted_kernel(call.members.front().type.name,
                                                           kernels::post_op_of(call.type.name)) != nullptr;
}

const Value* float_input(const Node* node) {
  for (const Value* operand : ir::operands(node)) {
    if (ir::holds_tensor(operand) && !ir::is_constant(operand) && !is_dequantized(operand)) return operand;
  }
  return nullptr;
}

Explanation of_float_input(const Model& gm, const Value* value) {
  const Node* maker = value->node();
  const bool in_loop = maker->kind() == c10::prim::Param && maker->owningBlock()->owningNode() != nullptr;
  if (in_loop || maker->kind() == c10::prim::Loop)
    return {"it reads a value that goes around a loop in float",
            "nothing: the value has another range in each turn"};
  if (maker->kind() == c10::prim::If) {
    return {"it reads the result of an 'if', and not all branches quantize it",
            "quantize the last operator of each branch"};
  }
  if (maker->kind() == c10::prim::Param) {
    return {"it reads an input of the model that has no observer",
            "give it a qconfig that observes its input; integer and boolean inputs stay as they are"};
  }
  if (maker->kind() == c10::prim::GetAttr)
    return {"it reads a parameter or buffer, which is not quantized", "leave it float"};
  if (!is_operator(gm, maker))
    return {"it reads a float value from a list, a tuple or a dict", "leave it float"};
  const std::string name = name_with_place(gm, maker);
  if (ir::is_standalone(gm, maker)) {
    return {fmt::format("it reads the result of the standalone module {}, which leaves it in float", name),
            "give the standalone module output_quantized_idxs [0]"};
  }
  return {fmt::format("it reads the float result of {}", name),
          fmt::format("quantize {}, or give this no qconfig", name)};
}

bool reads_dynamic(const Node* node) {
  const auto operands = ir::operands(node);
  return std::any_of(operands.begin(), operands.end(), [](const Value* operand) {
    return is_dequantized(operand) && operand->node()->input(0)->node()->kind() ==
                                          c10::Symbol::fromQualString("aten::quantize_per_tensor_dynamic");
  });
}

bool has_other_alpha(const Node* node) {
  if ((node->kind() != c10::aten::add && node->kind() != c10::aten::sub) || node->inputs().size() < 3)
    return false;
  const auto* alpha = node->input(2)->node();
  return !(alpha->kind() == c10::prim::Constant && alpha->hasAttribute(c10::attr::value) &&
           alpha->kindOf(c10::attr::value) == torch::jit::AttributeKind::i &&
           alpha->i(c10::attr::value) == 1);
}

/// The neighbour that matched the same pattern of several operators, and is still there: the one before the
/// last operator, the one after the others.
const Node* partner_of(const Model& gm, const Node* node, const Decision& decision,
                       const DecisionIndex& decisions) {
  if (decision.pattern.find('(') == std::string::npos || node->outputs().size() != 1) return nullptr;
  const auto targets = ir::targets(gm, node);
  const bool is_last = std::any_of(targets.begin(), targets.end(), [&](const Symbol& target) {
    return decision.pattern.starts_with(fmt::format("{}(", target.name));
  });
  std::vector<Node*> near;
  if (!is_last) near = ir::users(node->output());
  for (Value* operand : is_last ? ir::operands(node) : std::vector<Value*>{}) near.push_back(operand->node());
  const auto partner = std::find_if(near.begin(), near.end(), [&](const Node* other) {
    const Decision* of_other = is_operator(gm, other) ? decisions.of(other) : nullptr;
    return of_other != nullptr && of_other->pattern == decision.pattern;
  });
  return partner == near.end() ? nullptr : *partner;
}

/// The engines' kernels take quint8 and qint8: whether the QConfig asks for these.
bool has_dtypes_of_engines(const Model& gm, const Node* node) {
  const QConfig* qconfig = ir::observed_qconfig(gm, node);
  return qconfig != nullptr && resolve(qconfig->activation).dtype == c10::ScalarType::QUInt8 &&
         resolve(qconfig->weight).dtype == c10::ScalarType::QInt8;
}

/// `unfused` has the modules that the backend would fuse and that are not; `node` is added where it is one.
Explanation explanation(const Model& gm, const Node* node, const Decision& decision,
                        const DecisionIndex& decisions, std::unordered_set<const Node*>& unfused) {
  const std::string name = ir::display_name(gm, node);
  if (const Node* partner = partner_of(gm, node, decision, decisions)) {
    const Decision& other = *decisions.of(partner);
    if (!other.quantized && !unfused.contains(partner))
      return {fmt::format("it forms one kernel with {}, which stays float", name_with_place(gm, partner)),
              other.remedy};
    if (ir::is_module_call(node) && ir::is_module_call(partner)) {
      unfused.insert(node);
      return {
          fmt::format(
              "the backend fuses it with {}, but here they cannot be fused, and no kernel computes both",
              name_with_place(gm, partner)),
          "change the model so that they can be fused (a batch norm needs running statistics), or so that "
          "one does not follow the other"};
    }
  }
  if (reads_dynamic(node)) {
    return {fmt::format("its qconfig is dynamic, and {} has no dynamic kernel", name),
            "give it a static qconfig and calibrate"};
  }
  if (has_other_alpha(node))
    return {"the kernels of addition have no alpha", "multiply the second operand before the addition"};
  if (!has_kernel(gm, node)) {
    return {fmt::format("no engine has an int8 kernel for {}", name),
            "give it no qconfig if the rounding before and after it costs accuracy; it saves no time"};
  }
  if (const Value* value = float_input(node)) return of_float_input(gm, value);
  if (node->outputs().size() == 1) {
    const auto users = ir::users(node->output());
    if (std::none_of(users.begin(), users.end(), [](const Node* user) { return is_quantize(user); })) {
      const std::string reader = users.empty() || users.front()->kind() == c10::prim::Return
                                     ? std::string("the model's result")
                                     : name_with_place(gm, users.front());
      return {fmt::format("its result is not quantized: {} reads it in float", reader),
              users.empty() || users.front()->kind() == c10::prim::Return
                  ? std::string("leave it float")
                  : fmt::format("quantize {}", reader)};
    }
    if (users.size() > 1) {
      return {fmt::format("{} other operators read its result in float besides the quantized one",
                          users.size() - 1),
              "quantize the operators after it"};
    }
  }
  if (ir::is_module_call(node)) {
    const ir::Weighted* weighted = ir::weighted_of(ir::call_of(gm, node));
    if (weighted != nullptr && !weighted->weight_qparams)
      return {"its weight is not quantized", "give it a qconfig with a qint8 weight observer"};
  }
  if (has_dtypes_of_engines(gm, node)) {
    return {fmt::format("the kernel of {} does not take its arguments", name),
            "give it no qconfig if the rounding before and after it costs accuracy; it saves no time"};
  }
  return {fmt::format("the kernel of {} does not take its dtypes", name),
          "give it a qconfig with the engine's dtypes (quint8 activations, qint8 weights), or none"};
}

}  // namespace

void explain_unlowered(const Model& lowered, Report& report) {
  const DecisionIndex decisions(report);
  std::unordered_set<const Node*> unfused;
  for (const Node* node : ir::nodes_in_order(*lowered.graph)) {
    if (!is_operator(lowered, node) || ir::is_standalone(lowered, node)) continue;
    Decision* decision = decisions.of(node);
    if (decision == nullptr || !decision->quantized || !decision->kernel.empty()) continue;
    const Explanation why = explanation(lowered, node, *decision, decisions, unfused);
    decision->quantized = false;
    decision->reason = fmt::format("computed in float between dequantize and quantize: {}", why.reason);
    decision->remedy = why.remedy;
  }
}

}  // namespace tsq::passes
