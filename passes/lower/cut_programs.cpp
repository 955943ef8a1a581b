// Regions of the reference graph → fused programs, which libtsq_runtime runs.
//   quantize(conv(dequantize(quantize(x))))   →   tsq::run(self.program, [x], [])
// What is left is lowered to the engine's kernels.

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/runtime_library.h>

#include <algorithm>
#include <queue>
#include <ranges>
#include <set>

#include "backends/programs/program_builder.h"
#include "backends/programs/translations.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/quantize_operators.h"
#include "operators/known_dtypes.h"
#include "passes/context/nodes.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/lower/passes.h"
#include "passes/lower/program/late_writes.h"
#include "passes/lower/program/regions.h"
#include "passes/lower/program/shape_readers.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/program_json.h"

namespace tsq::passes {
namespace {

using ir::kQuantize;

bool is_layer(const runtime::Operation& operation, const runtime::Program& program) {
  if (runtime::is_recurrent(operation.kind)) return operation.weight_scales.has_value();
  return runtime::is_product(operation.kind) &&
         runtime::is_int8(program.values[static_cast<std::size_t>(operation.inputs.front())].dtype);
}

/// Whether a program computes a layer in int8: what is all float is as fast in LibTorch.
bool pays(const runtime::Program& program) {
  return std::ranges::any_of(
      program.operations, [&](const runtime::Operation& operation) { return is_layer(operation, program); });
}

/// The layer that an operation belongs to, as profiles of the float model name it.
std::string name_of(const Decision* decision) {
  if (decision == nullptr) return {};
  return decision->layer.empty() ? decision->node : decision->layer;
}

/// The object that runs a program: torch.classes.tsq.Program.
c10::IValue make_program(const programs::ProgramBuilder& builder) {
  const auto op = c10::Dispatcher::singleton().findSchema({"tsq::make_program", ""});
  if (!op) {
    throw Error(ErrorCode::Unsupported, "the library that runs fused programs is not loaded",
                "load libtsq_runtime.so, or lower for the stock target");
  }
  torch::jit::Stack stack{runtime::to_json(builder.program()), builder.constants()};
  op->callBoxed(&stack);
  return stack.at(0);
}

/// The values that a call of a program gets.
std::vector<const Value*> given_to(const programs::ProgramBuilder& program) {
  std::vector<const Value*> read = program.inputs();
  read.insert(read.end(), program.integers().begin(), program.integers().end());
  return read;
}

/// Whether the sums of an int8 layer may leave 16 bits.
bool is_unbounded(const programs::ProgramBuilder& builder, const runtime::Operation& operation) {
  if (!operation.weight_scales || operation.bounded || !runtime::is_product(operation.kind)) return false;
  const at::Tensor& weight = builder.constants().at(static_cast<std::size_t>(*operation.weight));
  return !runtime::is_depthwise(operation, weight.sizes().vec());
}

/// One region of a stretch as a program.
struct Cut {
  std::unique_ptr<programs::ProgramBuilder> builder{};
  const Region* region{};
};

/// The programs of one stretch in the place of its regions.
class StretchCutting {
 public:
  StretchCutting(Model& model, Stretch& stretch, programs::TranslationCache& cache)
      : model_(model), stretch_(stretch), cache_(cache) {}

  bool run() {
    for (const Region& region : stretch_.regions) cuts_.push_back(cut(region));
    if (std::ranges::none_of(cuts_, [](const Cut& cut) { return cut.builder != nullptr; })) return false;
    find_readers();
    for (Cut& each : cuts_) return_values(each);
    for (const std::size_t unit : order()) place(unit);
    remove_computed();
    return true;
  }

 private:
  Cut cut(const Region& region) const {
    auto builder = std::make_unique<programs::ProgramBuilder>(model_, stretch_.region_of, cache_);
    for (const Node* node : region) {
      builder->set_name(name_of(ir::decision_of(model_, node)));
      if (!programs::translate(*builder, node)) return {};
    }
    return pays(builder->program()) ? Cut{std::move(builder), &region} : Cut{};
  }

