// Puts observers where row and QConfig ask for one (torch/ao/quantization/fx/prepare.py,
// insert_observers_for_model).
//   x → conv → y   becomes   x → observer → conv → observer → y

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "config/observer_classes.h"
#include "match/dtype_check.h"
#include "passes/observe/explain_observed.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

using c10::ScalarType;
using ir::GraphModule;
using ir::Node;
using ir::Value;

/// An observer's constructor with what the rules ask of it.
struct Observer {
  ObserverSpec spec{};
  ScalarType dtype{ScalarType::Float};
  bool is_dynamic{false};
};

Observer observer_of(const ObserverSpec& spec) {
  const ResolvedObserver resolved = resolve(spec);
  return {spec, resolved.dtype, resolved.is_dynamic};
}

Observer placeholder(ScalarType dtype) {
  return observer_of({.observer = observer_classes::kPlaceholder, .dtype = dtype});
}

/// target_dtype_info of a node (D-01). An empty observer means "not a float tensor": never observed (D-02).
struct TargetInfo {
  std::optional<Observer> input{};
  std::optional<Observer> weight{};
  std::optional<Observer> bias{};
  std::optional<Observer> output{};
  int weight_index{-1};
  int bias_index{-1};
  bool shares_observer{false};
  bool reuses_input{false};
};

constexpr std::array kQuantizedDtypes{ScalarType::QUInt8, ScalarType::QInt8, ScalarType::QInt32,
                                      ScalarType::Half,   ScalarType::Byte,  ScalarType::Char,
                                      ScalarType::Short,  ScalarType::Int};

bool is_quantized_dtype(ScalarType dtype) {
  return std::find(kQuantizedDtypes.begin(), kQuantizedDtypes.end(), dtype) != kQuantizedDtypes.end();
}

bool is_reuse_input(const QConfig& qconfig) {
  return qconfig.activation.observer == observer_classes::kReuseInput &&
         qconfig.weight.observer == observer_classes::kNoop;
}

/// D-24: functionals whose weight has no kernel that takes it quantized.
bool has_quantizable_weight(std::span<const Symbol> targets) {
  return std::none_of(targets.begin(), targets.end(), [](const Symbol& target) {
    return target.name == "torch.nn.functional.layer_norm" ||
           target.name == "torch.nn.functional.group_norm" ||
           target.name == "torch.nn.functional.instance_norm";
  });
}

/// Lists and dicts are looked up and filled: nothing is computed.
bool handles_containers(const Node* node) {
  constexpr std::array<std::string_view, 16> kNames{
      "__getitem__", "_set_item", "append", "extend", "insert", "pop",   "clear", "list",
      "dict",        "copy",      "keys",   "values", "items",  "slice", "get",   "setdefault"};
  if (!node->kind().is_aten() || node->inputs().empty()) return false;
  const auto kind = node->input(0)->type()->kind();
  const bool reads_container = kind == c10::TypeKind::ListType || kind == c10::TypeKind::DictType;
  return reads_container &&
         std::find(kNames.begin(), kNames.end(), node->kind().toUnqualString()) != kNames.end();
}

enum class Role { Activation, Weight, Bias };

class Observe {
 public:
  Observe(GraphModule& gm, const MatchTable& table, const BackendConfig& backend,
          const PrepareCustomConfig& custom, Report& report)
      : gm_(gm),
        table_(table),
        backend_(backend),
        custom_(custom),
        explanations_(gm, table, backend, report),
        nodes_(ir::nodes_in_order(*gm.graph)) {}

  void run() {
    set_target_infos();
    for (Node* node : nodes_) visit(node);
  }

 private:
  // What each node's values should be.

