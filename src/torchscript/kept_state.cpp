#include "torchscript/kept_state.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/alias_analysis.h>

#include <algorithm>
#include <map>
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

/// Finds the attributes that a method changes.
class Search {
 public:
  explicit Search(std::span<const Module> apart) {
    for (const Module& module : apart) {
      for (const Module& each : module.modules()) apart_.insert(each._ivalue().get());
    }
  }

  void add_method(const Module& module, const std::string& method) {
    if (!visited_.emplace(module._ivalue().get(), method).second) return;
    const std::shared_ptr<ir::Graph> graph = operators::inlined_graph(module, method);
    if (graph == nullptr || graph->inputs().empty()) return;
    std::map<const ir::Value*, ObjectPtr> objects{{graph->inputs().front(), module._ivalue()}};
    add_graph(graph, objects);
  }

  [[nodiscard]] const std::map<Slot, ObjectPtr>& written() const { return written_; }
  [[nodiscard]] bool is_read() const {
    return std::ranges::any_of(written_, [&](const auto& slot) { return read_.contains(slot.first); });
  }

 private:
  /// `objects`: of the inputs that are some.
  void add_graph(const std::shared_ptr<ir::Graph>& graph, std::map<const ir::Value*, ObjectPtr> objects) {
    const auto nodes = ir::nodes_in_order(*graph);
    if (std::ranges::none_of(nodes, may_write)) return;
    // "Frozen": two attributes of a module are two tensors, where LibTorch else takes them for one.
    const torch::jit::AliasDb aliases(graph, /*isFrozen=*/true);
    const std::vector<ir::Value*> written_values = written_inputs(nodes);
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
      read_.insert(slot);
      const bool is_written = (value.isTensor() || is_container(value)) && aliases.hasWriters(node->output());
      if (is_written || (is_container(value) && has_written_elements(node->output())))
        written_.emplace(slot, owner);
    }
  }

  void add_forked(ir::Node* fork, const std::map<const ir::Value*, ObjectPtr>& objects) {
    const std::shared_ptr<ir::Graph> graph = fork->g(c10::attr::Subgraph);
    std::map<const ir::Value*, ObjectPtr> inside;
    for (std::size_t i = 0; i < fork->inputs().size(); ++i) {
      const auto found = objects.find(fork->input(i));
      if (found != objects.end()) inside.emplace(graph->inputs().at(i), found->second);
    }
    add_graph(graph, std::move(inside));
  }

  std::set<const c10::ivalue::Object*> apart_{};
  std::set<std::pair<const c10::ivalue::Object*, std::string>> visited_{};
  std::map<Slot, ObjectPtr> written_{};
  std::set<Slot> read_{};
};

}  // namespace

KeptState::KeptState(const Module& module, const std::vector<std::string>& methods,
                     std::span<const Module> apart) {
  Search search(apart);
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
  Search search({});
  search.add_method(module, method);
  return search.is_read();
}

}  // namespace tsq::torchscript
