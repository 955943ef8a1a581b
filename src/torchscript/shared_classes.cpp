#include "torchscript/shared_classes.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/compilation_unit.h>

#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/analysis.h"
#include "ir/attributes.h"
#include "ir/define_method.h"

namespace tsq::torchscript {
namespace {

using torch::jit::Module;

constexpr const char* kOwnPackage = "__torch__.tsq";

bool has_own_class(const Module& module) {
  const auto name = module.type()->name();
  return name && name->prefix().starts_with(kOwnPackage);
}

/// A tensor is itself alone.
std::string text_of(const c10::IValue& constant) {
  if (constant.isTensor()) return fmt::format("{}", fmt::ptr(constant.toTensor().unsafeGetTensorImpl()));
  std::ostringstream text;
  text << constant;
  return text.str();
}

std::string tensors_in(ir::Graph& graph) {
  std::string text;
  for (ir::Node* node : ir::nodes_in_order(graph)) {
    if (node->kind() != c10::prim::Constant || !node->hasAttribute(c10::attr::value)) continue;
    if (node->kindOf(c10::attr::value) == torch::jit::AttributeKind::t)
      text += text_of(node->t(c10::attr::value));
  }
  return text;
}

/// All that a class is but for its name.
std::string description(const Module& module) {
  const c10::ClassTypePtr type = module.type();
  std::string text;
  for (std::size_t i = 0; i < type->numAttributes(); ++i)
    text += fmt::format("{}: {} {} {}\n", type->getAttributeName(i), type->getAttribute(i)->annotation_str(),
                        type->is_parameter(i), type->is_buffer(i));
  for (std::size_t i = 0; i < type->numConstants(); ++i)
    text += fmt::format("{} = {}\n", type->getConstantName(i), text_of(type->getConstant(i)));
  for (const auto& method : module.get_methods()) {
    ir::Graph& graph = *torch::jit::toGraphFunction(method.function()).graph();
    text += fmt::format("{}\n{}\n{}\n", method.name(), graph.toString(/*print_source_locations=*/false),
                        tensors_in(graph));
  }
  const std::string name = type->name()->qualifiedName();
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at))
    text.replace(at, name.size(), "self");
  return type->name()->name() + '\n' + text;
}

class Sharing {
 public:
  /// The modules inside first: their classes are part of what a class is.
  Module with_shared_below(const Module& module) {
    std::vector<c10::IValue> values;
    bool is_changed = false;
    const c10::ClassTypePtr type = module.type();
    for (std::size_t slot = 0; slot < type->numAttributes(); ++slot) {
      values.push_back(module._ivalue()->getSlot(slot));
      if (!values.back().isModule() || type->getAttribute(slot)->kind() != c10::TypeKind::ClassType) continue;
      const Module child = shared(values.back().toModule());
      is_changed |= child._ivalue() != values.back().toObject();
      values.back() = child._ivalue();
    }
    return is_changed ? rebuilt(module, values) : module;
  }

 private:
  /// The module, or one of a class that is known already with the same values.
  Module shared(const Module& module) {
    if (!has_own_class(module)) return module;
    const void* key = module._ivalue().get();
    if (const auto done = modules_.find(key); done != modules_.end()) return done->second.second;
    Module result = with_shared_below(module);
    const auto [known, is_first] = classes_.try_emplace(description(result), result);
    if (!is_first) result = instance_of(known->second, result);
    replaced_.emplace(module.type().get(), result.type());
    modules_.emplace(key, std::pair(module, result));
    return result;
  }

  /// The module with other modules inside, of a class of its own: that of an attribute is part of the class.
  Module rebuilt(const Module& module, const std::vector<c10::IValue>& values) {
    const c10::ClassTypePtr type = module.type();
    Module made(*type->name(), unit_, /*shouldMangle=*/true);
    for (std::size_t slot = 0; slot < values.size(); ++slot) {
      ir::Attribute attribute = ir::attribute_at(*module._ivalue(), slot);
      attribute.type = remapped(attribute.type);
      attribute.value = values[slot];
      ir::add_attribute(made, attribute);
    }
    for (std::size_t i = 0; i < type->numConstants(); ++i)
      made.type()->addConstant(type->getConstantName(i), type->getConstant(i));
    for (const auto& method : module.get_methods()) {
      const auto graph = torch::jit::toGraphFunction(method.function()).graph()->copy();
      graph->remapTypes([this](const c10::TypePtr& each) { return remapped(each); });
      ir::define_method(made, method.name(), graph, method.function().getSchema());
    }
    return made;
  }

  c10::TypePtr remapped(const c10::TypePtr& type) const {
    const auto found = replaced_.find(type.get());
    return found == replaced_.end() ? type : found->second;
  }

  static Module instance_of(const Module& known, const Module& values) {
    Module made(known._ivalue()->compilation_unit(), known.type());
    for (std::size_t slot = 0; slot < values.type()->numAttributes(); ++slot)
      made._ivalue()->setSlot(slot, values._ivalue()->getSlot(slot));
    return made;
  }

  std::shared_ptr<torch::jit::CompilationUnit> unit_ = std::make_shared<torch::jit::CompilationUnit>();
  std::unordered_map<const void*, std::pair<Module, Module>> modules_{};  ///< what each was, and became
  std::unordered_map<std::string, Module> classes_{};                     ///< an instance, by description
  std::unordered_map<const void*, c10::TypePtr> replaced_{};              ///< by the class that it was
};

}  // namespace

Module with_shared_classes(const Module& root) { return Sharing().with_shared_below(root); }

}  // namespace tsq::torchscript
