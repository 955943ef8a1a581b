// Memory that an operator writes under the eyes of others, which FX refuses to trace, must not be cut by a
// pair of quantize and dequantize, nor read from before the write.
//   y = conv(x); y[:, 0] = 7; z = linear(y)   →   y = conv(x); y[:, 0] = 7; y1 = alias(y); z = linear(y1)
// The operator that writes, and the views through which it writes, stay as they are.

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ir/analysis.h"
#include "operators/traits.h"
#include "passes/rewrite/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;
using torch::jit::Block;

/// Whether an output may be memory of an input. Schemas do not say it of dropout.
bool shares_memory(const Model& gm, const Node* node) {
  const auto* const row = operators::traits_of(gm, node);
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
  const c10::FunctionSchema* schema = node->maybeSchema();
  if (schema == nullptr || !schema->is_mutable()) return values;
  for (std::size_t i = 0; i < schema->arguments().size() && i < node->inputs().size(); ++i) {
    const auto* alias = schema->arguments()[i].alias_info();
    const bool is_tensor = node->input(i)->type()->kind() == c10::TypeKind::TensorType;
    if (alias != nullptr && alias->isWrite() && is_tensor) values.push_back(node->input(i));
  }
  return values;
}

/// Which values may be one memory.
class MemoryClasses {
 public:
  explicit MemoryClasses(const Model& gm) {
    std::map<std::string, const Value*> attributes;
    for (Node* node : ir::nodes_in_order(*gm.graph)) visit(gm, node, attributes);
  }

  void unite(const Value* a, const Value* b) {
    if (ir::holds_tensor(a) && ir::holds_tensor(b)) parents_[root_of(a)] = root_of(b);
  }
  bool are_one(const Value* a, const Value* b) { return root_of(a) == root_of(b); }

 private:
  void visit(const Model& gm, Node* node, std::map<std::string, const Value*>& attributes) {
    if (node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::SetAttr) {
      const Value* value = node->kind() == c10::prim::GetAttr ? node->output() : node->input(1);
      const auto found = attributes.emplace(node->s(c10::attr::name), value).first;
      return unite(found->second, value);
    }
    if (node->kind() == c10::prim::If) return unite_branches(node);
    if (node->kind() == c10::prim::Loop) return unite_turns(node);
    if (!shares_memory(gm, node)) return;
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

  const Value* root_of(const Value* value) {
    auto found = parents_.find(value);
    if (found == parents_.end() || found->second == value) return value;
    return found->second = root_of(found->second);
  }

  std::unordered_map<const Value*, const Value*> parents_;
};

/// The node of `block` that is `node` or holds it; null where there is none.
Node* ancestor_in(Node* node, const Block* block) {
  while (node != nullptr && node->owningBlock() != block) node = node->owningBlock()->owningNode();
  return node;
}

class KeepWrites {
 public:
  explicit KeepWrites(Model& gm) : gm_(gm), classes_(gm), nodes_(ir::nodes_in_order(*gm.graph)) {}

  void run() {
    for (Node* node : nodes_) {
      for (Value* value : written(node)) keep(node, value);
    }
  }

 private:
  void keep(Node* writer, const Value* memory) {
    ir::set_stays_float(writer);
    for (Node* node : nodes_) {
      const bool is_view =
          shares_memory(gm_, node) && std::any_of(node->outputs().begin(), node->outputs().end(),
                                                  [&](const Value* output) { return is_of(memory, output); });
      if (is_view) ir::set_stays_float(node);
    }
    for (Node* level = writer; level != nullptr; level = level->owningBlock()->owningNode()) {
      if (level->kind() == c10::prim::Loop) read_again_in_each_turn(level, memory);
      read_again_after(level, memory);
    }
  }

  bool is_of(const Value* memory, const Value* value) {
    return ir::holds_tensor(value) && classes_.are_one(memory, value);
  }

