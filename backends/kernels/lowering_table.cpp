#include "backends/kernels/lowering_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/kernels/first_row.h"
#include "base/entries.h"
#include "runtime/program/table_rows.h"

namespace tsq::kernels {
namespace {

constexpr std::array kWeighted{
    WeightedKernel{"torch.nn.Linear", PostOp::None, "quantized::linear_prepack", "quantized::linear"},
    WeightedKernel{"torch.nn.Linear", PostOp::ReLU, "quantized::linear_prepack", "quantized::linear_relu"},
    WeightedKernel{"torch.nn.Linear", PostOp::LeakyReLU, "quantized::linear_prepack",
                   "quantized::linear_leaky_relu"},
    WeightedKernel{"torch.nn.Linear", PostOp::Tanh, "quantized::linear_prepack", "quantized::linear_tanh"},
    WeightedKernel{"torch.nn.Conv1d", PostOp::None, "quantized::conv1d_prepack", "quantized::conv1d"},
    WeightedKernel{"torch.nn.Conv1d", PostOp::ReLU, "quantized::conv1d_prepack", "quantized::conv1d_relu"},
    WeightedKernel{"torch.nn.Conv2d", PostOp::None, "quantized::conv2d_prepack", "quantized::conv2d.new"},
    WeightedKernel{"torch.nn.Conv2d", PostOp::ReLU, "quantized::conv2d_prepack",
                   "quantized::conv2d_relu.new"},
    WeightedKernel{"torch.nn.Conv2d", PostOp::Add, "quantized::conv2d_prepack", "quantized::conv2d_add"},
    WeightedKernel{"torch.nn.Conv2d", PostOp::AddReLU, "quantized::conv2d_prepack",
                   "quantized::conv2d_add_relu"},
    WeightedKernel{"torch.nn.Conv3d", PostOp::None, "quantized::conv3d_prepack", "quantized::conv3d.new"},
    WeightedKernel{"torch.nn.Conv3d", PostOp::ReLU, "quantized::conv3d_prepack",
                   "quantized::conv3d_relu.new"},
    WeightedKernel{"torch.nn.ConvTranspose1d", PostOp::None, "quantized::conv_transpose1d_prepack",
                   "quantized::conv_transpose1d"},
    WeightedKernel{"torch.nn.ConvTranspose2d", PostOp::None, "quantized::conv_transpose2d_prepack",
                   "quantized::conv_transpose2d"},
    WeightedKernel{"torch.nn.ConvTranspose3d", PostOp::None, "quantized::conv_transpose3d_prepack",
                   "quantized::conv_transpose3d"},
};

/// What a class or function does after a weighted operator.
using NamedPostOp = std::pair<std::string_view, PostOp>;
constexpr std::array kFusedPostOps{
    NamedPostOp{"torch.ao.nn.intrinsic.LinearReLU", PostOp::ReLU},
    NamedPostOp{"torch.ao.nn.intrinsic.LinearLeakyReLU", PostOp::LeakyReLU},
    NamedPostOp{"torch.ao.nn.intrinsic.LinearTanh", PostOp::Tanh},
    NamedPostOp{"torch.ao.nn.intrinsic.ConvReLU1d", PostOp::ReLU},
    NamedPostOp{"torch.ao.nn.intrinsic.ConvReLU2d", PostOp::ReLU},
    NamedPostOp{"torch.ao.nn.intrinsic.ConvReLU3d", PostOp::ReLU},
    NamedPostOp{"torch.ao.nn.intrinsic.ConvAdd2d", PostOp::Add},
    NamedPostOp{"torch.ao.nn.intrinsic.ConvAddReLU2d", PostOp::AddReLU},
};

constexpr std::array kActivations{
    NamedPostOp{"torch.nn.ReLU", PostOp::ReLU},
    NamedPostOp{"torch.nn.functional.relu", PostOp::ReLU},
    NamedPostOp{"torch.relu", PostOp::ReLU},
    NamedPostOp{"torch.nn.LeakyReLU", PostOp::LeakyReLU},
    NamedPostOp{"torch.nn.functional.leaky_relu", PostOp::LeakyReLU},
    NamedPostOp{"torch.nn.Tanh", PostOp::Tanh},
    NamedPostOp{"torch.tanh", PostOp::Tanh},
};

constexpr std::array kBinary{
    BinaryKernel{"operator.add", "quantized::add", "quantized::add_relu"},
    BinaryKernel{"torch.add", "quantized::add", "quantized::add_relu"},
    BinaryKernel{"operator.mul", "quantized::mul", "quantized::mul_relu"},
    BinaryKernel{"torch.mul", "quantized::mul", "quantized::mul_relu"},
    BinaryKernel{"torch.matmul", "quantized::matmul", ""},
};

constexpr std::array kKernels{
    UnaryKernel{"torch.nn.BatchNorm2d", Unary::Kernel, "quantized::batch_norm2d"},
    UnaryKernel{"torch.nn.BatchNorm3d", Unary::Kernel, "quantized::batch_norm3d"},
    UnaryKernel{"torch.ao.nn.intrinsic.BNReLU2d", Unary::Kernel, "quantized::batch_norm2d_relu"},
    UnaryKernel{"torch.ao.nn.intrinsic.BNReLU3d", Unary::Kernel, "quantized::batch_norm3d_relu"},
    UnaryKernel{"torch.nn.ELU", Unary::Kernel, "quantized::elu"},
    UnaryKernel{"torch.nn.LeakyReLU", Unary::Kernel, "quantized::leaky_relu"},
    UnaryKernel{"torch.nn.Hardswish", Unary::Kernel, "quantized::hardswish"},
    UnaryKernel{"torch.nn.InstanceNorm1d", Unary::Kernel, "quantized::instance_norm"},
    UnaryKernel{"torch.nn.InstanceNorm2d", Unary::Kernel, "quantized::instance_norm"},
    UnaryKernel{"torch.nn.InstanceNorm3d", Unary::Kernel, "quantized::instance_norm"},
    UnaryKernel{"torch.nn.LayerNorm", Unary::Kernel, "quantized::layer_norm"},
    UnaryKernel{"torch.nn.Softmax", Unary::Kernel, "quantized::softmax"},
    UnaryKernel{"torch.nn.PReLU", Unary::Kernel, "quantized::prelu"},
    UnaryKernel{"torch.nn.functional.elu", Unary::Kernel, "quantized::elu"},
    UnaryKernel{"torch.nn.functional.hardswish", Unary::Kernel, "quantized::hardswish"},
    UnaryKernel{"torch.nn.functional.leaky_relu", Unary::Kernel, "quantized::leaky_relu"},
    UnaryKernel{"torch.nn.functional.layer_norm", Unary::Kernel, "quantized::layer_norm"},
    UnaryKernel{"torch.nn.functional.instance_norm", Unary::Kernel, "quantized::instance_norm"},
    UnaryKernel{"torch.nn.functional.group_norm", Unary::Kernel, "quantized::group_norm"},
    UnaryKernel{"torch.nn.Dropout", Unary::Identity, ""},
    UnaryKernel{"torch.nn.functional.dropout", Unary::Identity, ""},
};

/// Fixed-qparams, value-preserving and shape operators, and cat: the same operator runs on quantized tensors.
constexpr std::string_view kSameOp[] = {
    "torch.nn.functional.hardsigmoid",
    "torch.sigmoid",
    "torch.tanh",
    "hardsigmoid",
    "hardsigmoid_",
    "sigmoid",
    "sigmoid_",
    "tanh",
    "tanh_",
    "torch.nn.Hardsigmoid",
    "torch.nn.Sigmoid",
    "torch.nn.Tanh",
    "torch.nn.functional.adaptive_avg_pool1d",
    "torch.nn.functional.adaptive_avg_pool2d",
    "torch.nn.functional.adaptive_avg_pool3d",
    "torch.nn.functional.hardtanh",
    "torch.nn.functional.hardtanh_",
    "torch.nn.functional.interpolate",
    "torch.nn.functional.max_pool1d",
    "torch.nn.functional.max_pool2d",
    "torch.nn.functional.max_pool3d",
    "torch.nn.functional.relu",
    "torch.nn.functional.relu6",
    "torch.nn.functional.avg_pool1d",
    "torch.nn.functional.avg_pool2d",
    "torch.nn.functional.avg_pool3d",
    "torch.clamp",
    "torch.flatten",
    "torch.mean",
    "operator.floordiv",
    "torch.channel_shuffle",
    "torch.nn.functional.channel_shuffle",
    "clamp",
    "mean",
    "relu",
    "relu_",
    "torch.nn.AdaptiveAvgPool1d",
    "torch.nn.AdaptiveAvgPool2d",
    "torch.nn.AdaptiveAvgPool3d",
    "torch.nn.AvgPool1d",
    "torch.nn.AvgPool2d",
    "torch.nn.AvgPool3d",
    "torch.nn.Hardtanh",
    "torch.nn.MaxPool1d",
    "torch.nn.MaxPool2d",
    "torch.nn.MaxPool3d",
    "torch.nn.ReLU",
    "torch.nn.ReLU6",
    "torch.nn.ChannelShuffle",
    "torch.narrow",
    "torch.transpose",
    "torch.repeat_interleave",
    "torch.squeeze",
    "torch.stack",
    "torch.unsqueeze",
    "torch.nn.functional.pixel_shuffle",
    "torch.nn.functional.pixel_unshuffle",
    "contiguous",
    "detach",
    "permute",
    "repeat",
    "repeat_interleave",
    "reshape",
    "squeeze",
    "transpose",
    "torch.cat",
    "unsqueeze",
    "unsqueeze_",
    "view",
    "squeeze_",
    "detach_",
    "resize_",
    "torch.nn.Identity",
    "torch.nn.PixelShuffle",
    "torch.nn.PixelUnshuffle",
};

constexpr UnaryKernel kRunsItself{"", Unary::SameOp, ""};

PostOp named_post_op(std::span<const NamedPostOp> table, std::string_view name) {
  const NamedPostOp* found = find_entry(table, name);
  return found == nullptr ? PostOp::None : found->second;
}

}  // namespace

const WeightedKernel* weighted_kernel(std::string_view op, PostOp post_op) {
  return first_row(weighted_kernels(),
                   [&](const WeightedKernel& row) { return row.op == op && row.post_op == post_op; });
}

PostOp post_op_of(std::string_view fused_class) { return named_post_op(kFusedPostOps, fused_class); }

PostOp activation_post_op(std::string_view activation) { return named_post_op(kActivations, activation); }

const BinaryKernel* binary_kernel(std::string_view op) {
  return first_row(binary_kernels(), [&](const BinaryKernel& row) { return row.op == op; });
}

const UnaryKernel* unary_kernel(const Symbol& op) {
  if (std::ranges::find(kSameOp, op.name) != std::end(kSameOp)) return &kRunsItself;
  return first_row(unary_kernels(), [&](const UnaryKernel& row) { return row.op == op.name; });
}

std::span<const WeightedKernel> weighted_kernels() {
  static const TableRows<WeightedKernel> kRows("weighted_kernels", kWeighted);
  return kRows.rows();
}

std::span<const BinaryKernel> binary_kernels() {
  static const TableRows<BinaryKernel> kRows("binary_kernels", kBinary);
  return kRows.rows();
}

std::span<const std::string_view> same_operators() { return kSameOp; }

std::span<const UnaryKernel> unary_kernels() {
  static const TableRows<UnaryKernel> kRows("unary_kernels", kKernels);
  return kRows.rows();
}

}  // namespace tsq::kernels
