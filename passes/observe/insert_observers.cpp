// Puts observers where row and QConfig ask for one.
//   x → conv → y   becomes   x → observer → conv → observer → y

#include "passes/observe/insert_observers.h"

#include <algorithm>
#include <span>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/fx_names.h"
#include "ir/number_first.h"
#include "passes/context/custom_lstm.h"
#include "passes/context/names.h"
#include "passes/context/nodes.h"
#include "passes/observe/layer_observers.h"

namespace tsq::passes {
namespace {

/// D-24: functionals whose weight has no kernel that takes it quantized.
bool has_quantizable_weight(std::span<const Symbol> targets) {
  return std::ranges::none_of(targets, [](const Symbol& target) {
    return target.name == "torch.nn.functional.layer_norm" ||
           target.name == "torch.nn.functional.group_norm" ||
           target.name == "torch.nn.functional.instance_norm";
  });
}

/// Whether a value is a parameter of the module that freezing has left an operator of. FX sees the module
/// alone. What a module is called with is none of its own.
bool is_own_parameter(const Model& model, const Node* node, const Value* value) {
  if (value->node()->kind() != c10::prim::GetAttr || ir::is_module_call(node)) return false;
  const auto targets = ir::targets(model, node);
  return !targets.empty() &&
         std::ranges::all_of(targets, [](const Symbol& target) { return target.kind == SymbolKind::Module; });
}

/// The tuple that a node takes apart where it was put together; null for others.
Node* unpacked_tuple(Node* node) {
  if (node->kind() != c10::prim::TupleUnpack) return nullptr;
  Node* tuple = node->input()->node();
  return tuple->kind() == c10::prim::TupleConstruct ? tuple : nullptr;
}

/// Walks back through first arguments to an observer: the first that is a value, or (for later list
/// elements) the first at all.
Node* observer_before(Value* value, bool first_node) {
  while (!ir::is_observer(value->node())) {
    Node* node = value->node();
    if (node->kind() == c10::prim::Param || node->kind() == c10::prim::GetAttr || !node->blocks().empty())
      return nullptr;
    if (Node* tuple = unpacked_tuple(node)) {
      value = tuple->input(value->offset());
      continue;
    }
    const auto arguments = ir::arguments(node);
    const auto next = std::ranges::find_if(arguments, [&](const ir::Argument& argument) {
      return !first_node || (!argument.is_list && !ir::is_constant(argument.value));
    });
    if (next == arguments.end() || next->is_list || ir::is_constant(next->value)) return nullptr;
    value = next->value;
  }
  return value->node();
}

/// From here on the node calls another observer, which FX then has under two names.
void take_observer(Model& model, Node* node, std::size_t index) {
  if (ir::observer_index(node) == index) return;
  if (!node->hasAttribute(ir::kObserverName)) node->s_(ir::kObserverName, ir::observer_of(model, node).name);
  ir::set_observer_index(node, index);
}

/// D-28, D-31: output and further list elements take the observer of the first tensor argument. False when
/// there is none.
bool share_input_observer(Model& model, const Node* node, Node* output_observer) {
  const auto arguments = ir::arguments(node);
  const auto first =
      std::ranges::find_if(arguments, [](const ir::Argument& a) { return !ir::is_constant(a.value); });
  if (first == arguments.end() || (first->is_list && first->elements.empty())) return false;
  const Node* source =
      observer_before(first->is_list ? first->elements.front() : first->value, /*first_node=*/true);
  if (source == nullptr) return false;
  const std::size_t index = ir::observer_index(source);
  if (first->is_list) {
    for (std::size_t i = 1; i < first->elements.size(); ++i) {
      Node* other = observer_before(first->elements[i], /*first_node=*/false);
      if (other == nullptr) return false;
      take_observer(model, other, index);
    }
  }
  take_observer(model, output_observer, index);
  return true;
}

/// Indices of an embedding are integers: quantizing them when the model runs would raise.
bool is_index_of_rows(const Model& model, const Node* node) {
  return ir::is_module_call(node) && ir::call_of(model, node).embedding.has_value();
}

/// Whether a branch of an `if` returns a value that is rounded there.
bool some_branch_rounds(const TargetInfos& infos, const Value* value, ScalarType dtype) {
  const Node* node = value->node();
  if (node->kind() != c10::prim::If) return false;
  return std::ranges::any_of(node->blocks(), [&](const torch::jit::Block* block) {
    const Value* returned = block->outputs()[value->offset()];
    const auto made = infos.of_value(returned);
    return some_branch_rounds(infos, returned, dtype) ||
           (made && !ir::is_no_value(returned) && made->dtype == dtype);
  });
}

/// What reads the tuple reads its elements, which are quantized, from now on.
void read_elements(Value* tuple, const std::vector<Value*>& elements) {
  for (const torch::jit::Use& use : std::vector<torch::jit::Use>(tuple->uses())) {
    Node* user = use.user;
    if (user->kind() == c10::prim::TupleUnpack) {
      for (std::size_t i = 0; i < elements.size(); ++i) user->output(i)->replaceAllUsesWith(elements[i]);
    } else if (user->kind() == c10::prim::TupleIndex) {
      const auto index = ir::whole_number_constant(user->input(1));
      if (index) user->output()->replaceAllUsesWith(elements.at(static_cast<std::size_t>(*index)));
    }
  }
}

/// E-09: the tuple (output, (h, c)) of an LSTM is taken apart, and put together again for those who read it
/// whole.
void take_apart(Node* lstm) {
  Value* result = lstm->output();
  Node* outer = ir::insert_node(lstm->next(), c10::prim::TupleUnpack, {result}, 2);
  Node* inner = ir::insert_node(outer->next(), c10::prim::TupleUnpack, {outer->output(1)}, 2);
  const auto set_types = [](Node* unpack) {
    const auto elements = unpack->input(0)->type()->expectRef<c10::TupleType>().elements();
    for (std::size_t i = 0; i < elements.size(); ++i) unpack->output(i)->setType(elements[i]);
  };
  set_types(outer);
  set_types(inner);
  torch::jit::Graph& graph = *lstm->owningGraph();
  Node* states = graph.createTuple(inner->outputs())->insertAfter(inner);
  Node* whole = graph.createTuple({outer->output(0), states->output()})->insertAfter(states);
  result->replaceAllUsesAfterNodeWith(whole, whole->output());
  read_elements(whole->output(), {outer->output(0), states->output()});
  read_elements(states->output(), {inner->output(0), inner->output(1)});
}

/// D-32: the observer of a quantized graph input is outside the graph.
bool reads_quantized_input(const TargetInfos& infos, const Node* node) {
  const auto arguments = ir::arguments(node);
  return !arguments.empty() && !arguments.front().is_list &&
         arguments.front().value->node()->kind() == c10::prim::Param &&
         infos.of(node).output->dtype == ScalarType::QUInt8;
}

}  // namespace

void ObserverInsertion::observe_inputs(Node* root) {
  if (ir::is_standalone(model_, root)) return observe_standalone_inputs(root);
  const auto arguments = ir::arguments_as_written(root);
  const Value* zeroth = arguments.empty() ? nullptr : arguments.front().value;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::vector<Value*> values =
        arguments[i].is_list ? arguments[i].elements : std::vector<Value*>{arguments[i].value};
    for (Value* value : values) {
      const auto observer = needed_observer(root, infos_.of(root).role_of(i), value,
                                            /*is_zeroth=*/!arguments[i].is_list && value == zeroth);
      const std::string& layer = ir::scope_of(model_, root).path;
      if (observer && !is_rounded_in_branches(value, *observer, layer))
        ir::replace_operand(ir::reader_of_arguments(root), value, observed(value, *observer, layer));
    }
  }
}

