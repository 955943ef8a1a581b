// Values as numbers: the same number for the same operator of the same values.

#include "passes/ranges/same_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/constants.h"
#include "ir/methods.h"
#include "observers/observer_module.h"
#include "operators/traits.h"
#include "passes/context/branch_observers.h"
#include "passes/context/nodes.h"
#include "passes/ranges/calls_of_layer.h"

namespace tsq::passes {
namespace {

using torch::jit::Block;

bool is_argument(const Value* value) { return value->node()->kind() == c10::prim::Param; }

/// What operators that only move values move.
const Value* before_moves(const Model& model, const Value* value) {
  for (value = before_observers(value); !is_argument(value); value = before_observers(value)) {
    const Node* node = value->node();
    const bool has_one = node->outputs().size() == 1 && !node->inputs().empty();
    if (!has_one || !ir::holds_tensor(node->input(0)) || !node->blocks().empty() ||
        !operators::moves_values(operators::traits_of(model, node)))
      break;
    value = node->input(0);
  }
  return value;
}

/// What the blocks of a node read from outside, in order.
void collect_captured(const Node* owner, const Node* around, std::vector<const Value*>& captured) {
  const auto collect = [&](const Node* reader) {
    for (const Value* value : reader->inputs()) {
      const Node* at = is_argument(value) ? value->node()->owningBlock()->owningNode() : value->node();
      while (at != nullptr && at != around) at = at->owningBlock()->owningNode();
      if (at == nullptr) captured.push_back(value);
    }
  };
  for (const Block* block : owner->blocks()) {
    for (const Node* node : block->nodes()) {
      collect(node);
      collect_captured(node, around, captured);
    }
    collect(block->return_node());
  }
}

/// The values that a node computes with.
std::vector<const Value*> values_read(const Node* node) {
  std::vector<const Value*> values(node->inputs().begin(), node->inputs().end());
  collect_captured(node, node, values);
  return values;
}

/// What operators are, as text: the same text for the same operator.
class Labels {
 public:
  explicit Labels(const Model& model) : model_(model) {}

  [[nodiscard]] std::string of(const Node* node) {
    if (ir::is_module_call(node)) return of(ir::call_of(model_, node));
    if (node->kind() == c10::prim::Constant) {
      if (const auto constant = torch::jit::toIValue(node->output())) return of(*constant);
    } else if (node->kind() == c10::prim::GetAttr) {
      if (const std::string* name = ir::attribute_read(model_, node->output())) return of_attribute(*name);
    }
    std::string label = node->kind().toQualString();
    for (const c10::Symbol name : node->attributeNames()) {
      const std::string_view text = name.toUnqualString();
      if (!text.starts_with("tsq_")) label += fmt::format(" {}={}", text, attribute(node, name));
    }
    return label;
  }

 private:
  [[nodiscard]] std::string of(const ir::ModuleCall& call) {
    std::string label = fmt::format("{}.{}", call.type.name, call.method);
    label += call.weighted ? fmt::format(" weight {}", number_of(*call.weighted)) : " " + call.path;
    for (const c10::IValue& constant : call.constants) label += " " + of(constant);
    for (const ir::ModuleCall& member : call.members) label += " [" + of(member) + "]";
    return label;
  }

  [[nodiscard]] std::string of(const c10::IValue& constant) {
    if (constant.isTensor()) return fmt::format("tensor {}", number_of(constant.toTensor()));
    if (constant.isObject() || constant.isCapsule()) return fmt::format("object {}", next_++);
    std::ostringstream text;
    text << constant.tagKind() << ' ' << constant;
    return text.str();
  }

  [[nodiscard]] std::string of_attribute(const std::string& name) {
    if (model_.state.contains(name) || !model_.attributes.hasattr(name)) return "attribute " + name;
    const c10::IValue& value = model_.attributes.attr(name);
    return value.isTensor() ? of(value) : "attribute " + name;
  }

  [[nodiscard]] std::string attribute(const Node* node, c10::Symbol name) {
    using torch::jit::AttributeKind;
    switch (node->kindOf(name)) {
      case AttributeKind::i:
        return std::to_string(node->i(name));
      case AttributeKind::f:
        return fmt::format("{}", node->f(name));
      case AttributeKind::s:
        return node->s(name);
      case AttributeKind::is:
        return fmt::format("{}", fmt::join(node->is(name), ","));
      case AttributeKind::fs:
        return fmt::format("{}", fmt::join(node->fs(name), ","));
      case AttributeKind::ss:
        return fmt::format("{}", fmt::join(node->ss(name), ","));
      default:
        return fmt::format("other {}", next_++);
    }
  }

  [[nodiscard]] std::size_t number_of(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.layout() != at::kStrided) return next_++;
    std::vector<std::pair<at::Tensor, std::size_t>>& alike =
        tensors_[fmt::format("{} {}", fmt::join(tensor.sizes(), ","), c10::toString(tensor.scalar_type()))];
    for (const auto& [known, number] : alike) {
      if (known.is_same(tensor) || at::equal(known, tensor)) return number;
    }
    return alike.emplace_back(tensor, next_++).second;
  }

