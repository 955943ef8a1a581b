#include "backends/float_output_kernels.h"

#include <algorithm>
#include <array>

namespace tsq::lowering {
namespace {

constexpr std::string_view kLinear = "torch.nn.Linear";
constexpr std::string_view kPrepack = "quantized::linear_prepack";
constexpr std::string_view kStatic = "quantized::linear_with_input_q_dq_qweight_dq_output_fp32";
constexpr std::string_view kStaticReLU = "quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32";
constexpr std::string_view kDynamic = "quantized::linear_dynamic";
constexpr std::string_view kDynamicReLU = "quantized::linear_relu_dynamic";

constexpr std::array kKernels{
    FloatOutputKernel{"x86", kLinear, PostOp::None, kPrepack, kStatic, true},
    FloatOutputKernel{"x86", kLinear, PostOp::ReLU, kPrepack, kStaticReLU, true},
    FloatOutputKernel{"fbgemm", kLinear, PostOp::None, kPrepack, kStatic, true},
    FloatOutputKernel{"fbgemm", kLinear, PostOp::ReLU, kPrepack, kStaticReLU, true},
    FloatOutputKernel{"onednn", kLinear, PostOp::None, kPrepack, kDynamic, false},
    FloatOutputKernel{"onednn", kLinear, PostOp::ReLU, kPrepack, kDynamicReLU, false},
    FloatOutputKernel{"qnnpack", kLinear, PostOp::None, kPrepack, kDynamic, false},
    FloatOutputKernel{"qnnpack", kLinear, PostOp::ReLU, kPrepack, kDynamicReLU, false},
};

}  // namespace

const FloatOutputKernel* float_output_kernel(std::string_view engine, std::string_view op, PostOp post_op) {
  const auto found = std::ranges::find_if(kKernels, [&](const FloatOutputKernel& row) {
    return row.engine == engine && row.op == op && row.post_op == post_op;
  });
  return found == kKernels.end() ? nullptr : &*found;
}

}  // namespace tsq::lowering
