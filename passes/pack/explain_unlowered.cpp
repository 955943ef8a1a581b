// Why an operator that was observed is still a float operator after lowering.

#include <fmt/format.h>
#include <tsq/runtime_library.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "backends/kernels/lowering_table.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/quantize_operators.h"
#include "ir/reasons.h"
#include "match/root_modules.h"
#include "operators/dynamic_input.h"
#include "operators/functional_weighted.h"
#include "operators/is_operator.h"
#include "operators/traits.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/pack/passes.h"
#include "torchscript/modules/reference/reference_module.h"

namespace tsq::passes {
namespace {

using ir::Explanation;

bool is_dequantized(const Value* value) { return value->node()->kind() == ir::kDequantize; }
bool is_quantize(const Node* node) { return node->kind() == ir::kQuantize; }

/// A cast of float_in_bfloat16, which prepare never saw.
bool is_new_cast(const Model& model, const Node* node) {
  return node->kind() == c10::aten::to && ir::record_of(model, node) == nullptr;
}

/// What a node reads, before casts.
std::vector<Value*> operands_of(const Model& model, const Node* node) {
  std::vector<Value*> operands = ir::operands(node);
  for (Value*& operand : operands) {
    while (is_new_cast(model, operand->node())) operand = operand->node()->input(0);
  }
  return operands;
}

/// Who reads a value, after casts.
std::vector<Node*> readers_of(const Model& model, const Value* value) {
  std::vector<Node*> readers;
  for (Node* user : ir::users(value)) {
    if (is_new_cast(model, user)) {
      const std::vector<Node*> after = readers_of(model, user->output());
      readers.insert(readers.end(), after.begin(), after.end());
    } else {
      readers.push_back(user);
    }
  }
  return readers;
}

/// "torch.nn.SiLU ('block.act')", "aten::cat ('z')".
std::string name_with_place(const Model& model, const Node* node) {
  const Decision* decision = ir::decision_of(model, node);
  const std::string place = ir::is_module_call(node)  ? ir::call_of(model, node).path
                            : node->outputs().empty() ? ir::scope_of(model, node).path
                            : decision != nullptr     ? decision->node
                                                      : node->outputs().front()->debugName();
  return fmt::format("{}{}", ir::display_name(model, node),
                     place.empty() ? "" : fmt::format(" ('{}')", place));
}

bool has_kernel(const Model& model, const Node* node) {
  for (const Symbol& target : ir::targets(model, node)) {
    if (kernels::binary_kernel(target.name) != nullptr || kernels::unary_kernel(target) != nullptr)
      return true;
    const std::string_view module = operators::module_of_functional(target.name);
    if (kernels::weighted_kernel(module.empty() ? target.name : module, kernels::PostOp::None) != nullptr)
      return true;
  }
  if (!ir::is_module_call(node)) return false;
  const ir::ModuleCall& call = ir::call_of(model, node);
  return !call.members.empty() && kernels::weighted_kernel(call.members.front().type.name,
                                                           kernels::post_op_of(call.type.name)) != nullptr;
}

const Value* float_input(const Model& model, const Node* node) {
  for (const Value* operand : operands_of(model, node)) {
    if (ir::holds_tensor(operand) && !ir::is_constant(operand) && !is_dequantized(operand)) return operand;
  }
  return nullptr;
}

/// Why an input of the model is read in float: its reader may have a qconfig that would observe it.
Explanation of_model_input(const Model& model, const Node* reader) {
  const QConfig* qconfig = ir::observed_qconfig(model, reader);
  const bool would_observe = qconfig != nullptr && !resolve(qconfig->activation).is_dynamic &&
                             resolve(qconfig->activation).dtype != c10::ScalarType::Float;
  return {"it reads an input of the model that has no observer",
          would_observe
              ? "nothing where the input holds integers or booleans; otherwise give the model float32"
              : "give it a qconfig that observes its input; integer and boolean inputs stay as they are"};
}

/// Where a float value was computed, before what only takes it apart or moves it about.
const Value* source_of(const Model& model, const Value* value) {
  while (true) {
    const Node* maker = value->node();
    const bool unpacks = maker->kind() == c10::prim::TupleUnpack || maker->kind() == c10::prim::ListUnpack;
    if (!unpacks && !operators::moves_values(operators::traits_of(model, maker))) return value;
    const std::vector<Value*> operands =
        unpacks ? std::vector<Value*>{maker->input(0)} : operands_of(model, maker);
    const bool is_known = !operands.empty() && !is_dequantized(operands.front()) &&
                          (!unpacks || operators::is_operator(model, operands.front()->node()));
    if (!is_known) return value;
    value = operands.front();
  }
}

/// Whether a kernel that reads int8 has computed a value, and returns it in float.
bool is_float_result_of_kernel(const Model& model, const Value* value) {
  const Decision* decision = ir::decision_of(model, value->node());
  return decision != nullptr && decision->quantized && !decision->kernel.empty() && !is_dequantized(value);
}

Explanation of_float_input(const Model& model, const Node* reader, const Value* value) {
  value = source_of(model, value);
  const Node* maker = value->node();
  const bool in_loop = maker->kind() == c10::prim::Param && maker->owningBlock()->owningNode() != nullptr;
  if (in_loop || maker->kind() == c10::prim::Loop)
    return {"it reads a value that goes around a loop in float",
            "nothing: the value has another range in each turn"};
  if (maker->kind() == c10::prim::If) {
    return {"it reads the result of an 'if', and not all branches quantize it",
            "quantize the last operator of each branch"};
  }
  if (maker->kind() == c10::prim::Param) return of_model_input(model, reader);
  if (maker->kind() == c10::prim::GetAttr)
    return {"it reads a parameter or buffer, which is not quantized", "leave it float"};
  if (is_float_result_of_kernel(model, value)) {
    return {"it reads the result of a quantized layer, which returns float where float operators read it",
            "nothing: values that only float operators read are not rounded"};
  }
  if (!operators::is_operator(model, maker))
    return {"it reads a float value from a list, a tuple or a dict", "leave it float"};
  if (std::string_view(maker->kind().toQualString()) == kProgramOperator)
    return {"it reads what a fused program returns in float",
            "nothing: a program returns bytes only to kernels that read them"};
  const std::string name = name_with_place(model, maker);
  if (ir::is_standalone(model, maker)) {
    return {fmt::format("it reads the result of the standalone module {}, which leaves it in float", name),
            "give the standalone module output_quantized_idxs [0]"};
  }
  return {fmt::format("it reads the float result of {}", name),
          fmt::format("quantize {}, or give this no qconfig", name)};
}

bool reads_dynamic(const Model& model, const Node* node) {
  return std::ranges::any_of(operands_of(model, node), [](const Value* operand) {
    return operators::dynamic_input(operand).has_value();
  });
}

bool has_other_alpha(const Node* node) {
  const bool has_alpha =
      (node->kind() == c10::aten::add || node->kind() == c10::aten::sub) && node->inputs().size() >= 3;
  return has_alpha && ir::whole_number_constant(node->input(2)) != 1;
}

/// The engines' kernels take quint8 and qint8: whether the QConfig asks for these.
bool has_dtypes_of_engines(const Model& model, const Node* node) {
  const QConfig* qconfig = ir::observed_qconfig(model, node);
  return qconfig != nullptr && resolve(qconfig->activation).dtype == c10::ScalarType::QUInt8 &&
         resolve(qconfig->weight).dtype == c10::ScalarType::QInt8;
}

class Explaining {
 public:
  Explaining(Model& model, const BackendConfig& table) : model_(model), table_(table) {
    for (std::size_t i = 0; i < model.report_order.size(); ++i)
      places_.emplace(model.records[model.report_order[i]].decision.node, i);
  }

