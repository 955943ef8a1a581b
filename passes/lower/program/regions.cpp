#include "passes/lower/program/regions.h"

#include <torch/csrc/jit/api/function_impl.h>

#include <algorithm>
#include <array>
#include <ranges>

#include "backends/programs/expansion.h"
#include "backends/programs/translations.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/traits.h"

namespace tsq::passes {
namespace {

using ir::Block;
using ir::Model;
using ir::Node;
using ir::Value;

bool is_raise(const Node* node) { return node->kind() == c10::prim::RaiseException; }

bool writes(const Node* node) {
  const auto* schema = node->maybeSchema();
  if ((schema != nullptr && schema->is_mutable()) || node->kind() == c10::prim::SetAttr) return true;
  for (std::size_t i = 0; i < node->inputs().size(); ++i) {
    if (ir::writes_input(node, i)) return true;
  }
  return false;
}

/// LibTorch takes every attention for one with dropout.
bool acts_by_chance(const Node* node) {
  if (node->kind() != c10::aten::scaled_dot_product_attention) return node->isNondeterministic();
  constexpr std::size_t kDropout = 4;
  return node->inputs().size() > kDropout && ir::number_constant(node->input(kDropout)) != 0.0;
}

/// Whether a function that is called does what its callers' order depends on, with the constants that it is
/// called with: most of torch.nn.functional may write into its input.
bool acts(const Node* call);

/// Whether nodes must not pass each other at this one. That an exception is raised sooner or later is alike.
bool ends_stretch(const Node* node) {
  if (node->kind() == c10::prim::CallFunction) return acts(node);
  if (node->blocks().empty())
    return !is_raise(node) && (writes(node) || node->hasSideEffects() || acts_by_chance(node));
  return std::ranges::any_of(
      node->blocks(), [](const Block* block) { return std::ranges::any_of(block->nodes(), ends_stretch); });
}

/// Whether a node writes into a list that the function has made.
bool fills_own_list(const Node* node) {
  return node->kind() == c10::aten::append && node->input(0)->node()->kind() == c10::prim::ListConstruct;
}

bool acts(const Node* call) {
  const auto type = call->input(0)->type()->cast<c10::FunctionType>();
  auto* function = type == nullptr ? nullptr : torch::jit::tryToGraphFunction(*type->function());
  if (function == nullptr) return true;
  if (std::ranges::none_of(function->graph()->nodes(), ends_stretch)) return false;
  const auto graph = programs::inlined_function(call);
  return std::ranges::any_of(ir::nodes_in_order(*graph), [](const Node* node) {
    return node->blocks().empty() && !fills_own_list(node) && ends_stretch(node);
  });
}

/// Whether an operator may hand on the memory of its operand.
bool may_be_view(const Model& model, const Node* node) {
  const auto* row = operators::traits_of(model, node);
  return operators::has(row, operators::IsView) || operators::has(row, operators::IsIdentity) ||
         operators::is_one_of(model, node, {"contiguous", "to"});
}

/// Whether something writes into a tensor, or into a view of it.
bool is_written(const Model& model, const Value* value) {
  return std::ranges::any_of(value->uses(), [&](const torch::jit::Use& use) {
    const auto* schema = use.user->maybeSchema();
    const auto* alias = schema != nullptr && use.offset < schema->arguments().size()
                            ? schema->arguments()[use.offset].alias_info()
                            : nullptr;
    if (alias != nullptr && alias->isWrite()) return true;
    return may_be_view(model, use.user) && std::ranges::any_of(use.user->outputs(), [&](const Value* view) {
             return is_written(model, view);
           });
  });
}

/// What a program returns is memory of its own.
bool writes_reach_operand(const Model& model, const Node* node) {
  return may_be_view(model, node) &&
         std::ranges::any_of(node->outputs(), [&](const Value* view) { return is_written(model, view); });
}

/// Whether it is between roundings since kernels that programs do not run refuse it: it was converted for
/// another target.
bool is_refused_by_engine(const Model& model, const Node* node) {
  const ir::NodeRecord* record = ir::record_of(model, node);
  if (record == nullptr || record->placement != ir::Placement::Reference) return false;
  constexpr std::array kOfKernels{ir::Reason::NoKernel, ir::Reason::KernelFault, ir::Reason::PackingRefused};
  return std::ranges::find(kOfKernels, record->reason) != kOfKernels.end();
}

bool translates_alone(const Model& model, const Node* node, const programs::ProgramBuilder::Regions& regions,
                      programs::TranslationCache& cache) {
  while (node->kind() == c10::prim::ListUnpack || node->kind() == c10::prim::TupleUnpack)
    node = node->input(0)->node();
  const bool stays = ir::stays_float(model, node) && !is_refused_by_engine(model, node);
  if (!node->blocks().empty() || node->inputs().empty() || stays || writes_reach_operand(model, node))
    return false;
  return programs::computes(model, node, regions, cache);
}

/// How many regions lie before a value, on the way with the most of them.
struct Level {
  int number{0};
  bool of_region{false};  ///< a node of region `number` has made it
};

/// Sorts the nodes of a stretch into regions.
class Sorting {
 public:
  Sorting(const Model& model, Stretch& stretch, programs::TranslationCache& cache)
      : model_(model), stretch_(stretch), cache_(cache) {}

  void run() {
    for (Node* node : stretch_.nodes) sort(node);
  }