  [[nodiscard]] std::size_t number_of(const ir::Weighted& weighted) {
    std::vector<std::pair<const ir::Weighted*, std::size_t>>& alike =
        weights_[ir::origin_of(weighted).const_data_ptr()];
    for (const auto& [known, number] : alike) {
      if (are_equal(*known, weighted)) return number;
    }
    return alike.emplace_back(&weighted, next_++).second;
  }

  [[nodiscard]] static bool are_equal(const ir::Weighted& a, const ir::Weighted& b) {
    const bool has_one_bias =
        a.bias.defined() == b.bias.defined() && (!a.bias.defined() || at::equal(a.bias, b.bias));
    return have_one_weight(a, b) && has_one_bias && a.stride == b.stride && a.padding == b.padding &&
           a.output_padding == b.output_padding && a.dilation == b.dilation && a.groups == b.groups &&
           a.padding_mode == b.padding_mode && a.padding_name == b.padding_name;
  }

  const Model& model_;
  std::size_t next_{0};
  std::map<std::string, std::vector<std::pair<at::Tensor, std::size_t>>> tensors_{};  ///< by shape
  std::map<const void*, std::vector<std::pair<const ir::Weighted*, std::size_t>>> weights_{};
};

/// The number of each value. What the arguments are is told by whoever asks.
class Numbering {
 public:
  Numbering(const Model& model, Labels& labels) : model_(model), labels_(labels) {}

  void set_argument(const Value* argument, const std::string& key) { numbers_[argument] = number(key); }
  void take_argument(const Value* argument, const Value* other) { numbers_[argument] = of(other); }

  void visit(const Block* block) {
    for (const Node* node : block->nodes()) {
      if (node->kind() != ir::kMethodsKind) visit(node);
    }
  }

  [[nodiscard]] std::size_t of(const Value* value) const { return numbers_.at(before_observers(value)); }

 private:
  void visit(const Node* node) {
    if (ir::is_observer(node)) return;
    Names names;
    const std::size_t form = number(label(node, names));
    for (const Value* output : node->outputs())
      numbers_[output] = number(fmt::format("output {} of {}", output->offset(), form));
    for (std::size_t i = 0; i < node->blocks().size(); ++i) {
      for (const Value* argument : node->blocks()[i]->inputs())
        set_argument(argument, fmt::format("argument {} of block {} of {}", argument->offset(), i, form));
      visit(node->blocks()[i]);
    }
  }

  /// Values of a block's own have names in it.
  using Names = std::map<const Value*, std::string>;

  [[nodiscard]] std::string label(const Node* node, Names& names) {
    const bool is_layer = ir::is_module_call(node);
    std::string text = labels_.of(node) + "(";
    for (const Value* input : node->inputs())
      text += name(is_layer ? before_moves(model_, input) : before_observers(input), names) + ",";
    text += ")";
    for (const Block* block : node->blocks()) {
      text += "{";
      for (const Value* argument : block->inputs()) names[argument] = fmt::format("%{}", names.size());
      for (const Node* inner : block->nodes()) {
        if (ir::is_observer(inner)) continue;
        text += label(inner, names) + ";";
        for (const Value* output : inner->outputs()) names[output] = fmt::format("%{}", names.size());
      }
      for (const Value* output : block->outputs()) text += name(before_observers(output), names) + ",";
      text += "}";
    }
    return text;
  }

  [[nodiscard]] std::string name(const Value* value, const Names& names) const {
    const auto found = names.find(value);
    return found == names.end() ? fmt::format("#{}", of(value)) : found->second;
  }

  [[nodiscard]] std::size_t number(const std::string& key) {
    return known_.emplace(key, known_.size()).first->second;
  }

  const Model& model_;
  Labels& labels_;
  std::unordered_map<std::string, std::size_t> known_{};
  std::unordered_map<const Value*, std::size_t> numbers_{};
};

bool has_weights(const Model& model, const Node* node) {
  if (!ir::is_module_call(node)) return false;
  const ir::ModuleCall& call = ir::call_of(model, node);
  return ir::weighted_of(call) != nullptr || call.embedding ||
         (call.module && call.module->parameters().size() > 0);
}

/// Which argument of forward an argument of a method is.
class Arguments {
 public:
  Arguments(const Model& model, const Numbering& forms) : model_(model), forms_(forms) {
    for (const Node* node : ir::nodes_in_order(*model.graph)) {
      if (has_weights(model, node) && ir::method_of(node).empty())
        layers_.emplace(forms_.of(node->output(0)), node);
    }
  }