  [[nodiscard]] const Cut* cut_of(const Node* node) const {
    const auto found = stretch_.region_of.find(node);
    if (found == stretch_.region_of.end() || cuts_[found->second].builder == nullptr) return nullptr;
    return &cuts_[found->second];
  }

  /// Who reads values that programs compute: nodes that stay, and other programs.
  void find_readers() {
    for (const Cut& each : cuts_) {
      if (each.builder == nullptr) continue;
      for (const Value* value : given_to(*each.builder)) read_by_programs_.insert(value);
    }
  }

  /// Whether a node stays that reads a value; of lists, whether one stays that reads the list.
  [[nodiscard]] bool is_read_outside(const Value* value) const {
    return std::ranges::any_of(value->uses(), [&](const torch::jit::Use& use) {
      const Node* reader = use.user;
      while (reader->owningBlock() != stretch_.end->owningBlock() && reader->owningBlock()->owningNode())
        reader = reader->owningBlock()->owningNode();
      if (cut_of(reader) != nullptr) return false;
      return !is_glue(reader) || is_read_outside(reader->output());
    });
  }

  void return_values(Cut& each) {
    if (each.builder == nullptr) return;
    for (const Node* node : *each.region) {
      for (const Value* value : node->outputs()) {
        if (!ir::holds_tensor(value) || !each.builder->is_defined(value)) continue;
        if (!read_by_programs_.contains(value) && !is_read_outside(value)) continue;
        each.builder->return_value(value);
        for (const Node* reader : ir::users(value)) {
          if (reader->kind() != c10::prim::Return && cut_of(reader) == nullptr)
            readers_[value].push_back(reader);
        }
      }
    }
  }

  // Units: the programs by their number, then the nodes that stay.

  [[nodiscard]] std::size_t unit_of(const Node* node) const {
    return cut_of(node) != nullptr ? stretch_.region_of.at(node) : units_.at(node);
  }

  /// An order in which what is read has been computed, as close to the graph's as possible.
  std::vector<std::size_t> order() {
    const std::size_t programs = cuts_.size();
    for (Node* node : stretch_.nodes) {
      if (cut_of(node) != nullptr) continue;
      units_[node] = programs + staying_.size();
      staying_.push_back(node);
    }
    const std::size_t count = programs + staying_.size();
    std::vector<std::set<std::size_t>> readers(count);
    std::vector<std::size_t> missing(count, 0);
    std::vector<std::size_t> place(count, 0);
    const auto depends = [&](std::size_t unit, const Value* value) {
      const Node* maker = value->node();
      if (!cut_of(maker) && !units_.contains(maker)) return;
      const std::size_t made = unit_of(maker);
      if (made != unit && readers[made].insert(unit).second) ++missing[unit];
    };
    for (std::size_t i = 0; i < stretch_.nodes.size(); ++i) {
      Node* node = stretch_.nodes[i];
      const std::size_t unit = unit_of(node);
      place[unit] = i;
      if (cut_of(node) != nullptr) continue;
      for (const Value* value : read_by(node)) depends(unit, value);
    }
    for (std::size_t unit = 0; unit < programs; ++unit) {
      const auto& builder = cuts_[unit].builder;
      if (builder == nullptr) continue;
      for (const Value* value : given_to(*builder)) depends(unit, value);
    }
    return sorted(readers, missing, place);
  }

  [[nodiscard]] std::vector<std::size_t> sorted(const std::vector<std::set<std::size_t>>& readers,
                                                std::vector<std::size_t>& missing,
                                                const std::vector<std::size_t>& place) const {
    using Ready = std::pair<std::size_t, std::size_t>;
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (std::size_t unit = 0; unit < missing.size(); ++unit) {
      const bool exists = unit >= cuts_.size() || cuts_[unit].builder != nullptr;
      if (exists && missing[unit] == 0) ready.emplace(place[unit], unit);
    }
    std::vector<std::size_t> order;
    while (!ready.empty()) {
      const std::size_t unit = ready.top().second;
      ready.pop();
      order.push_back(unit);
      for (const std::size_t reader : readers[unit]) {
        if (--missing[reader] == 0) ready.emplace(place[reader], reader);
      }
    }
    return order;
  }

