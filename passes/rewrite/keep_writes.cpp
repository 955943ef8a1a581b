// Memory that an operator writes under the eyes of others, which FX refuses to trace, must not be cut by a
// pair of quantize and dequantize, nor read from before the write.
//   y = conv(x); y[:, 0] = 7; z = linear(y)   →   y = conv(x); y[:, 0] = 7; y1 = alias(y); z = linear(y1)
// The operator that writes, and the views through which it writes, stay as they are.

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/traits.h"
#include "passes/rewrite/passes.h"

namespace tsq::passes {
namespace {

using torch::jit::Block;

/// Whether an output may be memory of an input. Schemas do not say it of dropout.
bool shares_memory(const Model& model, const Node* node) {
  const auto* const row = operators::traits_of(model, node);
  if (operators::has(row, operators::IsIdentity) || operators::has(row, operators::IsView)) return true;
  if (ir::is_module_call(node) || node->kind() == c10::prim::CallFunction) return false;
  if (!node->kind().is_aten()) return true;
  const c10::FunctionSchema* schema = node->maybeSchema();
  if (schema == nullptr) return true;
  return std::any_of(schema->returns().begin(), schema->returns().end(),
                     [](const c10::Argument& result) { return result.alias_info() != nullptr; });
}

/// Whether a method changes in place how a tensor sees its memory, not what is there.
bool changes_view_only(const Node* node) {
  return operators::is_in_place(node->kind().toUnqualString()) &&
         (operators::has(operators::traits_of(node), operators::IsView) ||
          node->kind() == c10::Symbol::fromQualString("aten::requires_grad_"));
}

/// The tensors that an operator writes.
std::vector<Value*> written(Node* node) {
  std::vector<Value*> values;
  if (changes_view_only(node)) return values;
  for (std::size_t i = 0; i < node->inputs().size(); ++i) {
    const bool is_tensor = node->input(i)->type()->kind() == c10::TypeKind::TensorType;
    if (is_tensor && ir::writes_input(node, i)) values.push_back(node->input(i));
  }
  return values;
}

/// Which values may be one memory.
class MemoryClasses {
 public:
  explicit MemoryClasses(const Model& model) {
    std::map<std::string, const Value*> attributes;
    for (Node* node : ir::nodes_in_order(*model.graph)) visit(model, node, attributes);
  }

  void unite(const Value* a, const Value* b) {
    if (ir::holds_tensor(a) && ir::holds_tensor(b)) parents_[root_of(a)] = root_of(b);
  }
  /// One value for all that are one memory.
  const Value* root_of(const Value* value) {
    auto found = parents_.find(value);
    if (found == parents_.end() || found->second == value) return value;
    return found->second = root_of(found->second);
  }

 private:
  void visit(const Model& model, Node* node, std::map<std::string, const Value*>& attributes) {
    if (node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::SetAttr) {
      const Value* value = node->kind() == c10::prim::GetAttr ? node->output() : node->input(1);
      const auto found = attributes.emplace(node->s(c10::attr::name), value).first;
      return unite(found->second, value);
    }
    if (node->kind() == c10::prim::If) return unite_branches(node);
    if (node->kind() == c10::prim::Loop) return unite_turns(node);
    if (!shares_memory(model, node)) return;
    const Value* first = nullptr;
    const auto add = [&](const Value* value) {
      if (!ir::holds_tensor(value)) return;
      if (first != nullptr) unite(first, value);
      first = value;
    };
    for (const Value* input : node->inputs()) add(input);
    for (const Value* output : node->outputs()) add(output);
  }

  void unite_branches(Node* node) {
    for (Block* block : node->blocks()) {
      for (std::size_t i = 0; i < node->outputs().size(); ++i) unite(node->output(i), block->outputs()[i]);
    }
  }

  /// Loop(trip count, condition, values…): the body takes the turn and the values, returns a condition and
  /// the values.
  void unite_turns(Node* node) {
    const Block* body = node->blocks()[0];
    for (std::size_t i = 0; i < node->outputs().size(); ++i) {
      unite(node->output(i), node->input(i + 2));
      unite(node->output(i), body->inputs()[i + 1]);
      unite(node->output(i), body->outputs()[i + 1]);
    }
  }

  std::unordered_map<const Value*, const Value*> parents_;
};

/// The node of `block` that is `node` or holds it; null where there is none.
Node* ancestor_in(Node* node, const Block* block) {
  while (node != nullptr && node->owningBlock() != block) node = node->owningBlock()->owningNode();
  return node;
}

/// What is known of the values that may be one memory, in the order of the graph.
struct Memory {
  std::vector<Node*> views{};    ///< the nodes that return them without computing them
  std::vector<Value*> values{};  ///< those that somebody may still read
  bool has_containers{false};
  bool is_kept{false};  ///< the views stay as they are
};

class KeepWrites {
 public:
  explicit KeepWrites(Model& model)
      : model_(model), classes_(model), nodes_(ir::nodes_in_order(*model.graph)) {
    for (Value* input : model.graph->inputs()) add_value(input);
    for (Node* node : nodes_) add_node(node);
  }

  bool run() {
    bool changed = false;
    for (Node* node : nodes_) {
      for (Value* value : written(node)) {
        keep(node, value);
        changed = true;
      }
    }
    return changed;
  }

 private:
  Memory& memory_of(const Value* value) { return memories_[classes_.root_of(value)]; }

  void add_value(Value* value) {
    if (!ir::holds_tensor(value)) return;
    Memory& memory = memory_of(value);
    memory.values.push_back(value);
    memory.has_containers |= value->type()->kind() != c10::TypeKind::TensorType;
  }

