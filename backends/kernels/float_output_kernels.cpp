#include "backends/kernels/float_output_kernels.h"

#include <algorithm>
#include <array>

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

/// The engine x86 takes fbgemm for more than 100 groups, which is slow with signals: 1,024 channels of 150
/// values take 52 ms, and 0.2 by oneDNN.
constexpr int64_t kFbgemmGroups = 101;

constexpr std::array kFloatOutputKernels{
    FloatOutputKernel{"x86", kLinear, PostOp::None, kPrepack, kStatic, Reads::Float},
    FloatOutputKernel{"x86", kLinear, PostOp::ReLU, kPrepack, kStaticReLU, Reads::Float},
    FloatOutputKernel{"fbgemm", kLinear, PostOp::None, kPrepack, kStatic, Reads::Float},
    FloatOutputKernel{"fbgemm", kLinear, PostOp::ReLU, kPrepack, kStaticReLU, Reads::Float},
    FloatOutputKernel{"onednn", kLinear, PostOp::None, kPrepack, kDynamicOperators, Reads::FloatRange},
    FloatOutputKernel{"onednn", kLinear, PostOp::ReLU, kPrepack, kDynamicReLU, Reads::FloatRange},
    FloatOutputKernel{"qnnpack", kLinear, PostOp::None, kPrepack, kDynamicOperators, Reads::FloatRange},
    FloatOutputKernel{"qnnpack", kLinear, PostOp::ReLU, kPrepack, kDynamicReLU, Reads::FloatRange},
    FloatOutputKernel{"x86", kConv1d, PostOp::None, kConvPrepack, kPointwise1d, Reads::Bytes, kFbgemmGroups},
    FloatOutputKernel{"x86", kConv1d, PostOp::ReLU, kConvPrepack, kPointwise1d, Reads::Bytes, kFbgemmGroups},
    FloatOutputKernel{"x86", kConv2d, PostOp::None, kConvPrepack, kPointwise2d, Reads::Bytes},
    FloatOutputKernel{"x86", kConv2d, PostOp::ReLU, kConvPrepack, kPointwise2d, Reads::Bytes},
    FloatOutputKernel{"onednn", kConv1d, PostOp::None, kConvPrepack, kPointwise1d, Reads::Bytes},
    FloatOutputKernel{"onednn", kConv1d, PostOp::ReLU, kConvPrepack, kPointwise1d, Reads::Bytes},
    FloatOutputKernel{"onednn", kConv2d, PostOp::None, kConvPrepack, kPointwise2d, Reads::Bytes},
    FloatOutputKernel{"onednn", kConv2d, PostOp::ReLU, kConvPrepack, kPointwise2d, Reads::Bytes},
};

/// An activation after a layer with float output. `saved` is in nanoseconds a value, measured on one thread
/// of an AMD Zen 5 between 6,000 and 400,000 values: what the activation takes by itself, between a quantized
/// input and a quantized output, less what it takes after such a layer, the rounding included.
struct FloatActivation {
  std::string_view name;
  double saved;
  double saved_where_slow{};  ///< the same where is_slower_than_float says so of its quantized kernel
  /// What kPointwise2d calls it, and the saving counts there alone; empty: no kernel does it with the layer.
  std::string_view post_op{};
};
constexpr std::array kActivations{
    FloatActivation{"torch.nn.PReLU", 0.2, 1},
    FloatActivation{"torch.nn.functional.prelu", 0.2, 1},
    FloatActivation{"torch.prelu", 0.2, 1},
    FloatActivation{"torch.nn.Hardswish", 0.28, 0, "hardswish"},
    FloatActivation{"torch.nn.functional.hardswish", 0.28, 0, "hardswish"},
    FloatActivation{"torch.nn.SiLU", 0.35, 0, "swish"},
    FloatActivation{"torch.nn.functional.silu", 0.35, 0, "swish"},
};
constexpr double kNanosecondsToGetBytes = 0.6;
constexpr double kNanosecondsToDequantize = 0.13;
/// What a call of a kernel that reads bytes takes besides: it sets its primitive up each time.
constexpr double kNanosecondsOfACall = 10'000;

/// `saved`: nanoseconds for each value of the output.
bool pays(double saved, const LayerWork& work) {
  const double rest = saved - kNanosecondsToGetBytes * work.inputs_per_output;
  return work.outputs ? rest * *work.outputs >= kNanosecondsOfACall : rest >= 0;
}

}  // namespace

const FloatOutputKernel* float_output_kernel(std::string_view engine, std::string_view op, PostOp post_op) {
  const auto found = std::ranges::find_if(kFloatOutputKernels, [&](const FloatOutputKernel& row) {
    return row.engine == engine && row.op == op && row.post_op == post_op;
  });
  return found == kFloatOutputKernels.end() ? nullptr : &*found;
}

std::string_view pointwise_post_op(std::string_view activation, std::string_view kernel) {
  if (kernel != kPointwise2d) return {};
  const auto* const found = std::ranges::find(kActivations, activation, &FloatActivation::name);
  return found == kActivations.end() ? std::string_view() : found->post_op;
}

bool pays_with_float_output(const FloatOutputKernel& kernel, std::string_view activation,
                            const LayerWork& work) {
  const auto* const found = std::ranges::find(kActivations, activation, &FloatActivation::name);
  if (found == kActivations.end() || kernel.reads == Reads::FloatRange) return false;
  if (kernel.reads == Reads::Float) return true;
  if (kernel.slow_groups != 0 && work.groups >= kernel.slow_groups) return true;
  if (!found->post_op.empty() && pointwise_post_op(activation, kernel.kernel).empty()) return false;
  const bool is_slow = found->saved_where_slow > 0 && is_slower_than_float("quantized::prelu", work.slopes);
  return pays(is_slow ? found->saved_where_slow : found->saved, work);
}

bool pays_without_rounding(const FloatOutputKernel& kernel, const LayerWork& work) {
  return kernel.reads == Reads::Bytes && pays(kNanosecondsToDequantize, work);
}

std::span<const FloatOutputKernel> float_output_kernels() { return kFloatOutputKernels; }

}  // namespace tsq::kernels