  bool run() {
    bool has_changed = false;
    for (const Node* node : ir::nodes_in_order(*model_.graph)) {
      if (!operators::is_operator(model_, node) || ir::is_standalone(model_, node)) continue;
      const Decision* decision = ir::decision_of(model_, node);
      if (decision == nullptr || !decision->quantized || !decision->kernel.empty()) continue;
      const Explanation why = explanation(node);
      if (is_rounded(node)) {
        keep_between_roundings(model_, node, ir::Reason::NoKernel, why.reason, why.remedy);
      } else {
        set_no_kernel(model_, node, ir::Placement::Float, ir::Reason::NoKernel, why.reason, why.remedy);
      }
      has_changed = true;
    }
    return has_changed;
  }

 private:
  /// Whether a value that it reads or returns is rounded to int8.
  [[nodiscard]] bool is_rounded(const Node* node) const {
    const auto is_rounded_after = [&](const Value* value) {
      return std::ranges::any_of(readers_of(model_, value), is_quantize);
    };
    return std::ranges::any_of(operands_of(model_, node), is_dequantized) ||
           std::ranges::any_of(node->outputs(), is_rounded_after);
  }

  Explanation explanation(const Node* node) {
    if (const auto of_partner = explanation_by_partner(node)) return *of_partner;
    const std::string name = ir::display_name(model_, node);
    if (!table_.falls_back_to_libtorch()) {
      return {
          fmt::format("no lowering row of the backend '{}' takes {} as it stands here", table_.name(), name),
          "register a row for it, or let the table fall back to LibTorch's kernels"};
    }
    if (const auto of_reference = explanation_by_reference(node)) return *of_reference;
    if (ir::is_module_call(node) && ir::call_of(model_, node).custom == ir::CustomState::Observed) {
      return {fmt::format("it is an observed module, and convert's custom config names nothing for {}", name),
              "name a quantized module under 'observed_to_quantized_custom_module_class'"};
    }
    if (reads_dynamic(model_, node)) {
      return {fmt::format("its qconfig is dynamic, and {} has no dynamic kernel", name),
              "give it a static qconfig and calibrate"};
    }
    if (has_other_alpha(node))
      return {"the kernels of addition have no alpha", "multiply the second operand before the addition"};
    if (!has_kernel(model_, node)) {
      return {fmt::format("no engine has an int8 kernel for {}", name),
              "give it no qconfig if the rounding before and after it costs accuracy; it saves no time"};
    }
    if (const Value* value = float_input(model_, node)) return of_float_input(model_, node, value);
    if (const auto of_readers = explanation_by_readers(node)) return *of_readers;
    if (ir::is_module_call(node)) {
      const ir::Weighted* weighted = ir::weighted_of(ir::call_of(model_, node));
      if (weighted != nullptr && !weighted->weight_qparams)
        return {"its weight is not quantized", "give it a qconfig with a qint8 weight observer"};
    }
    if (has_dtypes_of_engines(model_, node)) {
      return {fmt::format("the kernel of {} does not take its arguments", name),
              "give it no qconfig if the rounding before and after it costs accuracy; it saves no time"};
    }
    return {fmt::format("the kernel of {} does not take its dtypes", name),
            "give it a qconfig with the engine's dtypes (quint8 activations, qint8 weights), or none"};
  }