  void set_target_infos() {
    const TargetInfo as_float{.input = placeholder(ScalarType::Float),
                              .weight = {},
                              .bias = {},
                              .output = placeholder(ScalarType::Float)};
    for (const Node* node : nodes_) infos_[node] = as_float;
    for (const Match& match : table_.matches) {
      const MaybeQConfig& qconfig = qconfig_of(match.last);
      if (!qconfig) continue;
      for (const Node* node : match.nodes) infos_[node] = target_info(node, *qconfig, match);
    }
    for (const Node* node : nodes_) {
      if (has_no_tensor_arguments(node)) infos_[node] = {};
      if (node->kind() == c10::aten::masked_fill) mark_mask(node);
    }
    set_quantized_inputs();
    for (const Match& match : table_.matches) {
      auto refused = refusals(match, qconfig_of(match.last));
      if (refused.empty()) continue;
      first_refusals_[&match] = std::move(refused);
      for (const Node* node : match.nodes) {
        if (!has_no_tensor_arguments(node)) infos_[node] = as_float;
      }
    }
  }

  TargetInfo target_info(const Node* node, const QConfig& qconfig, const Match& match) const {
    const Observer activation = observer_of(qconfig.activation);
    const Observer weight = observer_of(qconfig.weight);
    const bool half =
        activation.dtype == ScalarType::Half && weight.dtype == ScalarType::Half && !activation.is_dynamic;
    TargetInfo info{.input = activation,
                    .weight = weight,
                    .bias = placeholder(half ? ScalarType::Half : ScalarType::Float),
                    .output = activation};
    info.shares_observer = match.shares_observer;
    info.reuses_input = is_reuse_input(qconfig);
    if (ir::is_module_call(node)) return info;
    for (const Symbol& target : ir::targets(gm_, node)) {
      for (const BackendPatternConfig& row : backend_.configs()) {
        if (row.key() != Pattern(target)) continue;
        if (const auto found = row.input_type_to_index.find("weight"); found != row.input_type_to_index.end())
          info.weight_index = found->second;
        if (const auto found = row.input_type_to_index.find("bias"); found != row.input_type_to_index.end())
          info.bias_index = found->second;
      }
    }
    return info;
  }

  /// A node that computes with shapes and numbers only (D-02).
  bool has_no_tensor_arguments(const Node* node) const {
    if (ir::is_module_call(node) || node->kind() == c10::prim::Param || node->kind() == c10::prim::GetAttr)
      return false;
    if (std::none_of(node->outputs().begin(), node->outputs().end(),
                     [](const Value* v) { return ir::holds_tensor(v); }))
      return true;
    if (node->kind() == c10::prim::NumToTensor) return true;  // a size, in traced files
    if (!node->kind().is_aten()) return false;
    const auto operands = ir::operands(node);
    return std::none_of(operands.begin(), operands.end(), [&](const Value* v) {
      if (!ir::holds_tensor(v)) return false;
      return ir::is_constant(v) || !has_no_tensor_arguments(v->node());
    });
  }

  /// D-04: what masks come from is not observed.
  void mark_mask(const Node* node) {
    for (std::size_t i = 1; i < node->inputs().size() && i < 3; ++i) mark_as_no_float(node->input(i));
  }

  void mark_as_no_float(const Value* value) {
    const Node* node = value->node();
    if (node->kind() == c10::prim::Constant) return;
    if (node->kind() == c10::prim::Param) {
      no_float_inputs_.push_back(value);
      return;
    }
    masks_.insert(node);
    infos_[node].input.reset();
    infos_[node].output.reset();
    const Match* match = match_of(node);
    if (match != nullptr && match->shares_observer && !ir::operands(node).empty())
      mark_as_no_float(ir::operands(node).front());
  }

  /// D-03.
  void set_quantized_inputs() {
    for (const int index : custom_.input_quantized_indexes()) {
      const auto position = static_cast<std::size_t>(index) + 1;
      if (index >= 0 && position < gm_.graph->inputs().size())
        quantized_inputs_.push_back(gm_.graph->inputs()[position]);
    }
  }

