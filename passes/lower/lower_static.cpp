// dequantize – operator – quantize → one kernel of the engine
// (torch/ao/quantization/fx/_lower_to_native_backend.py).
//   quantize(conv(dequantize(x)))   →   quantized::conv2d(x, packed, scale, zero_point)

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/dtype_config.h>

#include <algorithm>

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/kernel_arguments.h"
#include "backends/kernels/layer_kind.h"
#include "backends/kernels/lowering_table.h"
#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/quantize_operators.h"
#include "operators/arguments.h"
#include "operators/constant_expressions.h"
#include "operators/dynamic_input.h"
#include "operators/functional_weighted.h"
#include "operators/images/convolution_inputs.h"
#include "operators/traits.h"
#include "operators/weighted.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/lower/passes.h"

namespace tsq::passes {
namespace {

using ir::kDequantize;
using ir::kQuantize;
using ir::Reason;
using kernels::KernelUse;
using kernels::PostOp;
using kernels::Precaution;

bool is_dequantize_node(const Node* node) { return node->kind() == kDequantize; }
/// Whether a value was rounded to float16: it is a tensor of halves, which no kernel reads.
bool is_rounded_to_half(const Value* value) {
  const auto rounded = operators::dynamic_input(value);
  return rounded ? rounded->dtype == c10::ScalarType::Half
                 : value->node()->input(0)->node()->kind() == c10::aten::to;
}
bool is_dequantize(const Value* value) {
  return is_dequantize_node(value->node()) && !is_rounded_to_half(value);
}

class StaticLowering : public KernelLowering {
 public:
  using KernelLowering::KernelLowering;

  void run() {
    lower_each(&StaticLowering::lower_weighted_module);
    lower_each(&StaticLowering::lower_weighted_functional);
    lower_each(&StaticLowering::lower_binary);
    read_shapes_of_quantized();
    lower_each(&StaticLowering::lower_unary);
  }

 private:
  /// Puts a kernel in the place of a quantize node and the operator that it quantizes. `post` is an
  /// activation between the two, null when there is none. Returns whether it has done so.
  using Rule = bool (StaticLowering::*)(Node* q, Node* post, Node* op);

  /// Offers each quantize node with what it quantizes. Graph order.
  void lower_each(Rule rule) {
    for (Node* q : ir::LiveNodes(*model_.graph)) {
      if (q->kind() != kQuantize) continue;
      Node* producer = q->input(0)->node();
      if (!may_have_kernel(model_, producer) || (this->*rule)(q, nullptr, producer)) continue;
      if (post_op_of(producer) == PostOp::None) continue;
      Node* op = ir::operands(producer).front()->node();
      if (may_have_kernel(model_, op)) (this->*rule)(q, producer, op);
    }
  }

  /// L-05: an operator that is configured not to be quantized stays.
  bool is_configured_float(const Node* node) const {
    const ir::NodeRecord* record = ir::record_of(model_, node);
    return record != nullptr && !record->lookup.qconfig;
  }

  /// Puts `kernel` in place of operator, ReLU and quantize.
  void replace(Node* q, Node* op, std::string_view kernel, const std::vector<Value*>& inputs) {
    const std::string_view without_overload = kernel.substr(0, kernel.find('.'));
    finish(q, op, insert_kernel(model_, op, without_overload, inputs, q), without_overload);
  }

  void finish(Node* q, const Node* op, Value* result, std::string_view kernel) {
    const Node* activation = q->input(0)->node();
    for (const Node* done : {op, activation}) report_kernel(done, kernel);
    q->output()->replaceAllUsesWith(result);
    q->destroy();
    kernels::note_dtype(result->node());
    has_changed_ = true;
  }

  /// An operator that nothing asked to quantize gets a kernel all the same between operators that are.
  void report_kernel(const Node* op, std::string_view kernel) {
    set_kernel(model_, op, kernel, ir::Placement::Int8);
    Decision* decision = ir::decision_of(model_, op);
    if (decision == nullptr || decision->quantized) return;
    decision->quantized = true;
    decision->notes.push_back(
        fmt::format("{}, but the operators around it are quantized, and the engine has a kernel for it",
                    decision->reason));
    decision->reason.clear();
    decision->remedy.clear();
  }

  /// The operator stays between dequantize and quantize.
  bool keep_reference(const Node* op, Reason reason, std::string_view why, const std::string& remedy) {
    keep_between_roundings(model_, op, reason, why, remedy);
    has_changed_ = true;
    return false;
  }

