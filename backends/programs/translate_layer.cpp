#include <ATen/ATen.h>

#include <algorithm>

#include "backends/kernels/layer_kind.h"
#include "backends/kernels/packed.h"
#include "backends/kernels/weight_codes.h"
#include "backends/programs/translations.h"
#include "backends/programs/weight_forms.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/quantize_operators.h"
#include "operators/arguments.h"
#include "operators/functional_weighted.h"

namespace tsq::programs {
namespace {

using runtime::Kind;
using runtime::Operation;

/// In codes where the layer reads some and the program has a form for them; else in float, rounded as the
/// reference has it. The scales of a transposed convolution in groups are of the channels of each group.
void set_weight(ProgramBuilder& program, Operation& operation, const ir::Weighted& weighted,
                bool reads_codes) {
  if (weighted.bias.defined()) operation.bias = program.add_constant(weighted.bias.detach().to(at::kFloat));
  if (!weighted.weight_qparams) {
    operation.weight = program.add_constant(weighted.weight.detach().to(at::kFloat));
    return;
  }
  const bool transposed = operation.kind == Kind::TransposedConvolution;
  const bool has_codes = kernels::has_symmetric_codes(weighted, transposed ? 1 : 0) &&
                         !(transposed && weighted.groups > 1 && weighted.weight_qparams->scale.numel() > 1);
  WeightForms& forms = forms_of(program.cache(), weighted, transposed);
  if (reads_codes && has_codes) {
    fill_codes(forms, weighted);
    operation.weight = program.add_constant(forms.codes);
    operation.weight_scales = program.add_constant(forms.scales);
    operation.bounded = forms.is_bounded;
  } else {
    if (!forms.in_float.defined()) forms.in_float = kernels::quantized_weight(weighted).dequantize();
    operation.weight = program.add_constant(forms.in_float);
  }
}

/// Padding before and after each dimension; empty where it is not zeros or not known.
bool set_padding(Operation& operation, const ir::Weighted& weighted) {
  const auto dimensions = weighted.stride.size();
  if (weighted.padding_name == "same") {
    for (std::size_t d = 0; d < dimensions; ++d) {
      const std::int64_t total =
          weighted.dilation[d] * (weighted.weight.size(static_cast<std::int64_t>(d) + 2) - 1);
      operation.padding_begin.push_back(total / 2);
      operation.padding_end.push_back(total - total / 2);
    }
    return true;
  }
  if (weighted.padding_name == "valid") return true;
  if (weighted.padding_mode != "zeros" && weighted.padding_mode != "constant") return false;
  operation.padding_begin = weighted.padding;
  operation.padding_end = weighted.padding;
  if (operation.kind == Kind::TransposedConvolution) {
    for (std::size_t d = 0; d < dimensions; ++d) operation.padding_end[d] -= weighted.output_padding[d];
  }
  return true;
}

std::optional<int> write_layer(ProgramBuilder& program, std::string_view type, const ir::Weighted& weighted,
                               int input) {
  const bool is_linear = type.find("Linear") != std::string_view::npos;
  const bool transposed = type.find("ConvTranspose") != std::string_view::npos;
  Operation operation{.kind = is_linear    ? Kind::Linear
                              : transposed ? Kind::TransposedConvolution
                                           : Kind::Convolution,
                      .inputs = {input}};
  const bool rounds_to_floats = weighted.weight_qparams && !c10::isQIntType(weighted.weight_qparams->dtype);
  const bool has_groups = weighted.group_size > 0;  // of columns: a kernel of LibTorch's reads these
  if (weighted.weight.scalar_type() != at::kFloat || rounds_to_floats || has_groups) return std::nullopt;
  set_weight(program, operation, weighted, runtime::is_int8(program.dtype_of(input)));
  if (!is_linear) {
    operation.stride = weighted.stride;
    operation.dilation = weighted.dilation;
    operation.groups = weighted.groups;
    if (!set_padding(operation, weighted)) return std::nullopt;
  }
  return program.write(std::move(operation));
}

/// What a fused module does to the result of its root.
std::optional<int> write_post_op(ProgramBuilder& program, const ir::Node* node, kernels::PostOp post_op,
                                 int result) {
  using kernels::PostOp;
  using runtime::PostOpKind;
  if (post_op == PostOp::Add || post_op == PostOp::AddReLU) {
    const auto addend = node->inputs().size() == 2 ? program.tensor(node->input(1)) : std::nullopt;
    if (!addend) return std::nullopt;
    result = program.write({.kind = Kind::Add, .inputs = {result, *addend}});
  }
  const auto activated = [&](runtime::PostOp function) {
    return program.write({.kind = Kind::Activation, .inputs = {result}, .post_ops = {function}});
  };
  switch (post_op) {
    case PostOp::None:
    case PostOp::Add:
      return result;
    case PostOp::ReLU:
    case PostOp::AddReLU:
      return activated({.kind = PostOpKind::Relu});
    case PostOp::Tanh:
      return activated({.kind = PostOpKind::Tanh});
    case PostOp::LeakyReLU:
      return activated(
          {.kind = PostOpKind::LeakyRelu,
           .alpha = operators::negative_slope(ir::call_of(program.model(), node).members.back())});
  }
  return std::nullopt;
}

/// The module of a layer, fused or not.
bool translate_layer_module(ProgramBuilder& program, const ir::Node* node) {
  const ir::ModuleCall& call = ir::call_of(program.model(), node);
  const ir::Weighted* weighted = ir::weighted_of(call);
  const auto kind = kernels::layer_kind(program.model(), node);
  if (weighted == nullptr || !kind || call.standalone) return false;
  const auto input = program.tensor(node->input(0));
  auto result = input ? write_layer(program, kind->op, *weighted, *input) : std::nullopt;
  if (result) result = write_post_op(program, node, kind->post_op, *result);
  if (result) program.define(node->output(), *result);
  return result.has_value();
}

bool translate_function(ProgramBuilder& program, const ir::Node* node) {
  std::string_view module;
  for (const Symbol& target : ir::targets(program.model(), node)) {
    if (module.empty()) module = operators::module_of_functional(target.name);
  }
  if (module.empty() || node->inputs().size() < 2) return false;
  auto weighted = operators::functional_parameters(program.model(), node);
  if (!weighted) weighted = operators::float_functional_parameters(program.model(), node);
  const auto input = weighted ? program.tensor(node->input(0)) : std::nullopt;
  const auto result = input ? write_layer(program, module, *weighted, *input) : std::nullopt;
  if (result) program.define(node->output(), *result);
  return result.has_value();
}

}  // namespace

bool translate_layer(ProgramBuilder& program, const ir::Node* node) {
  return ir::is_module_call(node) ? translate_layer_module(program, node) : translate_function(program, node);
}

}  // namespace tsq::programs