  /// What was there before `level`, and is read after it in its block.
  void read_again_after(Node* level, const Value* memory) {
    const Block* block = level->owningBlock();
    Node* place = level;
    const auto insert = [&](Node* made) {
      made->insertAfter(place);
      place = made;
    };
    const auto is_after = [&](Node* user) {
      const Node* ancestor = ancestor_in(user, block);
      return ancestor != nullptr && ancestor != level && level->isBefore(ancestor);
    };
    const auto is_older = [&](const Value* value) {
      const Node* ancestor = ancestor_in(const_cast<Node*>(value->node()), block);
      return ancestor == nullptr || (ancestor != level && ancestor->isBefore(level));
    };
    replace_reads(memory, is_after, is_older, insert);
  }

  void read_again_in_each_turn(Node* loop, const Value* memory) {
    Block* body = loop->blocks()[0];
    Node* place = nullptr;
    const auto insert = [&](Node* made) {
      if (place == nullptr) {
        body->prependNode(made);
      } else {
        made->insertAfter(place);
      }
      place = made;
    };
    const auto is_inside = [&](Node* node) { return ancestor_in(node, body) != nullptr; };
    const auto is_from_outside = [&](Value* value) { return !is_inside(value->node()); };
    replace_reads(memory, is_inside, is_from_outside, insert);
  }

  template <typename IsReader, typename IsOlder, typename Insert>
  void replace_reads(const Value* memory, const IsReader& is_reader, const IsOlder& is_older,
                     const Insert& insert) {
    std::unordered_map<Value*, Value*> again;
    std::vector<Value*> containers;
    for (Value* value : values_of(memory)) {
      if (!is_older(value) || !is_read(value, is_reader)) continue;
      if (value->type()->kind() == c10::TypeKind::TensorType) {
        replace_uses(value, read_again(value, memory, insert, again), is_reader);
      } else if (ir::is_container_construct(value->node())) {
        containers.push_back(value);
      }
    }
    for (Value* container : containers) construct_again(container, memory, is_reader, insert, again);
  }

  template <typename Insert>
  Value* read_again(Value* value, const Value* memory, const Insert& insert,
                    std::unordered_map<Value*, Value*>& again) {
    if (const auto found = again.find(value); found != again.end()) return found->second;
    static const c10::Symbol kAlias = c10::Symbol::fromQualString("aten::alias");
    Node* made = gm_.graph->create(kAlias, {value}, 1);
    made->output()->setType(value->type());
    ir::take_scope(made, value->node());
    insert(made);
    classes_.unite(made->output(), memory);
    made_.push_back(made->output());
    return again[value] = made->output();
  }

  /// A list that is made before the write and read after it, its elements one by one.
  template <typename IsReader, typename Insert>
  void construct_again(Value* container, const Value* memory, const IsReader& is_reader, const Insert& insert,
                       std::unordered_map<Value*, Value*>& again) {
    Node* made = gm_.graph->createClone(container->node(), [](Value* value) { return value; });
    for (std::size_t i = 0; i < made->inputs().size(); ++i) {
      Value* element = made->input(i);
      if (element->type()->kind() == c10::TypeKind::TensorType && is_of(memory, element))
        made->replaceInput(i, read_again(element, memory, insert, again));
    }
    insert(made);
    classes_.unite(made->output(), memory);
    made_.push_back(made->output());
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

  std::vector<Value*> values_of(const Value* memory) {
    std::vector<Value*> values;
    const auto add = [&](Value* value) {
      if (is_of(memory, value)) values.push_back(value);
    };
    for (Value* input : gm_.graph->inputs()) add(input);
    for (Node* node : nodes_) {
      for (Value* output : node->outputs()) add(output);
      for (Block* block : node->blocks()) {
        for (Value* input : block->inputs()) add(input);
      }
    }
    for (Value* value : std::vector<Value*>(made_)) add(value);
    return values;
  }

  Model& gm_;
  MemoryClasses classes_;
  std::vector<Node*> nodes_;
  std::vector<Value*> made_;
};

}  // namespace

void keep_writes(Model& gm) { KeepWrites(gm).run(); }

}  // namespace tsq::passes