  bool keeps_reference_of_faulty(const KernelUse& use) {
    const auto* fault = kernels::fault_of(use, Precaution::KeepReference);
    if (fault != nullptr)
      keep_reference(use.op, Reason::KernelFault, fault->reason, kernels::remedy_of(*fault));
    return fault != nullptr;
  }

  /// Whether the engine can run a weighted operator; says in the report why not.
  bool can_run(const Node* op, const ir::Weighted& weighted, const kernels::WeightedKernel& row,
               const Value* input) {
    if (const std::string* refusal = refusal_of(refusals_, row.prepack, weighted)) {
      return keep_reference(
          op, Reason::PackingRefused, *refusal,
          "choose a qconfig whose weight observer the engine takes, or none for this layer");
    }
    return !keeps_reference_of_faulty(use_of(op, row.kernel, input, &weighted));
  }

  // L-02, L-08, and transposed convolutions of L-15.
  bool lower_weighted_module(Node* q, Node* post, Node* op) {
    if (!ir::is_module_call(op) || is_configured_float(op)) return false;
    ir::ModuleCall& call = ir::call_of(model_, op);
    ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr || !weighted->weight_qparams ||
        weighted->weight_qparams->dtype != c10::ScalarType::QInt8 ||
        !std::ranges::all_of(op->inputs(), is_dequantize))
      return false;
    auto kind = kernels::layer_kind(model_, op);
    if (!kind) return false;
    if (post != nullptr) {
      // FX drops this ReLU (L-03); the kernel with ReLU is the one that is meant.
      if (kind->post_op != PostOp::None || post_op_of(post) != PostOp::ReLU) return false;
      kind->post_op = PostOp::ReLU;
    }
    const kernels::WeightedKernel* row = kernels::weighted_kernel(kind->op, kind->post_op);
    if (row == nullptr) return false;
    Value* input = op->input(0)->node()->input(0);
    if (!can_run(op, *weighted, *row, input)) return round_weight(*weighted);
    std::vector<Value*> inputs{operators::padded_input(*weighted, input, op)};
    if (op->inputs().size() == 2) {
      Value* addend = op->input(1)->node()->input(0);
      inputs.push_back(call.addend_may_broadcast
                           ? operators::expanded_addend(*weighted, inputs.front(), addend, q)
                           : addend);
    }
    inputs.insert(inputs.end(), {packed_for(op, *row, *weighted, call.path, q), q->input(1), q->input(2)});
    if (kind->post_op == PostOp::LeakyReLU)
      inputs.push_back(ir::constant_before(q, operators::negative_slope(call.members.back())));
    replace(q, op, row->kernel, inputs);
    return true;
  }

  /// The float operator that stays has its weight rounded once, not at every run.
  static bool round_weight(ir::Weighted& weighted) {
    weighted.weight = kernels::quantized_weight(weighted).dequantize();
    weighted.weight_qparams.reset();
    return false;
  }

  // L-06, L-07.
  bool lower_weighted_functional(Node* q, Node* post, Node* op) {
    const auto kind = ir::is_module_call(op) ? std::nullopt : kernels::layer_kind(model_, op);
    if (!kind || is_configured_float(op) || op->inputs().size() < 2) return false;
    const PostOp post_op = post == nullptr ? PostOp::None : post_op_of(post);
    const kernels::WeightedKernel* row = kernels::weighted_kernel(kind->op, post_op);
    if (row == nullptr || !is_dequantize(op->input(0)) || !is_dequantize(op->input(1))) return false;
    // A row without input_type_to_index has its weight quantized as what flows is.
    const auto weight_dtype = operators::functional_weight_dtype(op);
    if (weight_dtype && *weight_dtype != c10::ScalarType::QInt8) {
      return keep_reference(op, Reason::NoKernel,
                            fmt::format("no kernel takes a weight of {}", dtype_name(*weight_dtype)),
                            "name the weight by 'input_type_to_index' in the backend's row");
    }
    const auto weighted = operators::functional_parameters(model_, op);
    Value* input = op->input(0)->node()->input(0);
    if (weighted && !can_run(op, *weighted, *row, input)) return false;
    Value* packed = weighted ? packed_for(op, *row, *weighted, ir::scope_of(model_, op).path, q)
                             : kernels::packed_at_run(op, row->prepack, q);
    if (packed == nullptr) return false;
    std::vector<Value*> inputs{input, packed, q->input(1), q->input(2)};
    if (post_op == PostOp::LeakyReLU) {
      const auto slope = slope_of(post);
      if (!slope) return false;
      inputs.push_back(ir::constant_before(q, *slope));
    }
    replace(q, op, row->kernel, inputs);
    return true;
  }