  /// What a value is declared to be by the node that makes it; observers are looked through.
  std::optional<Observer> output_info(const Value* value) const {
    const Node* node = value->node();
    if (ir::is_observer(node)) return output_info(node->input(0));
    if (std::find(quantized_inputs_.begin(), quantized_inputs_.end(), value) != quantized_inputs_.end())
      return placeholder(ScalarType::QUInt8);
    if (!ir::holds_tensor(value) ||
        std::find(no_float_inputs_.begin(), no_float_inputs_.end(), value) != no_float_inputs_.end()) {
      return std::nullopt;
    }
    const auto found = infos_.find(node);
    return found == infos_.end() ? placeholder(ScalarType::Float) : found->second.output;
  }

  // The backend's checks (D-05 … D-09).

  Role role_of(const Node* node, std::size_t index) const {
    const TargetInfo& info = infos_.at(node);
    if (info.weight_index == static_cast<int>(index)) return Role::Weight;
    if (info.bias_index == static_cast<int>(index)) return Role::Bias;
    return Role::Activation;
  }

  /// The first check that failed of each DTypeConfig before the first that takes the pattern.
  std::vector<std::string> refusals_before_taken(const Match& match, const MaybeQConfig& qconfig) const {
    std::vector<std::string> reasons;
    for (const DTypeConfig& config : match.row->dtype_configs) {
      const auto reason = refusal(match, qconfig, config);
      if (!reason) break;
      reasons.push_back(*reason);
    }
    return reasons;
  }

  /// The first check of each DTypeConfig that failed; empty when one config takes the pattern.
  std::vector<std::string> refusals(const Match& match, const MaybeQConfig& qconfig) const {
    auto reasons = refusals_before_taken(match, qconfig);
    if (match.row->dtype_configs.empty()) return {"the backend's row has no dtype configs"};
    return reasons.size() < match.row->dtype_configs.size() ? std::vector<std::string>{} : reasons;
  }