/// E-02: a standalone module's own configuration tells which inputs it takes quantized.
void ObserverInsertion::observe_standalone_inputs(Node* node) {
  const auto boundary = *ir::call_of(model_, node).standalone;
  const TargetInfo& info = infos_.of(node);
  for (const int index : boundary.input_quantized_indexes) {
    const auto position = static_cast<std::size_t>(index);
    if (position >= node->inputs().size() || !info.input) continue;
    Value* value = node->input(position);
    const auto made = infos_.of_value(value);
    if (!made || made->dtype == ScalarType::QUInt8 || !ir::holds_tensor(value)) continue;
    WantedObserver wanted = *info.input;
    wanted.dtype = ScalarType::QUInt8;
    ir::replace_operand(node, value, observed(value, wanted, ir::scope_of(model_, node).path));
  }
}

/// D-20: the observer that `value` needs on its way into `node`.
std::optional<WantedObserver> ObserverInsertion::needed_observer(const Node* node, Role role,
                                                                 const Value* value, bool is_zeroth) const {
  if (!ir::holds_tensor(value) || value->type()->kind() != c10::TypeKind::TensorType) return std::nullopt;
  const TargetInfo& info = infos_.of(node);
  const std::optional<WantedObserver> wanted = role == Role::Activation ? info.input
                                               : role == Role::Bias     ? info.bias
                                                                        : info.weight;
  if (!wanted || (role == Role::Weight && !has_quantizable_weight(ir::targets(model_, node))) ||
      is_own_parameter(model_, node, value))
    return std::nullopt;
  const auto made = infos_.of_value(value);
  if (wanted->is_dynamic) return is_zeroth && made && !is_index_of_rows(model_, node) ? wanted : std::nullopt;
  if (info.reuses_input || !is_quantized_dtype(wanted->dtype) || !made) return std::nullopt;
  const bool observable = is_quantized_dtype(made->dtype) || made->dtype == ScalarType::Float;
  return observable && made->dtype != wanted->dtype ? wanted : std::nullopt;
}