  std::optional<double> slope_of(const Node* leaky_relu) const {
    if (ir::is_module_call(leaky_relu)) return operators::negative_slope(ir::call_of(model_, leaky_relu));
    const auto slope = operators::argument_constant(model_, leaky_relu, "negative_slope");
    return slope && slope->isScalar() ? std::optional(slope->toScalar().toDouble()) : std::nullopt;
  }

  // L-13, L-14.
  bool lower_binary(Node* q, Node* post, Node* op) {
    if (post != nullptr && post_op_of(post) != PostOp::ReLU) return false;
    const kernels::BinaryKernel* row = nullptr;
    for (const Symbol& target : ir::targets(model_, op)) {
      if (row == nullptr) row = kernels::binary_kernel(target.name);
    }
    if (row == nullptr || is_configured_float(op) || op->inputs().size() < 2) return false;
    const std::string_view kernel = post == nullptr ? row->kernel : row->relu_kernel;
    if (kernel.empty() || !has_unit_alpha(op)) return false;
    if (!is_dequantize(op->input(0))) return false;
    Value* left = op->input(0)->node()->input(0);
    Value* right = op->input(1);
    if (is_dequantize(right)) {
      if (keeps_reference_of_faulty(use_of(op, kernel, left))) return false;
      replace(q, op, kernel, {left, right->node()->input(0), q->input(1), q->input(2)});
      return true;
    }
    // With a number the result's range follows from the input's and the number; the kernel works it out.
    if (!ir::is_constant(right) || ir::holds_tensor(right)) return false;
    replace(q, op, kernel, {left, right});
    return true;
  }

  /// The kernels have no alpha: add(x, y, alpha=2) stays as it is (FX drops the alpha).
  static bool has_unit_alpha(const Node* op) {
    if (op->kind() != c10::aten::add || op->inputs().size() < 3) return true;
    return ir::whole_number_constant(op->input(2)) == 1;
  }

  /// Sizes are the same before dequantize.
  void read_shapes_of_quantized() {
    for (Node* node : ir::nodes_in_order(*model_.graph)) {
      const bool asks_shape = operators::has(operators::traits_of(node), operators::ReadsShapeOnly);
      if (!asks_shape || !is_dequantize(node->input(0))) continue;
      node->replaceInput(0, node->input(0)->node()->input(0));
      has_changed_ = true;
    }
  }

  // L-15, L-16.
  bool lower_unary(Node* q, Node* post, Node* op) {
    if (post != nullptr) return false;
    const kernels::UnaryKernel* row = nullptr;
    std::string_view name;
    for (const Symbol& target : ir::targets(model_, op)) {
      if (row != nullptr) break;
      row = kernels::unary_kernel(target);
      name = target.name;
    }
    const auto arguments = ir::arguments(op);
    if (row == nullptr || arguments.empty()) return false;
    const std::vector<Value*> reads =
        arguments[0].is_list ? arguments[0].elements : std::vector<Value*>{arguments[0].value};
    if (reads.empty() || !std::ranges::all_of(reads, is_dequantize)) return false;
    Value* input = reads.front()->node()->input(0);
    const KernelUse use = use_of(op, row->how == kernels::Unary::Kernel ? row->kernel : name, input);
    if (keeps_reference_of_faulty(use)) return false;
    switch (row->how) {
      case kernels::Unary::SameOp:
        run_on_quantized(q, op, reads, use);
        return true;
      case kernels::Unary::Identity:
        finish(q, op, input, "nothing");
        return true;
      case kernels::Unary::Kernel: {
        if (kernels::fault_of(use, Precaution::ContiguousInput) != nullptr) input = contiguous(input, q);
        const auto inputs =
            kernels::kernel_inputs(row->kernel, {.model = model_, .quantize = q, .op = op, .input = input});
        if (!inputs)
          return keep_reference(op, Reason::NoKernel,
                                fmt::format("{} does not take its arguments", row->kernel),
                                "give it no qconfig: the rounding before and after it saves no time");
        replace(q, op, kernels::kernel_of_call(row->kernel, model_, op), *inputs);
        return true;
      }
    }
    return false;
  }

