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
  OwnClasses(Model& model, const std::shared_ptr<torch::jit::CompilationUnit>& unit)
      : model_(model), unit_(unit) {}

  void run() {
    collect(*model_.graph);
    for (const Method& method : model_.methods) collect(*method.graph);
    const Module old = model_.attributes;
    const auto type = old.type();
    model_.attributes = Module("__torch__.tsq.Attributes");
    for (std::size_t i = 0; i < type->numAttributes(); ++i)
      copy_attribute(model_.attributes, *old._ivalue(), i);
    for (const auto& [value, object] : objects_) {
      const auto found = replaced_.find(object.get());
      if (found != replaced_.end()) value->setType(found->second.type());
    }
  }

 private:
  /// The module that a value is, by the attributes of self that lead to it; null for others.
  Object object_of(const Graph& graph, const Value* value) const {
    if (value == graph.inputs().at(0)) return model_.attributes._ivalue();
    if (value->node()->kind() != c10::prim::GetAttr) return {};
    const Object owner = object_of(graph, value->node()->input(0));
    const std::string& name = value->node()->s(c10::attr::name);
    if (!owner || !owner->type()->hasAttribute(name)) return {};
    const c10::IValue attribute = owner->getAttr(name);
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
    const Object owner = object_of(graph, node->input(0));
    if (!owner) return;
    const c10::IValue old = owner->getAttr(node->s(c10::attr::name));
    if (is_module(old)) uses_[old.toObject().get()].is_whole = true;
  }

  void copy_attribute(Module& to, const c10::ivalue::Object& from, std::size_t slot) {
    const auto type = from.type();
    c10::TypePtr attribute_type = type->getAttribute(slot);
    c10::IValue value = from.getSlot(slot);
    if (is_module(value) && attribute_type->kind() == c10::TypeKind::ClassType) {
      value = owned(value);
      attribute_type = value.type();
    }
    add_attribute(to, type->getAttributeName(slot), attribute_type, value, type->is_parameter(slot),
                  type->is_buffer(slot));
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
      if (uses->second.attributes.contains(type->getAttributeName(i))) copy_attribute(made, *object, i);
    }
    return replaced_.emplace(object.get(), made).first->second._ivalue();
  }

  Model& model_;
  const std::shared_ptr<torch::jit::CompilationUnit>& unit_;
  std::vector<std::pair<Value*, Object>> objects_{};
  std::map<const void*, Uses> uses_{};
  std::map<const void*, Module> replaced_{};
};

}  // namespace

void own_classes(Model& model, const std::shared_ptr<torch::jit::CompilationUnit>& unit) {
  OwnClasses(model, unit).run();
}

}  // namespace tsq::ir
