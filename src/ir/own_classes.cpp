#include "ir/own_classes.h"

#include <map>
#include <set>

#include "ir/analysis.h"

namespace tsq::ir {
namespace {

using torch::jit::Module;
using Object = c10::intrusive_ptr<c10::ivalue::Object>;

bool is_module(const c10::IValue& value) {
  return value.isObject() && value.toObjectRef().type()->is_module();
}

bool touches_attribute(const Node* node) {
  return node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::SetAttr;
}

/// What the graphs do with a module.
struct Uses {
  std::set<std::string> attributes{};  ///< read or written
  bool is_whole{false};                ///< it is called, passed on or replaced
};

class OwnClasses {
 public:
  OwnClasses(Model& model, const std::shared_ptr<torch::jit::CompilationUnit>& unit, bool keeps_tensors)
      : model_(model), unit_(unit), keeps_tensors_(keeps_tensors) {}

  void run() {
    collect(*model_.graph);
    for (const Method& method : model_.methods) collect(*method.graph);
    Attributes own;
    for (const Attribute& each : model_.attributes) own.add(with_own_class(each));
    model_.attributes = std::move(own);
    for (const auto& [value, object] : objects_) {
      const auto found = replaced_.find(object.get());
      if (found != replaced_.end()) value->setType(found->second.type());
    }
  }

 private:
  /// The module that a value is, by the attributes of self that lead to it; null for others.
  Object object_of(const Graph& graph, const Value* value) const {
    if (value->node()->kind() != c10::prim::GetAttr) return {};
    return object_at(graph, value->node()->input(0), value->node()->s(c10::attr::name));
  }

  /// The module that is an attribute of another one, or of self.
  Object object_at(const Graph& graph, const Value* owner, const std::string& name) const {
    c10::IValue attribute;
    if (owner == graph.inputs().at(0)) {
      if (model_.attributes.hasattr(name)) attribute = model_.attributes.attr(name);
    } else if (const Object object = object_of(graph, owner); object && object->type()->hasAttribute(name)) {
      attribute = object->getAttr(name);
    }
    return is_module(attribute) ? attribute.toObject() : Object();
  }

  void collect(Graph& graph) {
    for (Node* node : nodes_in_order(graph)) {
      if (touches_attribute(node)) note_replaced(graph, node);
      for (Value* output : node->outputs()) {
        if (const Object object = object_of(graph, output)) collect_uses(output, object);
      }
    }
  }

  void collect_uses(Value* value, const Object& object) {
    objects_.emplace_back(value, object);
    Uses& uses = uses_[object.get()];
    for (const torch::jit::Use& use : value->uses()) {
      if (touches_attribute(use.user) && use.offset == 0) {
        uses.attributes.insert(use.user->s(c10::attr::name));
      } else {
        uses.is_whole = true;
      }
    }
  }

  /// A module in whose place another one is put keeps its class, as that one does.
  void note_replaced(const Graph& graph, const Node* node) {
    if (node->kind() != c10::prim::SetAttr) return;
    const Object old = object_at(graph, node->input(0), node->s(c10::attr::name));
    if (old) uses_[old.get()].is_whole = true;
  }

  Attribute with_own_class(Attribute attribute) {
    if (is_module(attribute.value) && attribute.type->kind() == c10::TypeKind::ClassType) {
      attribute.value = owned(attribute.value);
      attribute.type = attribute.value.type();
    }
    return attribute;
  }

  /// The module with a class of tsq's own, or itself.
  c10::IValue owned(const c10::IValue& value) {
    const Object object = value.toObject();
    const auto uses = uses_.find(object.get());
    // What a class saves of itself, only that class can load.
    const bool saves_itself = object->type()->findMethod("__getstate__") != nullptr;
    if (uses == uses_.end() || uses->second.is_whole || saves_itself) return value;
    const auto known = replaced_.find(object.get());
    if (known != replaced_.end()) return known->second._ivalue();
    const auto type = object->type();
    Module made("__torch__.tsq." + type->name()->name(), unit_, /*shouldMangle=*/true);
    for (std::size_t i = 0; i < type->numAttributes(); ++i) {
      const bool is_kept = keeps_tensors_ && (type->is_parameter(i) || type->is_buffer(i));
      if (is_kept || uses->second.attributes.contains(type->getAttributeName(i)))
        add_attribute(made, with_own_class(attribute_at(*object, i)));
    }
    return replaced_.emplace(object.get(), made).first->second._ivalue();
  }

  Model& model_;
  const std::shared_ptr<torch::jit::CompilationUnit>& unit_;
  bool keeps_tensors_;
  std::vector<std::pair<Value*, Object>> objects_{};
  std::map<const void*, Uses> uses_{};
  std::map<const void*, Module> replaced_{};
};

}  // namespace

void own_classes(Model& model, const std::shared_ptr<torch::jit::CompilationUnit>& unit, bool keeps_tensors) {
  OwnClasses(model, unit, keeps_tensors).run();
}

}  // namespace tsq::ir