  /// A reference module of the program's own computes as it likes: no kernel is known to do the same.
  std::optional<Explanation> explanation_by_reference(const Node* node) const {
    if (!ir::is_module_call(node)) return std::nullopt;
    const auto reference = match::reference_module_of(table_, ir::call_of(model_, node));
    if (!reference || !torchscript::is_registered_reference(*reference)) return std::nullopt;
    return Explanation{fmt::format("no lowering row takes its reference module {}", reference->name),
                       "register one (tsq::register_lowering); the reference model needs none"};
  }

  std::optional<Explanation> explanation_by_partner(const Node* node) {
    const Node* partner = partner_of(node);
    if (partner == nullptr) return std::nullopt;
    const Decision& other = *ir::decision_of(model_, partner);
    if (!other.quantized && !unfused_.contains(partner)) {
      return Explanation{
          fmt::format("it forms one kernel with {}, which stays float", name_with_place(model_, partner)),
          other.remedy};
    }
    if (!ir::is_module_call(node) || !ir::is_module_call(partner)) return std::nullopt;
    unfused_.insert(node);
    return Explanation{
        fmt::format(
            "the backend fuses it with {}, but here they cannot be fused, and no kernel computes both",
            name_with_place(model_, partner)),
        "change the model so that they can be fused (a batch norm needs running statistics), or so that "
        "one does not follow the other"};
  }

  /// The neighbour of the same match of several operators, where it is still there: the one before the last
  /// operator, the one after the others.
  const Node* partner_of(const Node* node) const {
    const ir::NodeRecord& record = *ir::record_of(model_, node);
    if (record.partners.empty() || node->outputs().size() != 1) return nullptr;
    std::vector<Node*> near;
    if (is_last_of_match(record)) {
      for (const Value* operand : operands_of(model_, node))
        near.push_back(const_cast<Node*>(operand->node()));
    } else {
      near = readers_of(model_, node->output());
    }
    const auto partner = std::ranges::find_if(near, [&](const Node* other) {
      const Decision* decision =
          operators::is_operator(model_, other) ? ir::decision_of(model_, other) : nullptr;
      return decision != nullptr &&
             std::ranges::find(record.partners, decision->node) != record.partners.end();
    });
    return partner == near.end() ? nullptr : *partner;
  }

  /// The report has operators in the order of the graph.
  bool is_last_of_match(const ir::NodeRecord& record) const {
    const std::size_t own = places_.at(record.decision.node);
    return std::ranges::none_of(record.partners, [&](const std::string& name) {
      const auto place = places_.find(name);
      return place != places_.end() && place->second > own;
    });
  }

  /// Nothing where a quantize node alone reads what a node returns.
  std::optional<Explanation> explanation_by_readers(const Node* node) const {
    if (node->outputs().size() != 1) return std::nullopt;
    const auto readers = readers_of(model_, node->output());
    if (std::ranges::none_of(readers, is_quantize)) {
      const bool is_result = readers.empty() || readers.front()->kind() == c10::prim::Return;
      const std::string reader =
          is_result ? std::string("the model's result") : name_with_place(model_, readers.front());
      return Explanation{fmt::format("its result is not quantized: {} reads it in float", reader),
                         is_result ? std::string("leave it float") : fmt::format("quantize {}", reader)};
    }
    if (readers.size() == 1) return std::nullopt;
    return Explanation{fmt::format("{} other operators read its result in float besides the quantized one",
                                   readers.size() - 1),
                       "quantize the operators after it"};
  }

  Model& model_;
  const BackendConfig& table_;
  std::unordered_map<std::string, std::size_t> places_;  ///< in the report, by Decision::node
  /// The modules that the backend would fuse and that are not.
  std::unordered_set<const Node*> unfused_;
};

}  // namespace

bool explain_unlowered(Model& model, const PassContext& context) {
  return Explaining(model, context.table).run();
}

}  // namespace tsq::passes