  void place(std::size_t unit) {
    if (unit >= cuts_.size()) {
      staying_[unit - cuts_.size()]->moveBefore(stretch_.end);
    } else {
      insert_call(cuts_[unit]);
    }
  }

  /// A value as a program reads it: the codes of a quantized tensor.
  Value* given(const Value* value) {
    if (const auto known = returned_.find(value); known != returned_.end()) return known->second;
    auto* own = const_cast<Value*>(value);
    if (own->node()->kind() != kQuantize) return own;
    Value* codes = ir::insert_before(stretch_.end, "aten::int_repr", {own});
    returned_[value] = codes;
    return codes;
  }

  void insert_call(const Cut& each) {
    const programs::ProgramBuilder& builder = *each.builder;
    if (builder.outputs().empty()) return;
    Node* end = stretch_.end;
    std::vector<Value*> tensors;
    for (const Value* value : builder.inputs()) tensors.push_back(given(value));
    std::vector<Value*> integers;
    for (const Value* value : builder.integers()) integers.push_back(const_cast<Value*>(value));
    const c10::IValue program = make_program(builder);
    torch::jit::WithInsertPoint before(end);
    Value* object = ir::insert_attribute(model_, "program", program, program.type());
    Value* list = ir::insert_before(end, kProgramOperator,
                                    {object, ir::list_before(end, c10::TensorType::get(), tensors),
                                     ir::list_before(end, c10::IntType::get(), integers)},
                                    c10::ListType::ofTensors());
    Node* unpack = ir::insert_node(end, c10::prim::ListUnpack, {list}, builder.outputs().size());
    for (std::size_t i = 0; i < builder.outputs().size(); ++i)
      hand_out(builder, builder.outputs()[i], unpack->output(i));
    report(each, object->node()->s(c10::attr::name));
  }

  /// Who reads `value` outside of programs reads what the program returns.
  void hand_out(const programs::ProgramBuilder& builder, const Value* value, Value* returned) {
    returned_[value] = returned;
    auto* own = const_cast<Value*>(value);
    const Node* quantize = own->node();
    if (builder.are_truths(value)) {
      if (!is_read_outside(value)) return;
      returned = truths_of(returned);
    } else if (quantize->kind() != kQuantize) {
      set_dtype(returned, c10::ScalarType::Float);
    } else {
      if (!is_read_outside(value)) return;
      returned = ir::insert_before(stretch_.end, "aten::_make_per_tensor_quantized_tensor",
                                   {returned, quantize->input(1), quantize->input(2)});
    }
    own->replaceAllUsesWith(returned);
  }

  /// Bytes as truth values.
  Value* truths_of(Value* bytes) {
    const auto constant = [&](const c10::IValue& value) { return ir::constant_before(stretch_.end, value); };
    Value* truths = ir::insert_before(stretch_.end, "aten::to",
                                      {bytes, constant(static_cast<std::int64_t>(at::kBool)), constant(false),
                                       constant(false), constant(c10::IValue())});
    set_dtype(truths, c10::ScalarType::Bool);
    return truths;
  }

  void set_dtype(Value* value, c10::ScalarType dtype) {
    value->setType(c10::TensorType::get()->withScalarType(dtype));
    if (cache_.dtypes) cache_.dtypes->insert_or_assign(value->unique(), dtype);
  }

  /// What programs compute, readers first.
  void remove_computed() {
    for (Node* node : std::views::reverse(stretch_.nodes)) {
      if (!node->hasUses() && (is_glue(node) || cut_of(node) != nullptr)) node->destroy();
    }
  }

  void report(const Cut& each, const std::string& name) {
    FusedProgram entry{.name = name};
    for (const Node* node : *each.region) {
      const Decision* decision = ir::decision_of(model_, node);
      if (decision == nullptr) continue;
      if (decision->quantized) set_kernel(model_, node, kProgramOperator, ir::Placement::Int8);
      if (entry.operators++ == 0) entry.first = text_of(node);
      entry.last = text_of(node);
    }
    for (const Value* value : each.builder->outputs()) {
      for (const Node* reader : readers_[value]) entry.ended_by.push_back(text_of(reader));
    }
    std::ranges::sort(entry.ended_by);
    const auto repeated = std::ranges::unique(entry.ended_by);
    entry.ended_by.erase(repeated.begin(), repeated.end());
    entry.unbounded_layers = static_cast<std::size_t>(
        std::ranges::count_if(each.builder->program().operations,
                              [&](const auto& operation) { return is_unbounded(*each.builder, operation); }));
    model_.programs.push_back(std::move(entry));
  }