 private:
  void sort(Node* node) {
    const bool glue = is_glue(node);
    const bool member = !glue && translates_alone(model_, node, stretch_.region_of, cache_) &&
                        !only_moves_between_others(node);
    Level level{.of_region = member};
    for (const Value* value : read_by(node)) {
      const auto known = levels_.find(value);
      if (known == levels_.end()) continue;
      const Level& read = known->second;
      level.number = std::max(level.number, read.number + (read.of_region && !member && !glue ? 1 : 0));
      level.of_region |= glue && read.of_region;
    }
    for (const Value* output : node->outputs()) levels_[output] = level;
    if (!member) return;
    const auto index = static_cast<std::size_t>(level.number);
    if (stretch_.regions.size() <= index) stretch_.regions.resize(index + 1);
    stretch_.regions[index].push_back(node);
    stretch_.region_of[node] = index;
  }

  /// Whether a node only moves values from what is no member to what is none: in a region it would make that
  /// wait for all of the region.
  bool only_moves_between_others(const Node* node) {
    if (!operators::moves_values(operators::traits_of(model_, node)) &&
        !operators::is_one_of(model_, node, {"cat", "stack"}))
      return false;
    const auto is_of_region = [&](const Value* value) {
      const auto known = levels_.find(value);
      return known != levels_.end() && known->second.of_region;
    };
    const auto is_no_member = [&](const Node* reader) {
      return reader->kind() != c10::prim::Return &&
             !translates_alone(model_, reader, stretch_.region_of, cache_);
    };
    return std::ranges::none_of(ir::operands(node), is_of_region) &&
           std::ranges::all_of(node->outputs(), [&](const Value* output) {
             return std::ranges::all_of(ir::users(output), is_no_member);
           });
  }

  const Model& model_;
  Stretch& stretch_;
  programs::TranslationCache& cache_;
  std::unordered_map<const Value*, Level> levels_{};
};

/// Whether the results are numbers of shapes, not tensors.
bool computes_numbers(const Node* node) {
  return std::ranges::none_of(node->outputs(), [](const Value* value) { return ir::holds_tensor(value); });
}

/// A list that several nodes read becomes one for each, so that a region has its own.
void give_each_reader_a_list(Block* block) {
  const auto nodes = std::vector<Node*>(block->nodes().begin(), block->nodes().end());
  for (Node* list : nodes) {
    if (list->kind() != c10::prim::ListConstruct) continue;
    const auto uses = list->output()->uses();
    if (std::ranges::any_of(uses, [](const torch::jit::Use& use) { return writes(use.user); })) continue;
    for (std::size_t i = 1; i < uses.size(); ++i) {
      Node* copy = list->owningGraph()->createClone(list, [](Value* value) { return value; });
      copy->insertAfter(list);
      uses[i].user->replaceInput(uses[i].offset, copy->output());
    }
  }
}

/// Readers of numbers outside of the region get them from a copy of the node that computes them.
class Doubling {
 public:
  explicit Doubling(Stretch& stretch) : stretch_(stretch) {}

  void run() {
    for (const Region& region : stretch_.regions) {
      for (Node* node : std::views::reverse(region)) {
        if (computes_numbers(node)) double_outside(node);
      }
    }
    std::ranges::sort(stretch_.nodes, [](const Node* a, const Node* b) { return a->isBefore(b); });
  }

 private:
  [[nodiscard]] bool is_read_inside(const Node* node, const torch::jit::Use& use) const {
    const Node* reader = use.user;
    if (is_glue(reader) && reader->output()->uses().size() == 1)
      reader = reader->output()->uses().front().user;
    const auto found = stretch_.region_of.find(reader);
    return found != stretch_.region_of.end() && found->second == stretch_.region_of.at(node);
  }

  void double_outside(Node* node) {
    Node* copy = nullptr;
    for (std::size_t i = 0; i < node->outputs().size(); ++i) {
      const auto uses = node->output(i)->uses();
      for (const torch::jit::Use& use : uses) {
        if (is_read_inside(node, use)) continue;
        if (copy == nullptr) {
          copy = node->owningGraph()->createClone(node, [](Value* value) { return value; });
          copy->insertAfter(node);
          stretch_.nodes.push_back(copy);
        }
        use.user->replaceInput(use.offset, copy->output(i));
      }
    }
  }

  Stretch& stretch_;
};

}  // namespace

std::vector<Value*> read_by(Node* node) {
  std::vector<Value*> read(node->inputs().begin(), node->inputs().end());
  for (Block* block : node->blocks()) {
    for (Node* inner : block->nodes()) {
      const auto of_inner = read_by(inner);
      read.insert(read.end(), of_inner.begin(), of_inner.end());
    }
    read.insert(read.end(), block->outputs().begin(), block->outputs().end());
  }
  return read;
}

bool is_glue(const Node* node) {
  return node->kind() == c10::prim::Constant || node->kind() == c10::prim::GetAttr ||
         node->kind() == c10::prim::ListConstruct || node->kind() == c10::prim::TupleConstruct;
}

std::vector<Stretch> stretches_of(Model& model, Block* block, programs::TranslationCache& cache) {
  give_each_reader_a_list(block);
  std::vector<Stretch> stretches(1);
  for (Node* node : block->nodes()) {
    if (!ends_stretch(node)) {
      stretches.back().nodes.push_back(node);
      continue;
    }
    stretches.back().end = node;
    stretches.emplace_back();
  }
  stretches.back().end = block->return_node();
  for (Stretch& stretch : stretches) {
    Sorting(model, stretch, cache).run();
    Doubling(stretch).run();
  }
  std::erase_if(stretches, [](const Stretch& stretch) { return stretch.regions.empty(); });
  return stretches;
}

}  // namespace tsq::passes
