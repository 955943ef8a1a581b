// What a plan says of operators and values is done: no other pass writes placements of a calibrated model,
// or takes observers out of it.
//   gelu(observer(linear(x))), the plan does not round the linear layer's output   →   gelu(linear(x))

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <unordered_map>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/place/draft.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"
#include "passes/place/plan_names.h"
#include "passes/place/round_unobserved.h"
#include "passes/place/rounding.h"
#include "torchscript/modules/recurrent.h"

namespace tsq::passes {
namespace {

using ir::NodeRecord;
using ir::Placement;
using ir::Reason;

constexpr const char* kMakePlan = "write a plan of this model with --plan-output, and edit that";

[[noreturn]] void refuse(const std::string& problem, const std::string& remedy = kMakePlan) {
  throw Error(ErrorCode::BadConfig, problem, remedy);
}

void check_origin(const Plan& plan, const Plan& wanted) {
  const auto check = [](std::string_view what, const std::string& got, const std::string& want) {
    if (got != want)
      refuse(fmt::format("the plan is for {} '{}', and the model is converted for '{}'", what, got, want));
  };
  check("backend", plan.backend, wanted.backend);
  check("engine", plan.engine, wanted.engine);
  check("target", plan.target, wanted.target);
  check("recipe", plan.recipe, wanted.recipe);
}

/// Prepare's mapping, or the table, says what it is, and no sentence of a plan's.
bool follows_from_table(Reason reason) {
  return reason == Reason::None || reason == Reason::Table || reason == Reason::Mapping;
}

class Applied {
 public:
  Applied(Model& model, const PassContext& context)
      : model_(model), context_(context), plan_(*context.plan), operators_(planned_operators(model)) {}

  bool run() {
    check_origin(plan_, empty_plan(context_));
    place_operators();
    const std::vector<const Node*> layers = layers_of_bytes();
    const std::vector<Node*> left = left_operators();
    round_values();
    for (const UnobservedOperator& each : unobserved_) round_unobserved(model_, each);
    keep_float_between_roundings(left);
    check_inputs(layers);
    ir::eliminate_dead_code(*model_.graph);
    return true;
  }

 private:
  void place_operators() {
    if (plan_.operators.size() != operators_.size())
      refuse(fmt::format("the plan is of another model: it has {} operators, and the model {}",
                         plan_.operators.size(), operators_.size()));
    for (std::size_t i = 0; i < operators_.size(); ++i) {
      const PlannedOperator& planned = plan_.operators[i];
      const std::string op = operator_name(model_, operators_[i]);
      const std::string& layer = ir::layer_of(model_, operators_[i]);
      if (planned.op != op || planned.layer != layer)
        refuse(fmt::format(
            "the plan is of another model: where it has '{}' ({} of layer '{}'), the model has {} of "
            "layer '{}'",
            planned.node, planned.op, planned.layer, op, layer));
      place(operators_[i], planned);
    }
  }

  void place(Node* node, const PlannedOperator& planned) {
    NodeRecord& record = ir::record_for(model_, node);
    if (record.placement == Placement::Written && planned.placement != Placement::Written)
      refuse(fmt::format("operator '{}' cannot be planned as {}: it writes into memory that others see",
                         planned.node, to_string(planned.placement)),
             "leave it 'written'");
    if (record.placement == planned.placement && record.reason == planned.reason) {
      // As it was before.
    } else if (is_in_int8(planned.placement)) {
      place_in_int8(node, record, planned);
    } else if (follows_from_table(planned.reason)) {
      record.placement = planned.placement;
      record.reason = planned.reason;
    } else {
      leave_float(node, record, planned);
    }
    add_to_report(record, planned);
    if (ir::is_module_call(node)) place_call(node, planned);
  }

  void place_in_int8(Node* node, NodeRecord& record, const PlannedOperator& planned) {
    const bool is_padding = !planned.kernel.empty();
    const bool is_island = may_be_rounded(node, record);
    if (!is_padding && !is_island && ir::observed_qconfig(model_, node) == nullptr)
      refuse(fmt::format("operator '{}' cannot be planned as {}: prepare has put no observers around it",
                         planned.node, to_string(planned.placement)),
             "leave it 'float', or give it a QConfig when the model is prepared");
    if (is_island) {
      unobserved_.push_back({.op = node,
                             .qconfig = *record.unobserved_qconfig,
                             .name = planned.node,
                             .returns_bytes = planned.placement == Placement::Int8});
      record.lookup.qconfig = record.unobserved_qconfig;
      record.observed = record.is_root = true;
    }
    if (is_padding || is_island) compute_in_int8(record);
    record.placement = planned.placement;
    record.reason = planned.reason;
  }

  /// Prepare has not observed it. The weight of a function would need an observer of its own.
  [[nodiscard]] bool may_be_rounded(const Node* node, const NodeRecord& record) const {
    return record.unobserved_qconfig.has_value() && node->outputs().size() == 1 &&
           !is_functional_layer(model_, node);
  }

  void leave_float(Node* node, NodeRecord& record, const PlannedOperator& planned) {
    const bool was_quantized = record.is_reported && record.decision.quantized;
    const bool is_left_out = !planned.has_qconfig && planned.reason != Reason::ConvertMapping;
    if (is_left_out && was_quantized) record.decision.equalization.clear();
    if (planned.reason == Reason::ConvertMapping) {
      record.placement = planned.placement;
      record.reason = planned.reason;
    } else {
      ir::leave_float(model_, node, planned.placement, planned.reason, planned.detail);
    }
    if (was_quantized && !planned.remedy.empty()) record.decision.remedy = planned.remedy;
    if (is_left_out) record.observed = false;
  }

