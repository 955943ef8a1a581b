// Operators become kernels of libraries, by the rows that the program registered.
//   quantize(linear(dequantize(x)))   →   my::linear(x, packed, scale, zero_point)

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <map>

#include "backends/kernels/engine_packing.h"
#include "backends/kernels/first_row.h"
#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/quantize_operators.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/lower/passes.h"

namespace tsq::passes {
namespace {

using torch::jit::Module;

c10::FunctionSchema schema_of(const std::string& name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").schema();
}

/// A weight as packing operators want it.
struct ToPack {
  at::Tensor quantized{};
  at::Tensor bias{};
  ir::Weighted layer{};  ///< strides and so on; the defaults for a reference module of the user's
};

c10::IValue layer_argument(const LoweringRow& row, const std::string& name, const ir::Weighted& layer) {
  if (name == "stride") return layer.stride;
  if (name == "padding") return layer.padding;
  if (name == "output_padding") return layer.output_padding;
  if (name == "dilation") return layer.dilation;
  if (name == "groups") return layer.groups;
  throw Error(ErrorCode::BadConfig,
              fmt::format("the packing operator {} asks for an argument '{}'", row.prepack, name),
              "take weight and bias, then any of stride, padding, output_padding, dilation and groups");
}

/// The weight in a reference module of the user's: `weight` with its `weight_scale` and so on.
std::optional<ToPack> weight_in(const Module& module) {
  for (const char* name : {"weight", "weight_scale", "weight_zero_point", "weight_axis", "weight_dtype"}) {
    if (!module.hasattr(name)) return std::nullopt;
  }
  const at::Tensor scale = module.attr("weight_scale").toTensor();
  const auto axis = module.attr("weight_axis").toInt();
  const bool per_channel = axis >= 0 && scale.dim() > 0;
  ir::Weighted layer;
  layer.weight = module.attr("weight").toTensor().detach();
  layer.weight_qparams = QParams{.scale = scale,
                                 .zero_point = module.attr("weight_zero_point").toTensor(),
                                 .dtype = static_cast<c10::ScalarType>(module.attr("weight_dtype").toInt()),
                                 .qscheme = per_channel ? c10::kPerChannelAffine : c10::kPerTensorAffine,
                                 .axis = axis};
  ToPack result{.quantized = kernels::quantized_weight(layer), .bias = {}, .layer = {}};
  if (module.hasattr("bias") && module.attr("bias").isTensor()) result.bias = module.attr("bias").toTensor();
  return result;
}

class RegisteredLowering {
 public:
  RegisteredLowering(Model& model, std::span<const LoweringRow> rows) : model_(model), rows_(rows) {}

  bool run() {
    bool has_changed = false;
    for (Node* quantize : ir::nodes_in_order(*model_.graph)) {
      if (quantize->kind() != ir::kQuantize) continue;
      Node* op = quantize->input(0)->node();
      const LoweringRow* row = may_have_kernel(model_, op) ? row_of(op) : nullptr;
      if (row != nullptr && lower(quantize, op, *row)) has_changed = true;
    }
    ir::eliminate_dead_code(*model_.graph);
    return has_changed;
  }

 private:
  const LoweringRow* row_of(const Node* op) const {
    const std::vector<Symbol> targets =
        ir::is_module_call(op) ? std::vector{ir::call_of(model_, op).type} : ir::targets(model_, op);
    return kernels::first_row(
        rows_, [&](const LoweringRow& row) { return std::ranges::find(targets, row.op) != targets.end(); });
  }

  /// False where the operator is not one between quantized tensors, or its weight is not known.
  bool lower(Node* quantize, Node* op, const LoweringRow& row) {
    std::vector<Value*> inputs;
    for (Value* input : op->inputs()) {
      const bool is_quantized = input->node()->kind() == ir::kDequantize;
      if (!is_quantized && ir::holds_tensor(input)) return false;
      inputs.push_back(is_quantized ? input->node()->input(0) : input);
    }
    if (!row.prepack.empty()) {
      Value* packed = packed_weight(op, row, quantize);
      if (packed == nullptr) return false;
      inputs.push_back(packed);
    }
    inputs.insert(inputs.end(), {quantize->input(1), quantize->input(2)});
    const std::size_t wanted = schema_of(row.kernel).arguments().size();
    if (wanted != inputs.size()) {
      throw Error(ErrorCode::BadConfig,
                  fmt::format("the kernel {} takes {} arguments, and {} has {} with scale and zero point",
                              row.kernel, wanted, row.op.name, inputs.size()),
                  "see LoweringRow::kernel for the arguments");
    }
    replace_by_kernel(model_, op, row.kernel, inputs, quantize);
    return true;
  }

  std::optional<ToPack> weight_of(const Node* op) const {
    if (!ir::is_module_call(op)) return std::nullopt;
    const ir::ModuleCall& call = ir::call_of(model_, op);
    if (const ir::Weighted* weighted = ir::weighted_of(call)) {
      if (!weighted->weight_qparams) return std::nullopt;
      return ToPack{
          .quantized = kernels::quantized_weight(*weighted), .bias = weighted->bias, .layer = *weighted};
    }
    const ir::ModuleCall& root = call.members.empty() ? call : call.members.front();
    return root.module ? weight_in(*root.module) : std::nullopt;
  }

  Value* packed_weight(const Node* op, const LoweringRow& row, Node* before) {
    const auto weight = weight_of(op);
    if (!weight) return nullptr;
    torch::jit::Stack stack{weight->quantized,
                            weight->bias.defined() ? c10::IValue(weight->bias.detach()) : c10::IValue()};
    const c10::FunctionSchema schema = schema_of(row.prepack);
    for (std::size_t i = 2; i < schema.arguments().size(); ++i)
      stack.push_back(layer_argument(row, schema.arguments()[i].name(), weight->layer));
    const c10::IValue packed = kernels::call_operator(row.prepack, std::move(stack)).back();
    const torch::jit::WithInsertPoint guard(before);
    return ir::insert_attribute(model_, ir::call_of(model_, op).path + "_packed_params", packed,
                                packed.type());
  }

  Model& model_;
  std::span<const LoweringRow> rows_;
};

}  // namespace

bool lower_registered(Model& model, const PassContext& context) {
  if (context.lowering_rows.empty()) return false;
  const kernels::EnginePacking engine(context.target);  // rows may pack by LibTorch's operators
  return RegisteredLowering(model, context.lowering_rows).run();
}

}  // namespace tsq::passes