/// A fixed range is that of an operator's output (D-37). After an `if` it would cut what has a range of its
/// own in its branch: it is for the other branches alone, as FX has it where there is no `if`.
bool ObserverInsertion::is_rounded_in_branches(Value* value, const WantedObserver& observer,
                                               const std::string& layer) {
  if (observer.spec.observer != observer_classes::kFixedQParams ||
      !some_branch_rounds(infos_, value, observer.dtype))
    return false;
  for (torch::jit::Block* block : value->node()->blocks()) {
    Value* returned = block->outputs()[value->offset()];
    const auto made = infos_.of_value(returned);
    const bool needs_none = ir::is_no_value(returned) || (made && made->dtype == observer.dtype);
    if (value->uses().size() > 1 || needs_none || is_rounded_in_branches(returned, observer, layer)) continue;
    Node* node = insert_observer_before(model_, returned, new_observer(model_, observer.spec, layer),
                                        block->return_node());
    block->return_node()->replaceInput(value->offset(), node->output());
  }
  return true;
}

/// An observer of `value`: one that is there already when class and dtype agree (D-22), else a new one.
Value* ObserverInsertion::observed(Value* value, const WantedObserver& observer, const std::string& layer) {
  for (Node* user : ir::users(value)) {
    if (!ir::is_observer(user)) continue;
    const ObserverSpec& there = ir::observer_of(model_, user).spec;
    if (there.observer == observer.spec.observer && resolve(there).dtype == observer.dtype)
      return user->output();
  }
  return ir::insert_observer(model_, value, new_observer(model_, observer.spec, layer))->output();
}

OutputObserver ObserverInsertion::observe_output(Node* last) {
  if (ir::is_standalone(model_, last)) return OutputObserver::None;
  const TargetInfo& info = infos_.of(last);
  if (!info.output || info.output->is_dynamic || !is_quantized_dtype(info.output->dtype))
    return OutputObserver::None;
  if (is_custom_lstm(model_, last)) {
    take_apart(last);
    return OutputObserver::Inserted;
  }
  if (last->outputs().size() != 1 || last->output()->type()->kind() != c10::TypeKind::TensorType)
    return OutputObserver::NoTensor;
  Node* observer = ir::insert_observer(model_, last->output(),
                                       new_observer(model_, info.output->spec, ir::layer_of(model_, last)));
  last->output()->replaceAllUsesAfterNodeWith(observer, observer->output());
  const bool shares = info.shares_observer && !reads_quantized_input(infos_, last);
  if (!shares && !info.reuses_input) return OutputObserver::Inserted;
  const bool is_shared = share_input_observer(model_, last, observer);
  model_.observers.pop_back();
  if (is_shared) return OutputObserver::Inserted;
  replace_node(observer, last->output());
  return OutputObserver::NothingToShare;
}

}  // namespace tsq::passes
