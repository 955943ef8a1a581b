#include "passes/capture/attribute_slots.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ir/constants.h"
#include "ir/edit.h"
#include "passes/capture/module_values.h"
#include "passes/context/nodes.h"

namespace tsq::passes {
namespace {

bool is_immutable_value(const c10::IValue& value) {
  if (value.isTuple())
    return std::ranges::all_of(value.toTupleRef().elements().asArrayRef(), is_immutable_value);
  return value.isNone() || value.isBool() || value.isInt() || value.isDouble() || value.isString();
}

/// Whether a module stays one, so that its attributes are read where it is.
bool is_kept(const Capturing& state, const Module& module) {
  return state.kept.contains(module._ivalue().get());
}

/// A new attribute of the flat module.
std::string add_slot(Capturing& state, const Module& owner, const std::string& name) {
  ir::Model& model = state.model;
  const std::string path = path_of(state.source, owner);
  const std::string slot =
      is_root(state.source, owner) ? name : ir::unique_attribute_name(model, path + "." + name);
  ir::Attribute attribute = ir::attribute_at(*owner._ivalue(), owner.type()->getAttributeSlot(name));
  attribute.name = slot;
  // Objects of C++ classes are the host program's: they are shared, as they are between copies of a module.
  if (!attribute.is_parameter && !attribute.value.isCustomClass()) model.state.insert(slot);
  model.attributes.add(std::move(attribute));
  model.slots[slot] = {path, name};
  state.slot_owners.emplace(slot, owner);
  return slot;
}

const std::string& slot_for(Capturing& state, const Module& owner, const std::string& name) {
  auto& slots = state.slots[owner._ivalue().get()];
  const auto found = slots.find(name);
  return found != slots.end() ? found->second
                              : slots.emplace(name, add_slot(state, owner, name)).first->second;
}

/// The attribute is one of the flat module's from here on.
void use_slot(Capturing& state, Node* node, const Module& owner) {
  node->s_(c10::attr::name, slot_for(state, owner, node->s(c10::attr::name)));
  node->replaceInput(0, state.model.graph->inputs().at(0));
}

bool is_same_tensor(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined() || !a.has_storage() || !b.has_storage())
    return a.defined() && a.is_same(b);
  return a.is_alias_of(b) && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

bool is_own_parameter(const Capturing& state, const Value* argument, const Module& module) {
  const std::string* slot = ir::attribute_read(state.model, argument);
  if (slot == nullptr || !state.model.attributes.hasattr(*slot)) return false;
  const at::Tensor tensor = ir::held_tensor(state.model, argument);
  for (const at::Tensor& own : module.parameters()) {
    if (is_same_tensor(own, tensor)) return true;
  }
  return false;
}

}  // namespace

void visit_get_attr(Capturing& state, Node* node, std::size_t scope) {
  ir::set_scope(node, scope);
  const auto owner = module_of(state, node->input(0));
  if (!owner) return;
  const std::string& name = node->s(c10::attr::name);
  const c10::IValue value = owner->attr(name);
  if (value.isModule() && !is_replaced(state.source, *owner, name)) return;
  const bool is_mode = name == "training";
  if (is_mode && !state.source.trains) return replace_node(node, ir::constant_before(node, false));
  if (is_immutable_value(value) && !state.source.written.contains(name) && !is_mode)
    return replace_node(node, ir::constant_before(node, value));
  if (!is_kept(state, *owner)) use_slot(state, node, *owner);
}

void visit_set_attr(Capturing& state, Node* node, std::size_t scope) {
  ir::set_scope(node, scope);
  const auto owner = module_of(state, node->input(0));
  if (owner && !is_kept(state, *owner)) use_slot(state, node, *owner);
}

bool has_own_parameter(const Capturing& state, const Node* call, const Module& module) {
  return std::any_of(call->inputs().begin() + 1, call->inputs().end(),
                     [&](const Value* argument) { return is_own_parameter(state, argument, module); });
}

void drop_own_parameters(const Capturing& state, Node* call, const Module& module) {
  for (std::size_t i = call->inputs().size(); i-- > 1;) {
    if (is_own_parameter(state, call->input(i), module)) call->removeInput(i);
  }
}

}  // namespace tsq::passes
