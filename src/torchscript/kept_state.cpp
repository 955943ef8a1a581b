#include "torchscript/kept_state.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ir/analysis.h"
#include "operators/inlined_graph.h"

namespace tsq::torchscript {
namespace {

using ObjectPtr = c10::intrusive_ptr<c10::ivalue::Object>;
using torch::jit::Module;

/// An attribute of an object.
using Slot = std::pair<const c10::ivalue::Object*, std::size_t>;

bool is_container(const c10::IValue& value) {
  return value.isList() || value.isGenericDict() || value.isTuple();
}

/// Calls that are not inlined, of an interface, may write into anything.
bool may_write(const ir::Node* node) {
  if (node->kind() == c10::prim::SetAttr || node->kind() == c10::prim::CallMethod) return true;
  if (node->kind() == c10::prim::fork) return true;
  const c10::FunctionSchema* schema = node->maybeSchema();
  return schema != nullptr && schema->is_mutable();
}

/// What nodes say that they write into.
std::vector<ir::Value*> written_inputs(const std::vector<ir::Node*>& nodes) {
  std::vector<ir::Value*> written;
  for (ir::Node* node : nodes) {
    const c10::FunctionSchema* schema = node->maybeSchema();
    if (schema == nullptr) continue;
    for (std::size_t i = 0; i < std::min(schema->arguments().size(), node->inputs().size()); ++i) {
      const c10::AliasInfo* alias = schema->arguments()[i].alias_info();
      if (alias != nullptr && alias->isWrite()) written.push_back(node->input(i));
    }
  }
  return written;
}

/// The values of a graph that are objects of the module.
using Objects = std::map<const ir::Value*, ObjectPtr>;

/// Null for a value that is none, or of which it is not known which.
ObjectPtr object_of(const ir::Value* value, const Objects& objects) {
  if (const auto found = objects.find(value); found != objects.end()) return found->second;
  const ir::Node* node = value->node();
  if (node->kind() != c10::prim::GetAttr) return nullptr;
  const ObjectPtr owner = object_of(node->input(0), objects);
  if (owner == nullptr) return nullptr;
  const c10::IValue held = owner->getAttr(node->s(c10::attr::name));
  return held.isObject() ? held.toObject() : nullptr;
}

/// The names of attributes that some method of a module assigns.
std::set<std::string> assigned_names(const Module& module) {
  std::set<std::string> names;
  for (const Module& each : module.modules()) {
    for (const torch::jit::Method& method : each.get_methods()) {
      for (const ir::Node* node : ir::nodes_in_order(*torch::jit::toGraphFunction(method.function()).graph()))
        if (node->kind() == c10::prim::SetAttr) names.insert(node->s(c10::attr::name));
    }
  }
  return names;
}

/// Finds the attributes that a method changes.
class Search {
 public:
  Search(const Module& module, std::span<const Module> apart) : assigned_(assigned_names(module)) {
    for (const Module& other : apart) {
      for (const Module& each : other.modules()) apart_.insert(each._ivalue().get());
    }
  }

  void add_method(const Module& module, const std::string& method) {
    if (!visited_.emplace(module._ivalue().get(), method).second) return;
    const std::shared_ptr<ir::Graph> graph = operators::inlined_graph(module, method);
    if (graph == nullptr || graph->inputs().empty()) return;
    add_graph(graph, {{graph->inputs().front(), module._ivalue()}});
  }

  [[nodiscard]] const std::map<Slot, ObjectPtr>& written() const { return written_; }
  [[nodiscard]] bool is_read() const {
    return std::ranges::any_of(written_, [&](const auto& slot) { return read_.contains(slot.first); });
  }

 private:
  /// `objects`: of the inputs that are some.
  void add_graph(const std::shared_ptr<ir::Graph>& graph, Objects objects) {
    const auto nodes = ir::nodes_in_order(*graph);
    const std::vector<ir::Value*> statistics = updated_statistics(nodes, objects);
    if (statistics.empty() && std::ranges::none_of(nodes, may_write)) return;
    // "Frozen": two attributes of a module are two tensors, where LibTorch else takes them for one.
    const torch::jit::AliasDb aliases(graph, /*isFrozen=*/true);
    std::vector<ir::Value*> written_values = written_inputs(nodes);
    written_values.insert(written_values.end(), statistics.begin(), statistics.end());
    const auto is_updated = [&](const ir::Value* value) {
      return std::ranges::any_of(statistics,
                                 [&](const ir::Value* each) { return aliases.mayAlias(value, each); });
    };
    const auto has_written_elements = [&](ir::Value* container) {
      return std::ranges::any_of(written_values,
                                 [&](ir::Value* value) { return aliases.mayContainAlias(container, value); });
    };
    for (ir::Node* node : nodes) {
      if (node->kind() == c10::prim::fork) {
        add_forked(node, objects);
        continue;
      }
      const bool reads = node->kind() == c10::prim::GetAttr;
      if (!reads && node->kind() != c10::prim::SetAttr && node->kind() != c10::prim::CallMethod) continue;
      const auto found = objects.find(node->input(0));
      if (found == objects.end()) continue;
      const ObjectPtr owner = found->second;
      if (apart_.contains(owner.get())) continue;
      const std::string& name = node->s(c10::attr::name);
      if (node->kind() == c10::prim::CallMethod) {
        if (owner->type()->is_module()) add_method(Module(owner), name);
        continue;
      }
      const Slot slot{owner.get(), owner->type()->getAttributeSlot(name)};
      const c10::IValue& value = owner->getSlot(slot.second);
      if (!reads) {
        written_.emplace(slot, owner);
        continue;
      }
      if (value.isObject()) objects.emplace(node->output(), value.toObject());
      if (!is_only_updated(node->output(), objects)) read_.insert(slot);
      const bool is_written = (value.isTensor() || is_container(value)) &&
                              (aliases.hasWriters(node->output()) || is_updated(node->output()));
      if (is_written || (is_container(value) && has_written_elements(node->output())))
        written_.emplace(slot, owner);
    }
  }

