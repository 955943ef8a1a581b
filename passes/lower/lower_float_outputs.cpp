// Linear layers and convolutions with a quantized input and a float output → kernels that multiply in int8
// and return float.
//   linear(dequantize(quantize(x, scale, zero_point)))
//     →   quantized::linear_with_input_q_dq_qweight_dq_output_fp32(x, scale, zero_point, packed)
//   linear(dequantize(x)), where the kernel finds the range of its input
//     →   quantized::linear_dynamic(pad(pad(dequantize(x), lowest), highest), packed with two columns of
//     zeros)
//   conv2d(dequantize(x))
//     →   onednn::qconv2d_pointwise(int_repr(x), x's scale and zero point, packed, ...)
//   quantize(conv2d(dequantize(x))), where its other kernel is slow
//     →   _make_per_tensor_quantized_tensor(onednn::qconv2d_pointwise(int_repr(x), ...))
//   quantize(hardswish(conv2d(dequantize(x))))
//     →   _make_per_tensor_quantized_tensor(onednn::qconv2d_pointwise(int_repr(x), ..., "hardswish"))
// After the pass `lower_static`, which takes what has a quantized output.

#include <array>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "backends/kernels/float_output_kernels.h"
#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/quantize_operators.h"
#include "operators/clamp_bounds.h"
#include "operators/functional_weighted.h"
#include "operators/images/convolution_inputs.h"
#include "operators/images/convolution_padding.h"
#include "operators/traits.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/lower/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

using ir::kDequantize;
using ir::kQuantize;
using ir::Placement;
using ir::Reason;
using kernels::FloatOutputKernel;
using kernels::Form;
using kernels::PostOp;

/// What LibTorch's kernels call the scale and the zero point of what they return.
constexpr std::array<std::pair<const char*, const char*>, 3> kOutputQParams{
    std::pair{"output_scale", "output_zero_point"}, std::pair{"Y_scale_i", "Y_zero_point_i"},
    std::pair{"scale", "zero_point"}};
constexpr const char* kMakeQuantized = "aten::_make_per_tensor_quantized_tensor";

class FloatOutputLowering : public KernelLowering {
 public:
  using KernelLowering::KernelLowering;

