#include "ir/methods.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "ir/analysis.h"

namespace tsq::ir {
namespace {

const c10::Symbol kNames = c10::Symbol::attr("tsq_names");
const c10::Symbol kPlace = c10::Symbol::attr("tsq_place");

bool calls_layers(Graph& graph) { return std::ranges::any_of(nodes_in_order(graph), is_module_call); }

/// A graph of its own for the block of a method. What is made outside of the block comes along.
std::shared_ptr<Graph> taken_out(const Model& model, Block* block) {
  auto graph = std::make_shared<Graph>();
  const Value* self = model.graph->inputs().at(0);
  std::map<const Value*, Value*> inside{{self, graph->addInput()->copyMetadata(const_cast<Value*>(self))}};
  const std::function<Value*(Value*)> find = [&](Value* outside) {
    if (const auto found = inside.find(outside); found != inside.end()) return found->second;
    Node* made = graph->block()->appendNode(graph->createClone(outside->node(), find));
    for (std::size_t i = 0; i < made->outputs().size(); ++i)
      inside[outside->node()->output(i)] = made->output(i);
    return inside.at(outside);
  };
  graph->block()->cloneFrom(block, find);
  return graph;
}

}  // namespace

const c10::Symbol kForwardKind = c10::Symbol::fromQualString("prim::tsq_forward");
const c10::Symbol kMethodsKind = c10::Symbol::fromQualString("prim::tsq_methods");

bool is_forward_call(const Node* node) { return node->kind() == kForwardKind; }

void join_methods(Model& model) {
  Node* all = model.graph->create(kMethodsKind, /*num_outputs=*/0);
  std::vector<std::string> names;
  for (Method& method : model.methods) {
    if (!method.graph || !calls_layers(*method.graph)) continue;
    Block* block = all->addBlock();
    block->cloneFrom(method.graph->block(), [](Value* value) { return value; });
    block->inputs().at(0)->replaceAllUsesWith(model.graph->inputs().at(0));
    block->eraseInput(0);
    names.push_back(method.name);
    method.graph.reset();
  }
  if (names.empty()) return all->destroy();
  all->ss_(kNames, names);
  model.graph->appendNode(all);
}

void split_methods(Model& model) {
  Node* all = methods_node(model);
  if (all == nullptr) return;
  for (std::size_t i = 0; i < all->blocks().size(); ++i) {
    const auto method = std::ranges::find(model.methods, all->ss(kNames)[i], &Method::name);
    method->graph = taken_out(model, all->blocks()[i]);
  }
  all->destroy();
}

Node* methods_node(const Model& model) {
  Node* last = model.graph->block()->return_node()->prev();
  return last->kind() == kMethodsKind ? last : nullptr;
}

std::string method_of(const Node* node) {
  for (const Block* block = node->owningBlock(); block->owningNode() != nullptr;
       block = block->owningNode()->owningBlock()) {
    const Node* owner = block->owningNode();
    if (owner->kind() != kMethodsKind) continue;
    const auto blocks = owner->blocks();
    const auto found = std::find(blocks.begin(), blocks.end(), block);
    return owner->ss(kNames)[static_cast<std::size_t>(found - blocks.begin())];
  }
  return {};
}

void collect_nodes(Node* node, std::vector<Node*>& nodes) {
  nodes.push_back(node);
  for (Block* block : node->blocks()) {
    for (Node* inner : block->nodes()) collect_nodes(inner, nodes);
  }
}

std::optional<int64_t> place_of(const Node* node) {
  return node->hasAttribute(kPlace) ? std::optional(node->i(kPlace)) : std::nullopt;
}

void set_place(Node* node, int64_t place) { node->i_(kPlace, place); }

void take_place(Node* to, const Node* from) {
  if (const auto place = place_of(from)) set_place(to, *place);
}

}  // namespace tsq::ir