  void add_forked(ir::Node* fork, const Objects& objects) {
    const std::shared_ptr<ir::Graph> graph = fork->g(c10::attr::Subgraph);
    Objects inside;
    for (std::size_t i = 0; i < fork->inputs().size(); ++i) {
      const auto found = objects.find(fork->input(i));
      if (found != objects.end()) inside.emplace(graph->inputs().at(i), found->second);
    }
    add_graph(graph, std::move(inside));
  }

  /// A flag as the module holds it; empty where it depends on a call.
  [[nodiscard]] std::optional<bool> flag(const ir::Value* value, const Objects& objects) const {
    if (const auto constant = torch::jit::constant_as<bool>(value)) return constant;
    const ir::Node* node = value->node();
    if (node->kind() == c10::prim::If) {
      const auto condition = flag(node->input(0), objects);
      if (!condition) return std::nullopt;
      return flag(node->blocks()[*condition ? 0 : 1]->outputs()[value->offset()], objects);
    }
    if (node->kind() != c10::prim::GetAttr || assigned_.contains(node->s(c10::attr::name)))
      return std::nullopt;
    const ObjectPtr owner = object_of(node->input(0), objects);
    if (owner == nullptr) return std::nullopt;
    const c10::IValue held = owner->getAttr(node->s(c10::attr::name));
    return held.isBool() ? std::optional(held.toBool()) : std::nullopt;
  }

  /// The running statistics of norms that train, or may.
  [[nodiscard]] std::vector<ir::Value*> updated_statistics(const std::vector<ir::Node*>& nodes,
                                                           const Objects& objects) const {
    std::vector<ir::Value*> values;
    for (ir::Node* node : nodes) {
      const ir::UpdatedStatistics updated = ir::updated_statistics(node);
      if (updated.inputs.empty() || !may_be_true(updated.trains, objects)) continue;
      for (const std::size_t index : updated.inputs) values.push_back(node->input(index));
    }
    return values;
  }

  [[nodiscard]] bool may_be_true(const ir::Value* value, const Objects& objects) const {
    return value == nullptr || flag(value, objects).value_or(true);
  }

  /// Whether norms that train are all that reads a value: what they return does not depend on it.
  [[nodiscard]] bool is_only_updated(const ir::Value* value, const Objects& objects) const {
    return !value->uses().empty() && std::ranges::all_of(value->uses(), [&](const torch::jit::Use& use) {
      const ir::UpdatedStatistics updated = ir::updated_statistics(use.user);
      return std::ranges::find(updated.inputs, use.offset) != updated.inputs.end() &&
             updated.trains != nullptr && flag(updated.trains, objects).value_or(false);
    });
  }

  std::set<std::string> assigned_;  ///< what is not constant
  std::set<const c10::ivalue::Object*> apart_{};
  std::set<std::pair<const c10::ivalue::Object*, std::string>> visited_{};
  std::map<Slot, ObjectPtr> written_{};
  std::set<Slot> read_{};
};

}  // namespace

KeptState::KeptState(const Module& module, const std::vector<std::string>& methods,
                     std::span<const Module> apart) {
  Search search(module, apart);
  for (const std::string& method : methods) search.add_method(module, method);
  is_read_ = search.is_read();
  for (const auto& [slot, owner] : search.written())
    parts_.push_back({.owner = owner, .slot = slot.second, .own = owner->getSlot(slot.second)});
  begin();
}

KeptState::~KeptState() {
  for (const Part& part : parts_) part.owner->setSlot(part.slot, part.own);
}

void KeptState::begin() const {
  if (parts_.empty()) return;
  const c10::InferenceMode normal_tensors(false);  // they are written into in any mode
  const at::NoGradGuard no_grad;
  c10::IValue::HashIdentityIValueMap copies;
  for (const Part& part : parts_) part.owner->setSlot(part.slot, part.own.deepcopy(copies));
}

bool keeps_state(const Module& module, const std::string& method) {
  Search search(module, {});
  search.add_method(module, method);
  return search.is_read();
}

}  // namespace tsq::torchscript