  void add_node(Node* node) {
    for (Value* output : node->outputs()) add_value(output);
    for (Block* block : node->blocks()) {
      for (Value* input : block->inputs()) add_value(input);
    }
    if (!shares_memory(model_, node)) return;
    for (const Value* output : node->outputs()) {
      if (ir::holds_tensor(output)) memory_of(output).views.push_back(node);
    }
  }

  void keep(Node* writer, const Value* value) {
    place_as_written(writer);
    Memory& memory = memory_of(value);
    if (!memory.is_kept) {
      for (Node* view : memory.views) place_as_written(view);
      memory.is_kept = true;
    }
    bool is_in_loop = false;
    for (Node* level = writer; level != nullptr; level = level->owningBlock()->owningNode()) {
      if (level->kind() == c10::prim::Loop) {
        read_again_in_each_turn(level, memory);
        is_in_loop = true;
      }
      read_again_after(level, memory);
    }
    // The next turn reads again what this one has read, and a list that is made again reads its elements.
    if (!is_in_loop && !memory.has_containers) forget_what_is_read(writer, memory);
  }

  void place_as_written(Node* node) {
    ir::NodeRecord& record = ir::record_for(model_, node);
    record.placement = ir::Placement::Written;
    record.reason = ir::Reason::Memory;
  }

  /// What was read before a writer alone is of no interest to those after it.
  static void forget_what_is_read(const Node* writer, Memory& memory) {
    std::erase_if(memory.values, [&](const Value* value) {
      return std::ranges::all_of(value->uses(), [&](const torch::jit::Use& use) {
        return use.user == writer || use.user->isBefore(writer);
      });
    });
  }

  /// Whether a value may be of the memory, which is that of `memory`.
  bool is_of(const Memory& memory, const Value* value) {
    return ir::holds_tensor(value) && &memory_of(value) == &memory;
  }

  /// What was there before `level`, and is read after it in its block.
  void read_again_after(Node* level, Memory& memory) {
    const Block* block = level->owningBlock();
    const auto is_after = [&](Node* user) {
      const Node* ancestor = ancestor_in(user, block);
      return ancestor != nullptr && ancestor != level && level->isBefore(ancestor);
    };
    const auto is_older = [&](const Value* value) {
      const Node* ancestor = ancestor_in(const_cast<Node*>(value->node()), block);
      return ancestor == nullptr || (ancestor != level && ancestor->isBefore(level));
    };
    replace_reads(memory, is_after, is_older, level->next());
  }

  void read_again_in_each_turn(Node* loop, Memory& memory) {
    Block* body = loop->blocks()[0];
    const auto is_inside = [&](Node* node) { return ancestor_in(node, body) != nullptr; };
    const auto is_from_outside = [&](Value* value) { return !is_inside(value->node()); };
    replace_reads(memory, is_inside, is_from_outside, *body->nodes().begin());
  }

  /// New nodes are put in front of `before`.
  template <typename IsReader, typename IsOlder>
  void replace_reads(Memory& memory, const IsReader& is_reader, const IsOlder& is_older, Node* before) {
    std::unordered_map<Value*, Value*> again;
    std::vector<Value*> containers;
    const std::vector<Value*> values = memory.values;  // it grows
    for (Value* value : values) {
      if (!is_older(value) || !is_read(value, is_reader)) continue;
      if (value->type()->kind() == c10::TypeKind::TensorType) {
        replace_uses(value, read_again(value, memory, before, again), is_reader);
      } else if (ir::is_container_construct(value->node())) {
        containers.push_back(value);
      }
    }
    for (Value* container : containers) construct_again(container, memory, is_reader, before, again);
  }

  Value* read_again(Value* value, Memory& memory, Node* before, std::unordered_map<Value*, Value*>& again) {
    if (const auto found = again.find(value); found != again.end()) return found->second;
    Value* made = ir::insert_before(before, "aten::alias", {value}, value->type());
    ir::take_scope(made->node(), value->node());
    add_made(made, value, memory);
    return again[value] = made;
  }

  /// A list that is made before the write and read after it, its elements one by one.
  template <typename IsReader>
  void construct_again(Value* container, Memory& memory, const IsReader& is_reader, Node* before,
                       std::unordered_map<Value*, Value*>& again) {
    Node* made = ir::insert_copy(before, container->node());
    for (std::size_t i = 0; i < made->inputs().size(); ++i) {
      Value* element = made->input(i);
      if (element->type()->kind() == c10::TypeKind::TensorType && is_of(memory, element))
        made->replaceInput(i, read_again(element, memory, made, again));
    }
    add_made(made->output(), container, memory);
    replace_uses(container, made->output(), is_reader);
  }

  template <typename IsReader>
  static bool is_read(const Value* value, const IsReader& is_reader) {
    return std::any_of(value->uses().begin(), value->uses().end(),
                       [&](const torch::jit::Use& use) { return is_reader(use.user); });
  }

  template <typename IsReader>
  static void replace_uses(Value* value, Value* by, const IsReader& is_reader) {
    const std::vector<torch::jit::Use> uses = value->uses();
    for (const torch::jit::Use& use : uses) {
      if (use.user != by->node() && is_reader(use.user)) use.user->replaceInput(use.offset, by);
    }
  }

  /// A value that is what `original` was is of the same memory.
  void add_made(Value* made, const Value* original, Memory& memory) {
    classes_.unite(made, original);
    memory.values.push_back(made);
  }

  Model& model_;
  MemoryClasses classes_;
  std::vector<Node*> nodes_;
  std::unordered_map<const Value*, Memory> memories_;  ///< by the root of their class
};

}  // namespace

bool keep_writes(Model& model, const PassContext& /*context*/) { return KeepWrites(model).run(); }

}  // namespace tsq::passes