  /// The arguments of a method with those of forward.
  [[nodiscard]] std::map<const Value*, const Value*> of(Block* method) {
    found_.clear();
    std::vector<Node*> nodes;
    for (Node* node : method->nodes()) ir::collect_nodes(node, nodes);
    for (const Node* node : nodes) {
      const auto twin = has_weights(model_, node) ? layers_.find(forms_.of(node->output(0))) : layers_.end();
      if (twin == layers_.end() || found_.size() == method->inputs().size()) continue;
      seen_.clear();
      const auto before = found_;
      if (!agree(node, twin->second)) found_ = before;
    }
    return found_;
  }

 private:
  /// Whether two nodes of one form compute the same, and which arguments are the same then.
  bool agree(const Node* here, const Node* there) {
    const auto reads = values_read(here);
    const auto others = values_read(there);
    if (reads.size() != others.size()) return false;
    for (std::size_t i = 0; i < reads.size(); ++i) {
      const bool is_layer = ir::is_module_call(here);
      if (!agree(is_layer ? before_moves(model_, reads[i]) : before_observers(reads[i]),
                 is_layer ? before_moves(model_, others[i]) : before_observers(others[i])))
        return false;
    }
    return true;
  }

  bool agree(const Value* here, const Value* there) {
    if (here == there || !seen_.insert({here, there}).second) return true;
    if (forms_.of(here) != forms_.of(there)) return false;
    if (!is_argument(here)) return agree(here->node(), there->node());
    const Node* owner = here->node()->owningBlock()->owningNode();
    if (owner == nullptr) return false;  // of forward, and not this one
    if (owner->kind() != ir::kMethodsKind) return agree(owner, there->node()->owningBlock()->owningNode());
    return found_.emplace(here, there).first->second == there;
  }

  const Model& model_;
  const Numbering& forms_;
  std::multimap<std::size_t, const Node*> layers_{};  ///< of forward, by form
  std::map<const Value*, const Value*> found_{};
  std::set<std::pair<const Value*, const Value*>> seen_{};
};

/// The number of each value of a model.
class SameValues {
 public:
  explicit SameValues(const Model& model) : model_(model), labels_(model), numbers_(model, labels_) {
    const auto inputs = model.graph->inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      numbers_.set_argument(inputs[i], fmt::format("argument {}", i));
    numbers_.visit(model.graph->block());
    if (Node* methods = ir::methods_node(model)) visit_methods(methods);
  }

  /// The same number for values that have one range: those that are the same, perhaps moved.
  [[nodiscard]] std::size_t range_of(const Value* value) const {
    return numbers_.of(before_moves(model_, value));
  }

 private:
  void visit_methods(Node* methods) {
    Numbering forms(model_, labels_);
    const auto set_form = [&](const Value* argument) {
      forms.set_argument(argument, "an argument of type " + argument->type()->str());
    };
    std::ranges::for_each(model_.graph->inputs(), set_form);
    forms.visit(model_.graph->block());
    for (const Block* method : methods->blocks()) {
      std::ranges::for_each(method->inputs(), set_form);
      forms.visit(method);
    }
    Arguments arguments(model_, forms);
    for (std::size_t i = 0; i < methods->blocks().size(); ++i) {
      Block* method = methods->blocks()[i];
      const auto found = arguments.of(method);
      for (const Value* argument : method->inputs()) {
        if (const auto of_forward = found.find(argument); of_forward != found.end()) {
          numbers_.take_argument(argument, of_forward->second);
        } else {
          numbers_.set_argument(argument, fmt::format("argument {} of method {}", argument->offset(), i));
        }
      }
      numbers_.visit(method);
    }
  }

  const Model& model_;
  Labels labels_;
  Numbering numbers_;
};

}  // namespace

bool take_ranges_of_same_values(Model& model, const std::function<bool(const Node*)>& is_wanted) {
  std::vector<Node*> seen;
  std::vector<Node*> unseen;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_observer(node)) continue;
    const bool saw = saw_data(ir::observer_of(model, node).module.value()) && !was_not_left(model, node);
    if (saw || is_wanted(node)) (saw ? seen : unseen).push_back(node);
  }
  if (seen.empty() || unseen.empty()) return false;
  const SameValues values(model);
  std::multimap<std::size_t, std::size_t> ranges;  // observers by what they saw
  for (const Node* node : seen) ranges.emplace(values.range_of(node->input(0)), ir::observer_index(node));
  const auto are_alike = [&](std::size_t a, std::size_t b) {
    const ObserverSpec& first = model.observers[a].spec;
    const ObserverSpec& second = model.observers[b].spec;
    return first.observer == second.observer && resolve(first).dtype == resolve(second).dtype;
  };
  return change_each(unseen, [&](Node* node) {
    const auto [begin, end] = ranges.equal_range(values.range_of(node->input(0)));
    const auto found = std::find_if(
        begin, end, [&](const auto& range) { return are_alike(range.second, ir::observer_index(node)); });
    if (found != end) ir::set_observer_index(node, found->second);
    return found != end;
  });
}

}  // namespace tsq::passes