  std::optional<std::string> refusal(const Match& match, const MaybeQConfig& qconfig,
                                     const DTypeConfig& config) const {
    const auto arguments = ir::arguments(match.root);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::vector<Value*> values =
          arguments[i].is_list ? arguments[i].elements : std::vector<Value*>{arguments[i].value};
      for (const Value* value : values) {
        if (ir::is_constant(value)) continue;
        if (const auto reason = argument_refusal(match.root, role_of(match.root, i), qconfig, config))
          return reason;
      }
    }
    return output_refusal(match.last, qconfig, config);
  }

  std::optional<std::string> argument_refusal(const Node* node, Role role, const MaybeQConfig& qconfig,
                                              const DTypeConfig& config) const {
    const TargetInfo& info = infos_.at(node);
    switch (role) {
      case Role::Activation: {
        if (!config.input_dtype.dtype) return std::nullopt;
        if (!info.input || info.input->dtype != *config.input_dtype.dtype)
          return dtype_refusal("input", info.input, *config.input_dtype.dtype);
        if (config.is_dynamic.value_or(false) != info.input->is_dynamic) {
          return info.input->is_dynamic ? "the qconfig is dynamic, the backend's config static"
                                        : "the qconfig is static, the backend's config dynamic";
        }
        return match::refused_constraint(qconfig, config.input_dtype, /*is_activation=*/true);
      }
      case Role::Weight:
        if (!config.weight_dtype.dtype) return std::nullopt;
        if (!info.weight || info.weight->dtype != *config.weight_dtype.dtype)
          return dtype_refusal("weight", info.weight, *config.weight_dtype.dtype);
        return match::refused_constraint(qconfig, config.weight_dtype, /*is_activation=*/false);
      case Role::Bias:
        if (!config.bias_dtype || (info.bias && info.bias->dtype == *config.bias_dtype)) return std::nullopt;
        return dtype_refusal("bias", info.bias, *config.bias_dtype);
    }
    return std::nullopt;
  }

  std::optional<std::string> output_refusal(const Node* node, const MaybeQConfig& qconfig,
                                            const DTypeConfig& config) const {
    if (!config.output_dtype.dtype) return std::nullopt;
    std::optional<Observer> output = infos_.at(node).output;
    if (output && output->is_dynamic) output = placeholder(ScalarType::Float);
    if (!output || output->dtype != *config.output_dtype.dtype)
      return dtype_refusal("output", output, *config.output_dtype.dtype);
    return match::refused_constraint(qconfig, config.output_dtype, /*is_activation=*/true);
  }

  static std::string dtype_refusal(std::string_view port, const std::optional<Observer>& got,
                                   ScalarType allowed) {
    return fmt::format("{} is {}, the backend's config takes {}", port,
                       got ? dtype_name(got->dtype) : "no float tensor", dtype_name(allowed));
  }

  // Insertion.

  void visit(Node* node) {
    if (node->kind() == c10::prim::Constant) return;
    const MaybeQConfig& qconfig = qconfig_of(node);
    ir::NodeState state{.observed = false, .qconfig = qconfig};
    if (node->kind() == c10::prim::GetAttr) return ir::set_state(gm_, node, state);
    const Match* match = match_of(node);
    if (match != nullptr && qconfig && refusals(*match, qconfig).empty()) {
      state.observed = true;
      if (node == match->root) insert_input_observers(node);
      if (node == match->last) insert_output_observer(node);
    }
    ir::set_state(gm_, node, state);
    if (is_operator(gm_, node)) explanations_.add(node, findings(node, match, qconfig));
  }

  void insert_input_observers(Node* node) {
    if (ir::is_standalone(gm_, node)) return observe_standalone_inputs(node);
    const auto arguments = ir::arguments(node);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::vector<Value*> values =
          arguments[i].is_list ? arguments[i].elements : std::vector<Value*>{arguments[i].value};
      for (Value* value : values) {
        const auto observer =
            needed_observer(node, role_of(node, i), value,
                            /*is_zeroth=*/!arguments[i].is_list && value == arguments[0].value);
        const std::string& layer = ir::scope_of(gm_, node).path;
        if (observer && !is_rounded_in_branches(value, *observer, layer))
          ir::replace_operand(node, value, observed(value, *observer, layer));
      }
    }
  }

  /// E-02: a standalone module's own configuration tells which inputs it takes quantized.
  void observe_standalone_inputs(Node* node) {
    const auto boundary = *ir::call_of(gm_, node).standalone;
    const TargetInfo& info = infos_.at(node);
    for (const int index : boundary.input_quantized_indexes) {
      const auto position = static_cast<std::size_t>(index);
      if (position >= node->inputs().size() || !info.input) continue;
      Value* value = node->input(position);
      const auto made = output_info(value);
      if (!made || made->dtype == ScalarType::QUInt8 || !ir::holds_tensor(value)) continue;
      Observer wanted = *info.input;
      wanted.dtype = ScalarType::QUInt8;
      ir::replace_operand(node, value, observed(value, wanted, ir::scope_of(gm_, node).path));
    }
  }

  /// Indices of an embedding are integers: quantizing them when the model runs would raise.
  bool is_index_of_rows(const Node* node) const {
    return ir::is_module_call(node) && ir::call_of(gm_, node).embedding.has_value();
  }

  /// D-20: the observer that `value` needs on its way into `node`.
  std::optional<Observer> needed_observer(const Node* node, Role role, const Value* value,
                                          bool is_zeroth) const {
    if (!ir::holds_tensor(value) || value->type()->kind() != c10::TypeKind::TensorType) return std::nullopt;
    const TargetInfo& info = infos_.at(node);
    std::optional<Observer> wanted = role == Role::Activation ? info.input
                                     : role == Role::Bias     ? info.bias
                                                              : info.weight;
    if (role == Role::Weight && !has_quantizable_weight(ir::targets(gm_, node))) return std::nullopt;
    if (!wanted) return std::nullopt;
    const auto made = output_info(value);
    if (wanted->is_dynamic) return is_zeroth && made && !is_index_of_rows(node) ? wanted : std::nullopt;
    if (info.reuses_input || !is_quantized_dtype(wanted->dtype) || !made) return std::nullopt;
    const bool observable = is_quantized_dtype(made->dtype) || made->dtype == ScalarType::Float;
    return observable && made->dtype != wanted->dtype ? wanted : std::nullopt;
  }

  /// Whether a branch of an `if` returns a value that is rounded there.
  bool some_branch_rounds(const Value* value, ScalarType dtype) const {
    const Node* node = value->node();
    if (node->kind() != c10::prim::If) return false;
    return std::ranges::any_of(node->blocks(), [&](const torch::jit::Block* block) {
      const Value* given = block->outputs()[value->offset()];
      const auto made = output_info(given);
      return some_branch_rounds(given, dtype) || (made && !ir::is_no_value(given) && made->dtype == dtype);
    });
  }

  /// A fixed range is that of an operator's output (D-37). After an `if` it would cut what has a range of
  /// its own in its branch: it is for the other branches alone, as FX has it where there is no `if`.
  bool is_rounded_in_branches(Value* value, const Observer& observer, const std::string& layer) {
    if (observer.spec.observer != observer_classes::kFixedQParams ||
        !some_branch_rounds(value, observer.dtype))
      return false;
    for (torch::jit::Block* block : value->node()->blocks()) {
      Value* given = block->outputs()[value->offset()];
      const auto made = output_info(given);
      const bool needs_none = ir::is_no_value(given) || (made && made->dtype == observer.dtype);
      if (value->uses().size() > 1 || needs_none || is_rounded_in_branches(given, observer, layer)) continue;
      Node* node = gm_.graph->create(ir::kObserverKind, {given}, 1);
      ir::set_observer_index(node, new_entry(observer.spec, layer));
      ir::take_scope(node, given->node());
      node->output()->setType(given->type());
      node->insertBefore(block->return_node());
      block->return_node()->replaceInput(value->offset(), node->output());
    }
    return true;
  }

  /// An observer of `value`: one that is there already when class and dtype agree (D-22), else a new one.
  Value* observed(Value* value, const Observer& observer, const std::string& layer) {
    for (Node* user : ir::users(value)) {
      if (!ir::is_observer(user)) continue;
      const ObserverSpec& there = gm_.observers[ir::observer_index(user)].spec;
      if (there.observer == observer.spec.observer && resolve(there).dtype == observer.dtype)
        return user->output();
    }
    return ir::insert_observer(gm_, value, new_entry(observer.spec, layer))->output();
  }

  std::size_t new_entry(const ObserverSpec& spec, const std::string& layer) {
    gm_.observers.push_back({fmt::format("activation_post_process_{}", gm_.observers.size()), spec, layer});
    return gm_.observers.size() - 1;
  }

  void insert_output_observer(Node* node) {
    if (ir::is_standalone(gm_, node)) return;
    const TargetInfo& info = infos_.at(node);
    if (!info.output || info.output->is_dynamic || !is_quantized_dtype(info.output->dtype)) return;
    if (node->outputs().size() != 1 || node->output()->type()->kind() != c10::TypeKind::TensorType) {
      without_tensor_.insert(node);
      return;
    }
    const std::string layer =
        ir::is_module_call(node) ? ir::call_of(gm_, node).path : ir::scope_of(gm_, node).path;
    Node* observer = ir::insert_observer(gm_, node->output(), new_entry(info.output->spec, layer));
    node->output()->replaceAllUsesAfterNodeWith(observer, observer->output());
    const bool shares = info.shares_observer && !reads_quantized_input(node);
    if (!shares && !info.reuses_input) return;
    if (share_input_observer(node, observer)) {
      gm_.observers.pop_back();
      return;
    }
    observer->output()->replaceAllUsesWith(node->output());
    observer->destroy();
    gm_.observers.pop_back();
    without_observer_to_share_.insert(node);
  }

  /// D-32: the observer of a quantized graph input is outside the graph.
  bool reads_quantized_input(const Node* node) const {
    const auto arguments = ir::arguments(node);
    return !arguments.empty() && !arguments.front().is_list &&
           arguments.front().value->node()->kind() == c10::prim::Param &&
           infos_.at(node).output->dtype == ScalarType::QUInt8;
  }

  /// D-28, D-31: output and further list elements take the observer of the first tensor argument. False when
  /// there is none.
  bool share_input_observer(const Node* node, Node* output_observer) {
    const auto arguments = ir::arguments(node);
    const auto first = std::find_if(arguments.begin(), arguments.end(),
                                    [](const ir::Argument& a) { return !ir::is_constant(a.value); });
    if (first == arguments.end() || (first->is_list && first->elements.empty())) return false;
    const Node* source =
        observer_behind(first->is_list ? first->elements.front() : first->value, /*first_node=*/true);
    if (source == nullptr) return false;
    const std::size_t index = ir::observer_index(source);
    if (first->is_list) {
      for (std::size_t i = 1; i < first->elements.size(); ++i) {
        Node* other = observer_behind(first->elements[i], /*first_node=*/false);
        if (other == nullptr) return false;
        ir::set_observer_index(other, index);
      }
    }
    ir::set_observer_index(output_observer, index);
    return true;
  }

  /// Walks back through first arguments to an observer: the first that is a value, or (for later list
  /// elements) the first at all.
  static Node* observer_behind(Value* value, bool first_node) {
    while (!ir::is_observer(value->node())) {
      Node* node = value->node();
      if (node->kind() == c10::prim::Param || node->kind() == c10::prim::GetAttr || !node->blocks().empty())
        return nullptr;
      const auto arguments = ir::arguments(node);
      const auto next = std::find_if(arguments.begin(), arguments.end(), [&](const ir::Argument& argument) {
        return !first_node || (!argument.is_list && !ir::is_constant(argument.value));
      });
      if (next == arguments.end() || next->is_list || ir::is_constant(next->value)) return nullptr;
      value = next->value;
    }
    return value->node();
  }

  // Book-keeping.

  const Match* match_of(const Node* node) const {
    const auto found = table_.match_of.find(node);
    return found == table_.match_of.end() ? nullptr : &table_.matches[found->second];
  }

  const MaybeQConfig& qconfig_of(const Node* node) const {
    static const MaybeQConfig kNone;
    const auto found = table_.qconfig_of.find(node);
    return found == table_.qconfig_of.end() ? kNone : found->second.qconfig;
  }

  Findings findings(const Node* node, const Match* match, const MaybeQConfig& qconfig) const {
    Findings found{.on_tensors = !has_no_tensor_arguments(node) && !handles_containers(node)};
    found.is_mask = masks_.contains(node);
    found.gives_no_tensor = without_tensor_.contains(node);
    found.has_nothing_to_share = without_observer_to_share_.contains(node);
    if (match == nullptr || !qconfig) return found;
    const auto refused = first_refusals_.find(match);
    found.is_refused = refused != first_refusals_.end();
    found.refusals = found.is_refused ? refused->second : refusals_before_taken(*match, qconfig);
    return found;
  }

  GraphModule& gm_;
  const MatchTable& table_;
  const BackendConfig& backend_;
  const PrepareCustomConfig& custom_;
  ObservationReport explanations_;
  std::vector<Node*> nodes_;
  std::unordered_map<const Node*, TargetInfo> infos_;
  std::unordered_map<const Match*, std::vector<std::string>>
      first_refusals_;  ///< by what the user configured
  std::vector<const Value*> quantized_inputs_;
  std::vector<const Value*> no_float_inputs_;
  std::unordered_set<const Node*> masks_;                      ///< and what they come from
  std::unordered_set<const Node*> without_tensor_;             ///< their output is something else
  std::unordered_set<const Node*> without_observer_to_share_;  ///< D-30: their observers went again
};

}  // namespace

void observe(GraphModule& gm, const MatchTable& table, const BackendConfig& backend,
             const PrepareCustomConfig& custom, Report& report) {
  Observe(gm, table, backend, custom, report).run();
}

}  // namespace tsq::passes