  void run() {
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (node->inputs().empty() || !reads_quantized(node) || ir::stays_float(model_, node)) continue;
      if (is_quantized_after(node) && ir::placement_of(model_, node) != Placement::Int8FloatOut) continue;
      if (ir::is_module_call(node)) {
        lower_module(node);
      } else {
        lower_functional(node);
      }
    }
    if (gives_channels_last_) read_any_layout();
  }

 private:
  /// Whether an operator reads a tensor of quantized values.
  static bool reads_quantized(const Node* node) { return node->input(0)->node()->kind() == kDequantize; }

  /// The output is quantized: another kernel's place.
  static bool is_quantized_after(const Node* node) {
    if (node->outputs().size() != 1) return true;
    const auto& uses = node->output()->uses();
    return uses.size() == 1 && uses.front().user->kind() == kQuantize;
  }

  void lower_module(Node* op) {
    const ir::ModuleCall& call = ir::call_of(model_, op);
    const ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr || !weighted->weight_qparams) return;
    lower_layer(op, *weighted, call.path);
  }

  void lower_functional(Node* op) {
    const ir::NodeRecord* record = ir::record_of(model_, op);
    if (record == nullptr || !record->lookup.qconfig || !is_functional_layer(model_, op) ||
        op->input(1)->node()->kind() != kDequantize)
      return;
    const auto weighted = operators::functional_parameters(model_, op);
    if (weighted) lower_layer(op, *weighted, ir::scope_of(model_, op).path);
  }

  void lower_layer(Node* op, const ir::Weighted& weighted, const std::string& path) {
    const auto offer = kernels::float_output_offer(context_.target, model_, op);
    if (!offer) return;
    if (const auto refusal = refusal_of(offer, &weighted)) {
      if (refusal->reason == Reason::KernelFault)
        keep_between_roundings(model_, op, refusal->reason, refusal->why, refusal->remedy);
      return;
    }
    const FloatOutputKernel* row = offer.row;
    if (row->reads == Form::Bytes) {
      lower_to_pointwise(*row, op, weighted, path);
    } else {
      lower_to_linear(*row, op, weighted, path);
    }
    set_kernel(model_, op, row->kernel, Placement::Int8FloatOut);
    has_changed_ = true;
  }

  void lower_to_linear(const FloatOutputKernel& row, Node* op, const ir::Weighted& weighted,
                       const std::string& path) {
    const bool finds_range = row.reads == Form::FloatRange;
    std::vector<Value*> inputs = float_input(op);
    int64_t zero_columns = 0;
    if (finds_range) {
      // Columns of zeros would make another weight of one that other calls multiply with as well.
      Value* with_ends = packing_.is_shared(weighted) ? inputs[0] : input_with_ends(inputs, op);
      zero_columns = with_ends == inputs[0] ? 0 : kEnds;
      inputs = {with_ends == inputs[0] ? clamped_input(with_ends, op) : with_ends};
    }
    inputs.push_back(packed_for(op, row, weighted, path, op, zero_columns));
    if (finds_range) inputs.push_back(ir::constant_before(op, /*reduce_range*/ false));
    Value* result = insert_kernel(model_, op, row.kernel, inputs, op);
    ir::take_record(result->node(), op);
    op->output()->replaceAllUsesWith(result);
  }

  /// What an int8 kernel returns, dequantized, with both ends of its range in two more columns: a kernel that
  /// finds the range of its input finds that one and rounds nothing. The input itself where no kernel returns
  /// it, or its range is not known before the model runs.
  Value* input_with_ends(const std::vector<Value*>& input, Node* op) {
    constexpr int64_t kLastCode = 255;
    const auto scale = ir::number_constant(input[1]);
    const auto zero_point = ir::whole_number_constant(input[2]);
    if (input[0]->node()->kind() != kDequantize || !scale || !zero_point) return input[0];
    // As dequantize computes them.
    const auto end = [&](int64_t code) {
      return static_cast<double>(static_cast<float>(*scale) * static_cast<float>(code - *zero_point));
    };
    Value*& padded = with_ends_[input[0]];
    if (padded != nullptr && padded->node()->owningBlock() == op->owningBlock()) return padded;
    Value* column = ir::constant_before(op, std::vector<int64_t>{0, 1});
    padded = input[0];
    for (const double value : {end(0), end(kLastCode)}) {
      padded =
          ir::insert_before(op, "aten::constant_pad_nd", {padded, column, ir::constant_before(op, value)});
    }
    return padded;
  }
  static constexpr int64_t kEnds = 2;

  /// The float tensor that a quantize node reads, clamped where the rounding did that as well.
  Value* clamped_input(Value* input, const Node* op) {
    Node* quantize = op->input(0)->node()->input(0)->node();
    const bool is_rounded_here = quantize->kind() == kQuantize && quantize->input(0) == input;
    const auto bounds = is_rounded_here ? operators::cut_off(quantize) : std::nullopt;
    if (!bounds) return input;
    Value*& clamped = clamped_[quantize];
    const auto bound = [&](double value) {
      return ir::constant_before(quantize, std::isfinite(value) ? c10::IValue(value) : c10::IValue());
    };
    if (clamped == nullptr) {
      clamped =
          ir::insert_before(quantize, "aten::clamp", {input, bound(bounds->lowest), bound(bounds->highest)});
    }
    return clamped;
  }

  /// What a pointwise kernel does besides the convolution: `last` is the node whose output it computes.
  struct PostOps {
    std::string_view activation;
    Node* last;
    Node* quantize;  ///< null: it returns float
  };

  PostOps post_ops_of(const FloatOutputKernel& row, Node* op) const {
    const PostOps none{row.post_op == PostOp::ReLU ? "relu" : "none", op, nullptr};
    if (Node* quantize = quantize_after(op)) return {none.activation, quantize, quantize};
    Node* activation = only_user(op);
    const std::string_view name =
        activation == nullptr ? std::string_view() : kernels::pointwise_activation(row, model_, activation);
    if (name.empty()) return none;
    Node* quantize = quantize_after(activation);
    return {name, quantize != nullptr ? quantize : activation, quantize};
  }

  /// The quantize node to quint8 that alone reads what an operator returns; null where there is none.
  static Node* quantize_after(const Node* op) {
    Node* user = only_user(op);
    const bool rounds = user != nullptr && user->kind() == kQuantize &&
                        ir::dtype_constant(user->input(3)) == c10::ScalarType::QUInt8;
    return rounds ? user : nullptr;
  }

  void lower_to_pointwise(const FloatOutputKernel& row, Node* op, const ir::Weighted& weighted,
                          const std::string& path) {
    const PostOps post_ops = post_ops_of(row, op);
    Node* before = post_ops.last;
    Value* result =
        insert_kernel(model_, op, row.kernel, pointwise_inputs(row, op, weighted, path, post_ops), before);
    if (Node* quantize = post_ops.quantize) {
      result = ir::insert_before(before, kMakeQuantized, {result, quantize->input(1), quantize->input(2)});
    }
    gives_channels_last_ = true;
    before->output()->replaceAllUsesWith(result);
  }

  std::vector<Value*> pointwise_inputs(const FloatOutputKernel& row, Node* op, const ir::Weighted& weighted,
                                       const std::string& path, const PostOps& post_ops) {
    Node* before = post_ops.last;
    const auto constant = [&](const c10::IValue& value) { return ir::constant_before(before, value); };
    Value* input = op->input(0)->node()->input(0);
    const auto [scale, zero_point] = qparams_of(input, before);
    Value* packed =
        packing_.packed(weighted, {.op = op,
                                   .kernel = row.kernel,
                                   .prepack = row.prepack,
                                   .path = path,
                                   .before = before,
                                   .input_has_zero_point = ir::whole_number_constant(zero_point) != 0});
    Value* held = packed->node()->input(0);
    const auto read = [&](const char* name, const c10::TypePtr& type) {
      return ir::read_attribute(before, held, name, type);
    };
    Node* quantize = post_ops.quantize;
    const auto dtype = quantize != nullptr ? c10::ScalarType::Byte : c10::ScalarType::Float;
    return {bytes_of(operators::padded_input(weighted, input, before), before),
            scale,
            zero_point,
            packed,
            read("scale", c10::TensorType::get()),
            read("zero_point", c10::TensorType::get()),
            read("bias", c10::OptionalType::ofTensor()),
            constant(weighted.stride),
            constant(operators::kernel_padding(weighted)),
            constant(weighted.dilation),
            constant(weighted.groups),
            quantize != nullptr ? quantize->input(1) : constant(1.0),
            quantize != nullptr ? quantize->input(2) : constant(int64_t{0}),
            constant(static_cast<int64_t>(dtype)),
            constant(std::string(post_ops.activation)),
            ir::list_before(before, c10::OptionalType::create(c10::NumberType::get()), {}),
            constant(std::string())};
  }

  /// For float readers of pointwise kernels, which return channels-last tensors as all convolutions in int8.
  void read_any_layout() {
    for (Node* view : ir::LiveNodes(*model_.graph)) {
      if (view->kind() == c10::aten::view) ir::reshape_for_view(model_, view);
    }
  }

  /// The codes of a quantized tensor.
  Value* bytes_of(Value* quantized, Node* before) {
    if (quantized->node()->kind() == c10::Symbol::fromQualString(kMakeQuantized))
      return quantized->node()->input(0);
    Value*& bytes = bytes_[quantized];
    if (bytes == nullptr || bytes->node()->owningBlock() != before->owningBlock())
      bytes = ir::insert_before(before, "aten::int_repr", {quantized});
    return bytes;
  }

  /// Scale and zero point of a quantized tensor.
  std::pair<Value*, Value*> qparams_of(Value* quantized, Node* before) {
    const Node* made_by = quantized->node();
    const bool has_qparams =
        made_by->kind() == kQuantize || made_by->kind() == c10::Symbol::fromQualString(kMakeQuantized);
    if (has_qparams) return {made_by->input(1), made_by->input(2)};
    if (const torch::jit::FunctionSchema* schema = made_by->maybeSchema()) {
      for (const auto& [scale_name, zero_point_name] : kOutputQParams) {
        const auto scale = schema->argumentIndexWithName(scale_name);
        const auto zero_point = schema->argumentIndexWithName(zero_point_name);
        if (!scale || !zero_point) continue;
        // A concatenation need not be given any.
        if (made_by->input(static_cast<std::size_t>(*scale))->type()->kind() != c10::TypeKind::FloatType)
          break;
        return {made_by->input(static_cast<std::size_t>(*scale)),
                made_by->input(static_cast<std::size_t>(*zero_point))};
      }
    }
    if (operators::keeps_qparams(operators::traits_of(made_by)))
      return qparams_of(ir::operands(made_by).front(), before);
    return {ir::insert_before(before, "aten::q_scale", {quantized}, c10::FloatType::get()),
            ir::insert_before(before, "aten::q_zero_point", {quantized}, c10::IntType::get())};
  }

  /// The float tensor that the kernel quantizes once more, its scale and its zero point.
  std::vector<Value*> float_input(Node* op) {
    Value* quantized = op->input(0)->node()->input(0);
    const Node* made_by = quantized->node();
    const auto [scale, zero_point] = qparams_of(quantized, op);
    return {made_by->kind() == kQuantize ? made_by->input(0) : op->input(0), scale, zero_point};
  }

  std::unordered_map<const Value*, Value*> bytes_;      ///< of a quantized tensor, where last read
  std::unordered_map<const Node*, Value*> clamped_;     ///< what a quantize node reads
  std::unordered_map<const Value*, Value*> with_ends_;  ///< of a dequantized tensor, where last read
  bool gives_channels_last_{false};
};

}  // namespace

bool lower_float_outputs(Model& model, const PassContext& context) {
  return lower_with_refusals<FloatOutputLowering>(model, context);
}

}  // namespace tsq::passes
