#include "backends/kernels/float_output_kernels.h"

#include <algorithm>
#include <array>

#include "backends/kernels/costs.h"
#include "backends/kernels/first_row.h"
#include "backends/kernels/kernel_limits.h"

namespace tsq::kernels {
namespace {

constexpr std::string_view kLinear = "torch.nn.Linear";
constexpr std::string_view kPrepack = "quantized::linear_prepack";
constexpr std::string_view kStatic = "quantized::linear_with_input_q_dq_qweight_dq_output_fp32";
constexpr std::string_view kStaticReLU = "quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32";
constexpr std::string_view kDynamicOperators = "quantized::linear_dynamic";
constexpr std::string_view kDynamicReLU = "quantized::linear_relu_dynamic";
constexpr std::string_view kConv1d = "torch.nn.Conv1d";
constexpr std::string_view kConv2d = "torch.nn.Conv2d";
constexpr std::string_view kConvPrepack = "onednn::qconv_prepack";
constexpr std::string_view kPointwise1d = "onednn::qconv1d_pointwise";
constexpr std::string_view kPointwise2d = "onednn::qconv2d_pointwise";

constexpr std::array kFloatOutputKernels{
    FloatOutputKernel{"x86", kLinear, PostOp::None, kPrepack, kStatic, Form::Float},
    FloatOutputKernel{"x86", kLinear, PostOp::ReLU, kPrepack, kStaticReLU, Form::Float},
    FloatOutputKernel{"fbgemm", kLinear, PostOp::None, kPrepack, kStatic, Form::Float},
    FloatOutputKernel{"fbgemm", kLinear, PostOp::ReLU, kPrepack, kStaticReLU, Form::Float},
    FloatOutputKernel{"onednn", kLinear, PostOp::None, kPrepack, kDynamicOperators, Form::FloatRange},
    FloatOutputKernel{"onednn", kLinear, PostOp::ReLU, kPrepack, kDynamicReLU, Form::FloatRange},
    FloatOutputKernel{"qnnpack", kLinear, PostOp::None, kPrepack, kDynamicOperators, Form::FloatRange},
    FloatOutputKernel{"qnnpack", kLinear, PostOp::ReLU, kPrepack, kDynamicReLU, Form::FloatRange},
    FloatOutputKernel{"x86", kConv1d, PostOp::None, kConvPrepack, kPointwise1d, Form::Bytes},
    FloatOutputKernel{"x86", kConv1d, PostOp::ReLU, kConvPrepack, kPointwise1d, Form::Bytes},
    FloatOutputKernel{"x86", kConv2d, PostOp::None, kConvPrepack, kPointwise2d, Form::Bytes},
    FloatOutputKernel{"x86", kConv2d, PostOp::ReLU, kConvPrepack, kPointwise2d, Form::Bytes},
    FloatOutputKernel{"onednn", kConv1d, PostOp::None, kConvPrepack, kPointwise1d, Form::Bytes},
    FloatOutputKernel{"onednn", kConv1d, PostOp::ReLU, kConvPrepack, kPointwise1d, Form::Bytes},
    FloatOutputKernel{"onednn", kConv2d, PostOp::None, kConvPrepack, kPointwise2d, Form::Bytes},
    FloatOutputKernel{"onednn", kConv2d, PostOp::ReLU, kConvPrepack, kPointwise2d, Form::Bytes},
};

/// An activation after a layer with float output.
struct FloatActivation {
  std::string_view name;
  double EngineCosts::*saved;
  /// What kPointwise2d calls it, and the saving counts there alone; empty: no kernel does it with the layer.
  std::string_view post_op{};
};
constexpr std::array kFloatActivations{
    FloatActivation{"torch.nn.PReLU", &EngineCosts::saved_by_prelu},
    FloatActivation{"torch.nn.functional.prelu", &EngineCosts::saved_by_prelu},
    FloatActivation{"torch.prelu", &EngineCosts::saved_by_prelu},
    FloatActivation{"torch.nn.Hardswish", &EngineCosts::saved_by_hardswish, "hardswish"},
    FloatActivation{"torch.nn.functional.hardswish", &EngineCosts::saved_by_hardswish, "hardswish"},
    FloatActivation{"torch.nn.SiLU", &EngineCosts::saved_by_silu, "swish"},
    FloatActivation{"torch.nn.functional.silu", &EngineCosts::saved_by_silu, "swish"},
};

/// `saved`: nanoseconds for each value of the output.
bool pays(const EngineCosts& costs, double saved, const LayerWork& work) {
  const double rest = saved - costs.to_get_bytes * work.inputs_per_output;
  return work.outputs ? rest * *work.outputs >= costs.of_a_call : rest >= 0;
}

}  // namespace

const FloatOutputKernel* float_output_kernel(std::string_view engine, std::string_view op, PostOp post_op) {
  return first_row(kFloatOutputKernels, [&](const FloatOutputKernel& row) {
    return row.engine == engine && row.op == op && row.post_op == post_op;
  });
}

std::string_view pointwise_post_op(std::string_view activation, std::string_view kernel) {
  if (kernel != kPointwise2d) return {};
  const auto* const found = std::ranges::find(kFloatActivations, activation, &FloatActivation::name);
  return found == kFloatActivations.end() ? std::string_view() : found->post_op;
}

bool pays_to_return_float(const Target& target, const FloatOutputKernel& kernel, std::string_view activation,
                          const LayerWork& work) {
  const EngineCosts& costs = costs_of(target);
  if (activation.empty()) return kernel.reads == Form::Bytes && pays(costs, costs.to_dequantize, work);
  const auto* const found = std::ranges::find(kFloatActivations, activation, &FloatActivation::name);
  if (found == kFloatActivations.end() || kernel.reads == Form::FloatRange) return false;
  if (kernel.reads == Form::Float) return true;
  // The engine's other kernel takes many times as long.
  if (kernel.op == kConv1d && work.groups >= costs.slow_groups) return true;
  if (!found->post_op.empty() && pointwise_post_op(activation, kernel.kernel).empty()) return false;
  return pays(costs, costs.*(found->saved), work);
}

std::span<const FloatOutputKernel> float_output_kernels() { return kFloatOutputKernels; }

}  // namespace tsq::kernels