  [[nodiscard]] std::string text_of(const Node* node) const {
    const std::string& layer = ir::scope_of(model_, node).path;
    const std::string name = ir::display_name(model_, node);
    return layer.empty() ? name : fmt::format("{} '{}'", name, layer);
  }

  Model& model_;
  Stretch& stretch_;
  programs::TranslationCache& cache_;
  std::vector<Cut> cuts_{};
  std::set<const Value*> read_by_programs_{};
  std::vector<Node*> staying_{};
  std::unordered_map<const Node*, std::size_t> units_{};
  std::unordered_map<const Value*, Value*> returned_{};
  std::unordered_map<const Value*, std::vector<const Node*>> readers_{};  ///< that stay, of what is returned
};

/// What a recurrent layer begins with by itself; of a trace it is all that tells how many samples there are.
bool are_zeros(const Value* states) {
  const Node* maker = states->node();
  if (maker->kind() != c10::prim::TupleConstruct && maker->kind() != c10::prim::ListConstruct)
    return maker->kind() == c10::aten::zeros;
  return std::ranges::all_of(maker->inputs(), are_zeros);
}

/// A tuple that a recurrent layer is given is told one tensor after the other.
void unpack_states(const Model& model, Node* node) {
  if (!ir::is_module_call(node) || node->inputs().size() < 2) return;
  if (!programs::is_recurrent_of_programs(model, node)) return;
  Value* states = node->input(1);
  if (node->inputs().size() == 2 && are_zeros(states)) return node->removeInput(1);
  const auto type = states->type()->cast<c10::TupleType>();
  if (type == nullptr || states->node()->kind() == c10::prim::TupleConstruct) return;
  Node* unpacked = ir::insert_node(node, c10::prim::TupleUnpack, {states}, type->elements().size());
  for (std::size_t i = 0; i < type->elements().size(); ++i) unpacked->output(i)->setType(type->elements()[i]);
  Node* packed = node->owningGraph()->createTuple(unpacked->outputs())->insertBefore(node);
  node->replaceInput(1, packed->output());
}

bool cut_block(Model& model, torch::jit::Block* block, programs::TranslationCache& cache) {
  bool has_changed = false;
  for (Node* node : block->nodes()) {
    for (torch::jit::Block* inner : node->blocks()) has_changed |= cut_block(model, inner, cache);
  }
  for (Stretch& stretch : stretches_of(model, block, cache))
    has_changed |= StretchCutting(model, stretch, cache).run();
  return has_changed;
}

/// The dtypes of values that are known to be floats are written as numbers, so that nothing waits for them.
///   prim::dtype(linear(x))   →   6
void write_float_dtypes(Model& model) {
  const auto known = operators::known_dtypes(model, operators::Grounds::FloatOperators);
  const auto asks_for_float = [&](const Node* node) {
    return node->kind() == c10::prim::dtype &&
           operators::known_dtype(known, node->input(0)) == c10::ScalarType::Float;
  };
  change_nodes(model, asks_for_float, [](Node* node) {
    replace_node(node, ir::constant_before(node, static_cast<std::int64_t>(c10::ScalarType::Float)));
  });
}

}  // namespace

bool cut_programs(Model& model, const PassContext&) {
  programs::TranslationCache cache{.written = ir::written_attributes(model)};
  write_float_dtypes(model);
  write_attributes_late(model);
  write_sizes_of_images(model);
  for (Node* node : ir::LiveNodes(*model.graph)) unpack_states(model, node);
  read_shapes_early(model);
  ir::eliminate_dead_code(*model.graph);  // a program would return what it reads
  const bool has_changed = cut_block(model, model.graph->block(), cache);
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
