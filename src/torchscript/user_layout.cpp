#include "torchscript/user_layout.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/compilation_unit.h>

#include <ranges>
#include <utility>
#include <vector>

#include "ir/analysis.h"
#include "ir/edit.h"

namespace tsq::torchscript {
namespace {

using ir::Graph;
using ir::Node;
using ir::UserSlot;
using ir::Value;
using torch::jit::Module;

constexpr const char* kLayoutClass = "Module";

std::string joined(const UserSlot& slot) {
  return slot.module.empty() ? slot.name : fmt::format("{}.{}", slot.module, slot.name);
}

}  // namespace

UserSlot slot_at(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string::npos) return {.module = "", .name = path};
  return {.module = path.substr(0, dot), .name = path.substr(dot + 1)};
}

/// Of attributes and methods.
std::unordered_set<std::string>& UserLayout::names_in(const Module& module) {
  const auto [found, is_new] = names_.try_emplace(module._ivalue().get());
  if (is_new) {
    for (std::size_t i = 0; i < module.type()->numAttributes(); ++i)
      found->second.insert(module.type()->getAttributeName(i));
    for (const auto& method : module.get_methods()) found->second.insert(method.name());
  }
  return found->second;
}

/// Adds an attribute, under another name where its own is taken; returns the name.
std::string UserLayout::add(Module& owner, ir::Attribute attribute) {
  const std::string wanted = attribute.name;
  for (int i = 1; !names_in(owner).insert(attribute.name).second; ++i)
    attribute.name = fmt::format("{}_{}", wanted, i);
  ir::add_attribute(owner, attribute);
  return attribute.name;
}

/// None where something else has its place.
std::optional<Module> UserLayout::module_at(const std::string& path) {
  if (path.empty()) return root_;
  if (const auto found = modules_.find(path); found != modules_.end()) return found->second;
  const UserSlot slot = slot_at(path);
  std::optional<Module> parent = module_at(slot.module);
  if (!parent || names_in(*parent).contains(slot.name)) return std::nullopt;
  Module made(c10::QualifiedName(fmt::format("__torch__.tsq.{}", kLayoutClass)),
              root_._ivalue()->compilation_unit(), /*shouldMangle=*/true);
  add(*parent, ir::submodule(slot.name, made));
  return modules_.emplace(path, made).first->second;
}

void UserLayout::hang(ir::Attribute flat, const std::optional<UserSlot>& place) {
  const std::string name = flat.name;
  UserSlot real = place.value_or(UserSlot{.module = "", .name = name});
  std::optional<Module> owner = module_at(real.module);
  if (!owner) {
    real = {.module = "", .name = name};
    owner = root_;
  }
  flat.name = real.name;
  real.name = add(*owner, std::move(flat));
  places_[name] = std::move(real);
}

std::string UserLayout::hang_module(const std::string& path, const Module& module) {
  UserSlot slot = slot_at(path);
  std::optional<Module> owner = module_at(slot.module);
  if (!owner) {
    slot = {.module = "", .name = path.substr(0, path.find('.'))};
    owner = root_;
  }
  slot.name = add(*owner, ir::submodule(slot.name, module));
  return modules_.emplace(joined(slot), module).first->first;
}

Value* UserLayout::module_value(Graph& graph, const std::string& path) {
  if (path.empty()) return graph.inputs().at(0);
  Value*& value = values_[{&graph, path}];
  if (value != nullptr) return value;
  const UserSlot slot = slot_at(path);
  Value* owner = module_value(graph, slot.module);
  Node* read = graph.create(c10::prim::GetAttr, {owner});
  read->s_(c10::attr::name, slot.name);
  reads_[&graph].push_back(read);
  return value = read->output()->setType(modules_.at(path).type());
}

void UserLayout::insert_reads(Graph& graph) {
  // One by one to the front: LibTorch numbers the whole graph anew where many are put into one gap.
  std::vector<Node*>& reads = reads_[&graph];
  for (Node* read : reads | std::views::reverse) graph.prependNode(read);
  reads.clear();
}

void UserLayout::rewrite(Graph& graph) {
  for (Node* node : ir::nodes_in_order(graph)) {
    const bool touches = node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::SetAttr;
    if (!touches || node->input(0) != graph.inputs().at(0)) continue;
    const auto place = places_.find(node->s(c10::attr::name));
    if (place == places_.end()) continue;
    node->replaceInput(0, module_value(graph, place->second.module));
    node->s_(c10::attr::name, place->second.name);
  }
}

bool is_layout_module(const Module& module) {
  const auto name = module.type()->name();
  // LibTorch puts its own mark between the package and the name where there are several.
  return name && name->prefix().starts_with("__torch__.tsq") && name->name() == kLayoutClass;
}

}  // namespace tsq::torchscript
