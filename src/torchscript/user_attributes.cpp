#include "torchscript/user_attributes.h"

#include <torch/csrc/jit/api/compilation_unit.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/tensor_memory.h"
#include "ir/analysis.h"
#include "ir/model.h"
#include "torchscript/user_layout.h"

namespace tsq::torchscript {
namespace {

using torch::jit::Module;
using NameSet = std::unordered_set<std::string>;

/// NameSet of attributes that some method of the model assigns.
NameSet written_names(const Module& model) {
  NameSet names;
  for (const Module& each : model.modules()) {
    for (const auto& method : each.get_methods()) {
      for (const ir::Node* node :
           ir::nodes_in_order(*torch::jit::toGraphFunction(method.function()).graph())) {
        if (node->kind() == c10::prim::SetAttr) names.insert(node->s(c10::attr::name));
      }
    }
  }
  return names;
}

bool is_setting(const c10::IValue& value) {
  if (value.isTuple()) {
    return std::ranges::all_of(value.toTupleRef().elements(), is_setting);
  }
  return value.isNone() || value.isBool() || value.isInt() || value.isDouble() || value.isString();
}

/// What every module of PyTorch's has.
bool is_book_keeping(const std::string& name) {
  return name == "training" || name == "_is_full_backward_hook";
}

bool is_of_the_library(const Module& module) {
  const auto name = module.type()->name();
  return name && name->qualifiedName().starts_with("__torch__.torch.");
}

void add_constants(Module& module, const c10::ClassType& type) {
  for (std::size_t i = 0; i < type.numConstants(); ++i) {
    if (!module.hasattr(type.getConstantName(i)))
      module.type()->addConstant(type.getConstantName(i), type.getConstant(i));
  }
}

void keep_settings(Module& to, const Module& module, const NameSet& written);

/// A module of the user's that is not there any more, with its settings alone; empty where it has none.
std::optional<Module> remains_of(const Module& module, const NameSet& written) {
  if (is_of_the_library(module)) return std::nullopt;
  Module remains("__torch__.tsq.Settings", std::make_shared<torch::jit::CompilationUnit>());
  keep_settings(remains, module, written);
  const bool is_empty = remains.type()->numAttributes() == 0 && remains.type()->numConstants() == 0;
  return is_empty ? std::nullopt : std::optional(remains);
}

/// The settings of a module below the root, on what stands in its place or in a module of its name.
void keep_child(Module& owner, const std::string& name, const Module& child, const NameSet& written) {
  if (!owner.hasattr(name)) {
    if (const auto remains = remains_of(child, written)) owner.register_module(name, *remains);
  } else if (owner.attr(name).isModule() && !is_of_the_library(child)) {
    Module made = owner.attr(name).toModule();
    if (is_layout_module(made)) keep_settings(made, child, written);
  }
}

void keep_settings(Module& to, const Module& module, const NameSet& written) {
  const auto type = module.type();
  for (std::size_t i = 0; i < type->numAttributes(); ++i) {
    const std::string& name = type->getAttributeName(i);
    const c10::IValue value = module._ivalue()->getSlot(i);
    if (value.isModule()) {
      keep_child(to, name, value.toModule(), written);
    } else if (!to.hasattr(name) && is_setting(value) && !is_book_keeping(name) && !written.contains(name)) {
      to.register_attribute(name, type->getAttribute(i), value);
    }
  }
  add_constants(to, *type);
}

}  // namespace

void keep_user_attributes(Module& module, const Module& model, const std::vector<std::string>& preserved,
                          const std::unordered_set<const void*>& weights) {
  const NameSet written = written_names(model);
  const auto type = model.type();
  for (std::size_t i = 0; i < type->numAttributes(); ++i) {
    const std::string& name = type->getAttributeName(i);
    const c10::IValue value = model._ivalue()->getSlot(i);
    const bool is_preserved = std::ranges::find(preserved, name) != preserved.end();
    const void* memory = value.isTensor() ? memory_of(value.toTensor()) : nullptr;
    const bool is_weight = memory != nullptr && weights.contains(memory);
    if (value.isModule() && (!is_preserved || module.hasattr(name))) {
      keep_child(module, name, value.toModule(), written);
    } else if (!module.hasattr(name) && (is_preserved || !(type->is_parameter(i) || is_weight))) {
      module.register_attribute(name, type->getAttribute(i), name == "training" ? c10::IValue(false) : value,
                                /*is_param=*/false, type->is_buffer(i));
    }
  }
  add_constants(module, *type);
}

}  // namespace tsq::torchscript