  static void add_to_report(NodeRecord& record, const PlannedOperator& planned) {
    if (!planned.has_qconfig) record.lookup.qconfig.reset();
    if (!record.is_reported) return;
    auto& notes = record.decision.notes;
    notes.insert(notes.end(), planned.notes.begin(), planned.notes.end());
    if (!planned.kernel.empty()) record.decision.kernel = planned.kernel;
  }

  void place_call(const Node* node, const PlannedOperator& planned) {
    ir::ModuleCall& call = ir::call_of(model_, node);
    if (ir::Weighted* weighted = ir::weighted_of(call)) {
      weighted->fold = planned.fold;
      if (planned.placement == Placement::Float) forget_input(*weighted);
    }
    if (planned.float_recurrent_weights > 0) keep_recurrent_weights(node, call, planned);
  }

  void keep_recurrent_weights(const Node* node, ir::ModuleCall& call, const PlannedOperator& planned) {
    const auto count = static_cast<std::size_t>(planned.float_recurrent_weights);
    const std::size_t first =
        call.module && torchscript::is_recurrent(call.type) ? torchscript::weights_of_first_layer(call) : 0;
    if (count != first)
      refuse(fmt::format("operator '{}' cannot keep {} weights float: its first layer has {}", planned.node,
                         count, first),
             "leave out float_recurrent_weights");
    call.float_recurrent_weights = count;
    if (Decision* decision = ir::decision_of(model_, node))
      decision->float_share = torchscript::share_of_first_weights(call, count);
  }

  /// Observers in front of others last: what an operator reads exact it reads so step by step.
  void round_values() {
    const std::vector<Node*> observers = planned_observers(model_);
    if (plan_.values.size() != observers.size())
      refuse(fmt::format("the plan is of another model: it has {} observed values, and the model {}",
                         plan_.values.size(), observers.size()));
    for (const auto& [node, name] : node_names(model_, plan_.operators)) names_.emplace(name, node);
    for (std::size_t i = observers.size(); i-- > 0;) {
      const PlannedValue& planned = plan_.values[i];
      const std::string& name = ir::observer_of(model_, observers[i]).name;
      if (planned.observer != name)
        refuse(fmt::format("the plan is of another model: where it has the observer '{}', the model has '{}'",
                           planned.observer, name));
      round_value(observers[i], planned);
    }
  }

  void round_value(Node* observer, const PlannedValue& planned) {
    if (!planned.is_rounded) {
      bypass(observer);
      return;
    }
    for (const std::string& name : planned.exact_for) {
      const auto reader = names_.find(name);
      if (reader == names_.end())
        refuse(fmt::format("value '{}' is planned to be exact for '{}', which no operator is called",
                           planned.value, name));
      ir::replace_operand(const_cast<Node*>(reader->second), observer->output(), observer->input(0));
    }
  }

  /// Observed operators that the plan leaves float. Rounding may put lists in the place of others.
  [[nodiscard]] std::vector<Node*> left_operators() const {
    std::vector<Node*> left;
    for (std::size_t i = 0; i < operators_.size(); ++i) {
      Node* node = operators_[i];
      const PlannedOperator& planned = plan_.operators[i];
      const bool is_left = planned.placement == Placement::Float && planned.reason != Reason::Table &&
                           planned.reason != Reason::Mapping;
      const bool has_float_weight = ir::is_module_call(node) && ir::weighted_of(ir::call_of(model_, node));
      if (is_left && !has_float_weight && ir::observed_qconfig(model_, node) != nullptr) left.push_back(node);
    }
    return left;
  }

  /// Lowering would take an operator for bytes whose values stay rounded: between roundings it is
  /// `reference`.
  void keep_float_between_roundings(const std::vector<Node*>& left) {
    for (Node* node : left) {
      if (stands_between_roundings(node)) ir::record_for(model_, node).placement = Placement::Reference;
    }
  }

  [[nodiscard]] bool stands_between_roundings(const Node* node) const {
    const auto reads_rounded = [&](const Value* operand) {
      return !ir::holds_tensor(operand) || is_rounded(model_, context_, operand);
    };
    const auto returns_rounded = [&](const Value* output) {
      const auto readers = ir::users(output);
      return !readers.empty() && std::ranges::all_of(readers, [&](const Node* reader) {
        return is_static_rounding(model_, reader);
      });
    };
    return std::ranges::all_of(ir::operands(node), reads_rounded) &&
           std::ranges::all_of(node->outputs(), returns_rounded);
  }

  /// The layers in int8 whose input is rounded: a kernel reads bytes.
  [[nodiscard]] std::vector<const Node*> layers_of_bytes() const {
    std::vector<const Node*> layers;
    for (const Node* node : operators_) {
      if (int8_layer(model_, context_, node) != nullptr && is_rounded(model_, context_, node->input(0)))
        layers.push_back(node);
    }
    return layers;
  }

  void check_inputs(const std::vector<const Node*>& layers) const {
    for (const Node* node : layers) {
      if (is_rounded(model_, context_, node->input(0))) continue;
      refuse(fmt::format("layer '{}' is planned in int8, and what it reads, '{}', is not rounded for it",
                         ir::layer_of(model_, node), node->input(0)->debugName()),
             "plan the value as rounded, or the layer as float");
    }
  }

  Model& model_;
  const PassContext& context_;
  const Plan& plan_;
  std::vector<Node*> operators_;
  std::vector<UnobservedOperator> unobserved_{};
  std::unordered_map<std::string, const Node*> names_{};  ///< of what may read a rounded value
};

}  // namespace

bool apply_plan(Model& model, const PassContext& context) {
  return context.plan != nullptr && Applied(model, context).run();
}

}  // namespace tsq::passes