  void run_on_quantized(Node* q, Node* op, const std::vector<Value*>& reads, const KernelUse& use) {
    for (Value* value : reads) ir::replace_operand(op, value, value->node()->input(0));
    if (op->kind() == c10::aten::view) op = ir::reshape_for_view(model_, op);
    Value* result = op->output();
    if (kernels::fault_of(use, Precaution::PlainLayout) != nullptr) result = in_plain_layout(q, op);
    finish(q, op, result, "the same operator on the quantized tensor");
  }

  Value* contiguous(Value* value, Node* before) {
    const ir::Rewriter in_front(model_, before);
    return in_front.op("aten::contiguous",
                       {value, in_front.constant(static_cast<int64_t>(at::MemoryFormat::Contiguous))});
  }

  /// An element-wise operator that reads its input in plain layout. Convolutions return channels-last
  /// tensors: where the rank is known, the operator reads a view whose dimensions are in the order of its
  /// memory.
  Value* in_plain_layout(Node* q, Node* op) {
    Value* input = ir::operands(op).front();
    const auto rank = kernels::known_rank(input);
    if (rank == 3) return op->output();
    if (!rank) {
      ir::replace_operand(op, input, contiguous(input, op));
      return op->output();
    }
    const auto permuted = [&](Value* value, const std::vector<int64_t>& order, Node* before) {
      const ir::Rewriter in_front(model_, before);
      return in_front.op("aten::permute", {value, in_front.constant(order)});
    };
    const bool is_volume = *rank == 5;
    using Order = std::vector<int64_t>;
    ir::replace_operand(op, input, permuted(input, is_volume ? Order{0, 2, 3, 4, 1} : Order{0, 2, 3, 1}, op));
    return permuted(op->output(), is_volume ? Order{0, 4, 1, 2, 3} : Order{0, 3, 1, 2}, q);
  }
};

bool may_overwrite(const Value* addend, const Node* kernel, const operators::ConstantExpressions& constants) {
  const auto is_new = [](const Node* node) {
    const std::string_view kind = node->kind().toQualString();
    return kind.starts_with("quantized::") || node->kind() == kQuantize;
  };
  const auto reads_only = [&](const Node* user) { return is_new(user) || is_dequantize_node(user); };
  const bool is_view = addend->node()->kind() == c10::aten::expand;
  const Value* memory = is_view ? addend->node()->input(0) : addend;
  if (!is_new(memory->node()) || memory->node()->owningBlock() != kernel->owningBlock()) return false;
  if (constants.value_of(memory)) return false;  // round_constants makes it an attribute
  return std::ranges::all_of(memory->uses(), [&](const torch::jit::Use& use) {
    if (use.user == kernel) return use.offset == 1;
    if (is_view && use.user == addend->node()) return true;
    return use.user->owningBlock() == kernel->owningBlock() && use.user->isBefore(kernel) &&
           (reads_only(use.user) ||
            operators::has(operators::traits_of(use.user), operators::ReadsShapeOnly));
  });
}

/// The same tensor, of which LibTorch knows now that it is written into.
Value* marked_as_written(const ir::Rewriter& in_front, Value* tensor) {
  Value* dimension = in_front.constant(0);
  return in_front.op("aten::transpose_", {tensor, dimension, dimension});
}

/// Kernels that write into their addend get a copy of it, unless it is new and nobody reads it later. Their
/// schema does not tell that they write: LibTorch, which computes equal expressions once when it optimizes a
/// graph, would give others the memory that they overwrite.
void give_addends_of_their_own(Model& model, const PassContext& context) {
  std::vector<Node*> writing = ir::nodes_in_order(*model.graph);
  std::erase_if(writing, [&](const Node* node) {
    const KernelUse use{
        .target = context.target, .model = model, .op = node, .kernel = node->kind().toQualString()};
    return kernels::fault_of(use, Precaution::AddendOfItsOwn) == nullptr;
  });
  if (writing.empty()) return;
  const operators::ConstantExpressions constants(model);
  for (Node* node : writing) {
    const ir::Rewriter in_front(model, node);
    Value* addend = node->input(1);
    if (!may_overwrite(addend, node, constants))
      addend = in_front.op("aten::clone", {addend, in_front.constant(c10::IValue())});
    node->replaceInput(1, marked_as_written(in_front, addend));
  }
}

}  // namespace

bool lower_static(Model& model, const PassContext& context) {
  const bool has_changed = lower_with_refusals<StaticLowering>(model, context);
  give_addends_of_their_own(model, context);
  return has_changed;
}

}  // namespace tsq::passes
