#include "backends/kernels/float_output_kernels.h"

#include <algorithm>
#include <array>

#include "backends/kernels/first_row.h"

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

/// What kPointwise2d does besides, and what it calls that.
struct PointwiseActivation {
  std::string_view name;
  std::string_view post_op;
};
constexpr std::array kPointwiseActivations{
    PointwiseActivation{"torch.nn.Hardswish", "hardswish"},
    PointwiseActivation{"torch.nn.functional.hardswish", "hardswish"},
    PointwiseActivation{"torch.nn.SiLU", "swish"},
    PointwiseActivation{"torch.nn.functional.silu", "swish"},
};

}  // namespace

const FloatOutputKernel* float_output_kernel(std::string_view engine, std::string_view op, PostOp post_op) {
  return first_row(kFloatOutputKernels, [&](const FloatOutputKernel& row) {
    return row.engine == engine && row.op == op && row.post_op == post_op;
  });
}

std::string_view pointwise_post_op(std::string_view activation, std::string_view kernel) {
  if (kernel != kPointwise2d) return {};
  const auto* const found = std::ranges::find(kPointwiseActivations, activation, &PointwiseActivation::name);
  return found == kPointwiseActivations.end() ? std::string_view() : found->post_op;
}

std::span<const FloatOutputKernel> float_output_kernels() { return kFloatOutputKernels; }

}  // namespace tsq::kernels
