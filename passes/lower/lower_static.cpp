// dequantize – operator – quantize → one kernel of the engine
// (torch/ao/quantization/fx/_lower_to_native_backend.py).
//   quantize(conv(dequantize(x)))   →   quantized::conv2d(x, packed, scale, zero_point)

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/kernel_arguments.h"
#include "backends/kernels/operands.h"
#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/quantize_operators.h"
#include "operators/arguments.h"
#include "operators/constant_expressions.h"
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
bool is_dequantize(const Value* value) { return kernels::quantized_before(value) != nullptr; }

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
      if (kernels::post_op_of(model_, producer) == PostOp::None) continue;
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
    kernels::note_dtype(model_, result->node());
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
  bool keep_reference(const Node* op, const Refusal& refusal) {
    keep_between_roundings(model_, op, refusal.reason, refusal.why, refusal.remedy);
    has_changed_ = true;
    return false;
  }

  // L-02, L-08, and transposed convolutions of L-15.
  bool lower_weighted_module(Node* q, Node* post, Node* op) {
    if (!ir::is_module_call(op) || is_configured_float(op)) return false;
    ir::ModuleCall& call = ir::call_of(model_, op);
    ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr || !weighted->weight_qparams || !std::ranges::all_of(op->inputs(), is_dequantize))
      return false;
    const auto offer = kernels::weighted_offer(context_.target, model_, op, post);
    if (!offer) return false;
    if (const auto refusal = refusal_of(offer, weighted)) {
      if (refusal->reason == Reason::NoKernel) return false;
      keep_reference(op, *refusal);
      return round_weight(*weighted);
    }
    Value* input = op->input(0)->node()->input(0);
    std::vector<Value*> inputs{operators::padded_input(*weighted, input, op)};
    if (op->inputs().size() == 2) {
      Value* addend = op->input(1)->node()->input(0);
      inputs.push_back(call.addend_may_broadcast
                           ? operators::expanded_addend(*weighted, inputs.front(), addend, q)
                           : addend);
    }
    inputs.insert(inputs.end(),
                  {packed_for(op, *offer.row, *weighted, call.path, q), q->input(1), q->input(2)});
    if (offer.row->post_op == PostOp::LeakyReLU)
      inputs.push_back(ir::constant_before(q, operators::negative_slope(call.members.back())));
    replace(q, op, offer.row->kernel, inputs);
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
    if (ir::is_module_call(op) || is_configured_float(op) || op->inputs().size() < 2 ||
        !is_dequantize(op->input(0)) || !is_dequantize(op->input(1)))
      return false;
    const auto offer = kernels::weighted_offer(context_.target, model_, op, post);
    if (!offer) return false;
    const auto weighted = operators::functional_parameters(model_, op);
    if (const auto refusal = refusal_of(offer, weighted ? &*weighted : nullptr))
      return keep_reference(op, *refusal);
    Value* packed = weighted ? packed_for(op, *offer.row, *weighted, ir::scope_of(model_, op).path, q)
                             : kernels::packed_at_run(op, offer.row->prepack, q);
    std::vector<Value*> inputs{op->input(0)->node()->input(0), packed, q->input(1), q->input(2)};
    if (offer.row->post_op == PostOp::LeakyReLU)
      inputs.push_back(ir::constant_before(q, *kernels::slope_after(model_, post)));
    replace(q, op, offer.row->kernel, inputs);
    return true;
  }

  // L-13, L-14.
  bool lower_binary(Node* q, Node* post, Node* op) {
    if (op->inputs().size() < 2 || is_configured_float(op) || !is_dequantize(op->input(0))) return false;
    const auto offer = kernels::binary_offer(context_.target, model_, op, post);
    Value* right = op->input(1);
    const bool is_with_number = ir::is_constant(right) && !ir::holds_tensor(right);
    if (!offer || (!is_with_number && !is_dequantize(right))) return false;
    if (offer.refusal) return keep_reference(op, *offer.refusal);
    Value* left = op->input(0)->node()->input(0);
    if (is_with_number) {
      replace(q, op, offer.kernel, {left, right});
    } else {
      replace(q, op, offer.kernel, {left, right->node()->input(0), q->input(1), q->input(2)});
    }
    return true;
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
    const auto arguments = post == nullptr ? ir::arguments(op) : std::vector<ir::Argument>{};
    if (arguments.empty()) return false;
    const std::vector<Value*> reads =
        arguments[0].is_list ? arguments[0].elements : std::vector<Value*>{arguments[0].value};
    if (reads.empty() || !std::ranges::all_of(reads, is_dequantize)) return false;
    const auto offer = kernels::unary_offer(context_.target, model_, op);
    if (!offer) return false;
    if (offer.refusal) return keep_reference(op, *offer.refusal);
    Value* input = reads.front()->node()->input(0);
    const KernelUse use = use_of(op, offer.name, kernels::Operand(model_, input));
    switch (offer.row->how) {
      case kernels::Unary::SameOp:
        run_on_quantized(q, op, reads, use);
        return true;
      case kernels::Unary::Identity:
        finish(q, op, input, "nothing");
        return true;
      case kernels::Unary::Kernel:
        if (kernels::fault_of(use, Precaution::ContiguousInput) != nullptr) input = contiguous(input, q);
        replace(q, op, kernels::kernel_of_call(offer.row->kernel, model_, op),
                kernels::kernel_inputs(offer.row->kernel,
                                       {.model = model_, .quantize = q, .op = op, .input = input}));
        return true;
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
    const auto rank = kernels::Operand(model_, input).rank();
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
