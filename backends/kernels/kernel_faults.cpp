#include "backends/kernels/kernel_faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "backends/kernels/float_output_kernels.h"
#include "base/known_engines.h"
#include "runtime/program/table_rows.h"

namespace tsq::kernels {
namespace {

using enum FaultCondition;
using enum Precaution;

constexpr std::string_view kChannelsReason =
    "oneDNN's transposed convolution returns wrong results when the numbers of channels in and out differ";
constexpr std::string_view kDirectPath =
    "fbgemm's transposed convolution returns wrong results for a kernel of two rows without padding when "
    "both "
    "numbers of channels are multiples of 8";
constexpr std::string_view kTransposed3d = "qnnpack's conv_transpose3d returns wrong results";
constexpr std::string_view kScalesInGroups =
    "qnnpack's transposed convolution with groups reads beyond the scales of its channels";
constexpr std::string_view kOtherDimension =
    "the kernels have a scale for each output channel, and these scales are of another dimension of the "
    "weight";
constexpr std::string_view kSigned = "the engine's convolutions and linear layers take quint8 activations";
constexpr std::string_view kInt32 = "no kernel of LibTorch multiplies qint32 activations";
constexpr std::string_view kOneDType = "the kernel takes operands of one dtype";
constexpr std::string_view kSignedWithoutXnnpack =
    "qnnpack takes qint8 activations here only with XNNPACK, which this LibTorch was built without";
constexpr std::string_view kSavedParams = "qnnpack cannot save packed parameters of three dimensions";
constexpr std::string_view kOpaque = "oneDNN's reordered weights cannot be saved";
constexpr std::string_view kClamp = "qnnpack's clamp returns wrong results on channels-last tensors";
constexpr std::string_view kSoftmax =
    "qnnpack's softmax fails or returns wrong results when its dimension is not the innermost one in memory";
constexpr std::string_view kAverage =
    "qnnpack's average pool counts padding whatever count_include_pad and divisor_override say";
constexpr std::string_view kOneBound = "qnnpack's clamp takes two bounds only";
constexpr std::string_view kNoDimensions = "qnnpack treats a tensor without dimensions as an empty one";
constexpr std::string_view kNoMaxPool3d = "qnnpack has no max_pool3d";
constexpr std::string_view kInterpolate =
    "LibTorch interpolates quantized tensors of 4 dimensions by nearest, nearest-exact, bilinear and area "
    "only, of 5 by nearest, nearest-exact and area";
constexpr std::string_view kOnlyOneDnn = "only onednn has this kernel";
constexpr std::string_view kFirstScale =
    "qnnpack's packed weights keep the output scale of the first call for all calls with its input scale";
constexpr std::string_view kNoFloat16 = "only fbgemm has kernels with float16 weights";
constexpr std::string_view kFullRange = "qnnpack ignores reduce_range, with a warning";
constexpr std::string_view kScaleRatio =
    "qnnpack adds only tensors with 2^-14 to 2^8 times the scale of the sum, and the ranges here differ by "
    "more";
constexpr std::string_view kAddedBatch =
    "pools and norms misread a channels-last tensor whose batch dimension was added by unsqueeze";
constexpr std::string_view kEmptyLinear =
    "oneDNN's linear layers return [0, channels] of an empty tensor of any number of dimensions";
constexpr std::string_view kEmptyRecurrent =
    "oneDNN's recurrent layers, which begin with a linear layer, take a batch without samples for no steps";
constexpr std::string_view kDividesByCount = "qnnpack ends the process with a tensor without elements";
constexpr std::string_view kAddend = "conv2d_add writes its result into the addend";

constexpr std::array kFaults{
    KernelFault{"onednn", "quantized::conv_transpose1d", TransposedChannelsDiffer, KeepReference,
                kChannelsReason},
    KernelFault{"onednn", "quantized::conv_transpose2d", TransposedChannelsDiffer, KeepReference,
                kChannelsReason},
    KernelFault{"onednn", "quantized::conv_transpose3d", TransposedChannelsDiffer, KeepReference,
                kChannelsReason},
    KernelFault{"x86", "quantized::conv_transpose1d", TransposedChannelsDiffer, KeepReference,
                kChannelsReason},
    KernelFault{"x86", "quantized::conv_transpose2d", TransposedChannelsDiffer, KeepReference,
                kChannelsReason},
    KernelFault{"x86", "quantized::conv_transpose3d", TransposedChannelsDiffer, KeepReference,
                kChannelsReason},
    KernelFault{"x86", "quantized::conv_transpose2d", TransposedDirectPath, KeepReference, kDirectPath},
    KernelFault{"fbgemm", "quantized::conv_transpose2d", TransposedDirectPath, KeepReference, kDirectPath},
    KernelFault{"qnnpack", "quantized::conv_transpose3d", Always, KeepReference, kTransposed3d},
    KernelFault{"qnnpack", "quantized::conv_transpose1d", TransposedPerChannelInGroups, KeepReference,
                kScalesInGroups},
    KernelFault{"qnnpack", "quantized::conv_transpose2d", TransposedPerChannelInGroups, KeepReference,
                kScalesInGroups},
    KernelFault{"qnnpack", "quantized::conv3d", Always, PackWhenLoaded, kSavedParams},
    KernelFault{"qnnpack", "quantized::conv3d_relu", Always, PackWhenLoaded, kSavedParams},
    KernelFault{"", "onednn::qconv1d_pointwise", Always, PackWhenLoaded, kOpaque},
    KernelFault{"", "onednn::qconv2d_pointwise", Always, PackWhenLoaded, kOpaque},
    KernelFault{"qnnpack", "quantized::linear", Always, PackForEachCall, kFirstScale},
    KernelFault{"qnnpack", "quantized::linear_relu", Always, PackForEachCall, kFirstScale},
    KernelFault{"qnnpack", "quantized::conv1d", Always, PackForEachCall, kFirstScale},
    KernelFault{"qnnpack", "quantized::conv1d_relu", Always, PackForEachCall, kFirstScale},
    KernelFault{"qnnpack", "quantized::conv2d", Always, PackForEachCall, kFirstScale},
    KernelFault{"qnnpack", "quantized::conv2d_relu", Always, PackForEachCall, kFirstScale},
    KernelFault{"qnnpack", "quantized::conv3d", Always, PackForEachCall, kFirstScale},
    KernelFault{"qnnpack", "quantized::conv3d_relu", Always, PackForEachCall, kFirstScale},
    KernelFault{"qnnpack", "quantized::conv_transpose1d", Always, PackForEachCall, kFirstScale},
    KernelFault{"qnnpack", "quantized::conv_transpose2d", Always, PackForEachCall, kFirstScale},
    KernelFault{"qnnpack", "quantized::linear_prepack_fp16", Always, KeepReference, kNoFloat16},
    KernelFault{"onednn", "quantized::linear_prepack_fp16", Always, KeepReference, kNoFloat16},
    KernelFault{"qnnpack", "torch.nn.ReLU6", Always, PlainLayout, kClamp},
    KernelFault{"qnnpack", "torch.nn.Hardtanh", Always, PlainLayout, kClamp},
    KernelFault{"qnnpack", "torch.nn.functional.relu6", Always, PlainLayout, kClamp},
    KernelFault{"qnnpack", "torch.nn.functional.hardtanh", Always, PlainLayout, kClamp},
    KernelFault{"qnnpack", "torch.nn.functional.hardtanh_", Always, PlainLayout, kClamp},
    KernelFault{"qnnpack", "torch.clamp", OneBound, KeepReference, kOneBound},
    KernelFault{"qnnpack", "clamp", OneBound, KeepReference, kOneBound},
    KernelFault{"qnnpack", "torch.clamp", Always, PlainLayout, kClamp},
    KernelFault{"qnnpack", "clamp", Always, PlainLayout, kClamp},
    KernelFault{"qnnpack", "quantized::softmax", NotOverChannels, ContiguousInput, kSoftmax},
    KernelFault{"qnnpack", "torch.nn.AvgPool1d", AverageOverOtherCount, KeepReference, kAverage},
    KernelFault{"qnnpack", "torch.nn.AvgPool2d", AverageOverOtherCount, KeepReference, kAverage},
    KernelFault{"qnnpack", "torch.nn.functional.avg_pool1d", AverageOverOtherCount, KeepReference, kAverage},
    KernelFault{"qnnpack", "torch.nn.functional.avg_pool2d", AverageOverOtherCount, KeepReference, kAverage},
    KernelFault{"qnnpack", "torch.nn.MaxPool3d", Always, KeepReference, kNoMaxPool3d},
    KernelFault{"qnnpack", "torch.nn.functional.max_pool3d", Always, KeepReference, kNoMaxPool3d},
    KernelFault{"qnnpack", "quantized::add", AddendScaleOutOfRange, KeepReference, kScaleRatio},
    KernelFault{"qnnpack", "quantized::add_relu", AddendScaleOutOfRange, KeepReference, kScaleRatio},
    KernelFault{"", "quantized::linear_dynamic", ScalesOfOtherDimension, KeepReference, kOtherDimension},
    KernelFault{"", "quantized::linear_relu_dynamic", ScalesOfOtherDimension, KeepReference, kOtherDimension},
    KernelFault{"", "quantized::matmul", Int32Input, KeepReference, kInt32},
    KernelFault{"", "quantized::matmul", OperandsOfOtherDTypes, KeepReference, kOneDType},
    KernelFault{"", "quantized::add", OperandsOfOtherDTypes, KeepReference, kOneDType},
    KernelFault{"", "quantized::add_relu", OperandsOfOtherDTypes, KeepReference, kOneDType},
    KernelFault{"", "quantized::mul", OperandsOfOtherDTypes, KeepReference, kOneDType},
    KernelFault{"", "quantized::mul_relu", OperandsOfOtherDTypes, KeepReference, kOneDType},
    KernelFault{"", "torch.nn.functional.interpolate", InterpolationWithoutKernel, KeepReference,
                kInterpolate},
    KernelFault{"x86", "quantized::linear_leaky_relu", Always, KeepReference, kOnlyOneDnn},
    KernelFault{"x86", "quantized::linear_tanh", Always, KeepReference, kOnlyOneDnn},
    KernelFault{"x86", "quantized::conv2d_add", Always, KeepReference, kOnlyOneDnn},
    KernelFault{"x86", "quantized::conv2d_add_relu", Always, KeepReference, kOnlyOneDnn},
    KernelFault{"fbgemm", "quantized::linear_leaky_relu", Always, KeepReference, kOnlyOneDnn},
    KernelFault{"fbgemm", "quantized::linear_tanh", Always, KeepReference, kOnlyOneDnn},
    KernelFault{"fbgemm", "quantized::conv2d_add", Always, KeepReference, kOnlyOneDnn},
    KernelFault{"fbgemm", "quantized::conv2d_add_relu", Always, KeepReference, kOnlyOneDnn},
    KernelFault{"qnnpack", "quantized::linear_leaky_relu", Always, KeepReference, kOnlyOneDnn},
    KernelFault{"qnnpack", "quantized::linear_tanh", Always, KeepReference, kOnlyOneDnn},
    KernelFault{"qnnpack", "quantized::conv2d_add", Always, KeepReference, kOnlyOneDnn},
    KernelFault{"qnnpack", "quantized::conv2d_add_relu", Always, KeepReference, kOnlyOneDnn},
    KernelFault{"onednn", "quantized::linear", MoreDimensions, ShapedWhenEmpty, kEmptyLinear},
    KernelFault{"onednn", "quantized::linear_relu", MoreDimensions, ShapedWhenEmpty, kEmptyLinear},
    KernelFault{"onednn", "quantized::linear_leaky_relu", MoreDimensions, ShapedWhenEmpty, kEmptyLinear},
    KernelFault{"onednn", "quantized::linear_tanh", MoreDimensions, ShapedWhenEmpty, kEmptyLinear},
    KernelFault{"onednn", "quantized::linear_dynamic", MoreDimensions, ShapedWhenEmpty, kEmptyLinear},
    KernelFault{"onednn", "quantized::linear_relu_dynamic", MoreDimensions, ShapedWhenEmpty, kEmptyLinear},
    KernelFault{"onednn", "aten::quantized_lstm", Always, ShapedWhenEmpty, kEmptyRecurrent},
    KernelFault{"onednn", "aten::quantized_gru", Always, ShapedWhenEmpty, kEmptyRecurrent},
    KernelFault{"qnnpack", "quantized::hardswish", Always, NotWhenEmpty, kDividesByCount},
    KernelFault{"qnnpack", "aten::hardsigmoid", Always, NotWhenEmpty, kDividesByCount},
    KernelFault{"qnnpack", "aten::hardsigmoid_", Always, NotWhenEmpty, kDividesByCount},
    KernelFault{"", "quantized::conv2d_add", Always, AddendOfItsOwn, kAddend},
    KernelFault{"", "quantized::conv2d_add_relu", Always, AddendOfItsOwn, kAddend},
};

/// Of each kernel of with_weights: they take quint8 activations on every engine, qint8 ones by XNNPACK alone.
constexpr std::array kOfWeighted{
    KernelFault{"", "", ScalesOfOtherDimension, KeepReference, kOtherDimension},
    KernelFault{"", "", Int32Input, KeepReference, kInt32},
    KernelFault{"qnnpack", "", SignedInputWithoutXnnpack, KeepReference, kSignedWithoutXnnpack},
    KernelFault{"x86", "", SignedInput, KeepReference, kSigned},
    KernelFault{"fbgemm", "", SignedInput, KeepReference, kSigned},
    KernelFault{"onednn", "", SignedInput, KeepReference, kSigned},
};
constexpr std::array<std::string_view, 15> kWeightedKernels{
    "quantized::linear",           "quantized::linear_relu",      "quantized::linear_leaky_relu",
    "quantized::linear_tanh",      "quantized::conv1d",           "quantized::conv1d_relu",
    "quantized::conv2d",           "quantized::conv2d_relu",      "quantized::conv2d_add",
    "quantized::conv2d_add_relu",  "quantized::conv3d",           "quantized::conv3d_relu",
    "quantized::conv_transpose1d", "quantized::conv_transpose2d", "quantized::conv_transpose3d"};

/// Element-wise operators of qnnpack, which takes a tensor of one value and no dimension for an empty one.
constexpr std::array<std::string_view, 24> kQnnpackElementwise{"quantized::add",
                                                               "quantized::add_relu",
                                                               "quantized::hardswish",
                                                               "torch.sigmoid",
                                                               "sigmoid",
                                                               "sigmoid_",
                                                               "torch.nn.Sigmoid",
                                                               "torch.tanh",
                                                               "tanh",
                                                               "tanh_",
                                                               "torch.nn.Tanh",
                                                               "torch.nn.functional.relu",
                                                               "relu",
                                                               "relu_",
                                                               "torch.nn.ReLU",
                                                               "torch.nn.functional.hardsigmoid",
                                                               "torch.nn.Hardsigmoid",
                                                               "torch.nn.ReLU6",
                                                               "torch.nn.functional.relu6",
                                                               "torch.nn.Hardtanh",
                                                               "torch.nn.functional.hardtanh",
                                                               "torch.clamp",
                                                               "clamp",
                                                               "torch.nn.functional.hardtanh_"};

constexpr std::array<std::string_view, 3> kDynamicKernels{"quantized::linear_dynamic",
                                                          "quantized::linear_relu_dynamic",
                                                          "quantized::make_quantized_cell_params_dynamic"};

constexpr std::array<std::string_view, 18> kPools{"torch.nn.MaxPool1d",
                                                  "torch.nn.MaxPool2d",
                                                  "torch.nn.MaxPool3d",
                                                  "torch.nn.AvgPool1d",
                                                  "torch.nn.AvgPool2d",
                                                  "torch.nn.AvgPool3d",
                                                  "torch.nn.AdaptiveAvgPool1d",
                                                  "torch.nn.AdaptiveAvgPool2d",
                                                  "torch.nn.AdaptiveAvgPool3d",
                                                  "torch.nn.functional.max_pool1d",
                                                  "torch.nn.functional.max_pool2d",
                                                  "torch.nn.functional.max_pool3d",
                                                  "torch.nn.functional.avg_pool1d",
                                                  "torch.nn.functional.avg_pool2d",
                                                  "torch.nn.functional.avg_pool3d",
                                                  "torch.nn.functional.adaptive_avg_pool1d",
                                                  "torch.nn.functional.adaptive_avg_pool2d",
                                                  "torch.nn.functional.adaptive_avg_pool3d"};

/// Kernels that read codes of a known range and a weight.
std::set<std::string_view> with_weights() {
  std::set<std::string_view> kernels(kWeightedKernels.begin(), kWeightedKernels.end());
  for (const FloatOutputKernel& row : float_output_kernels()) {
    if (row.reads != Form::FloatRange) kernels.insert(row.kernel);
  }
  return kernels;
}

/// Whether the engine has the kernel; of what it lacks nothing else matters.
bool has_kernel(std::string_view engine, std::string_view kernel) {
  const auto float_outputs = float_output_kernels();
  if (engine.empty()) return true;
  if (std::ranges::find(float_outputs, kernel, &FloatOutputKernel::kernel) != float_outputs.end()) {
    return std::ranges::any_of(float_outputs, [&](const FloatOutputKernel& row) {
      return row.kernel == kernel && row.engine == engine;
    });
  }
  return std::ranges::none_of(kFaults, [&](const KernelFault& row) {
    return row.engine == engine && row.kernel == kernel && row.when == Always &&
           row.precaution == KeepReference;
  });
}

std::vector<KernelFault> all_faults() {
  std::vector<KernelFault> faults;
  for (const std::string_view kernel : kPools)
    faults.push_back({"", kernel, BatchWasAdded, PlainLayout, kAddedBatch});
  for (const std::string_view kernel : {"quantized::instance_norm", "quantized::group_norm"})
    faults.push_back({"", kernel, BatchWasAdded, ContiguousInput, kAddedBatch});
  for (const std::string_view kernel : kQnnpackElementwise)
    faults.push_back({"qnnpack", kernel, WithoutDimensions, KeepReference, kNoDimensions});
  for (const std::string_view kernel : kDynamicKernels)
    faults.push_back({"qnnpack", kernel, Always, FullRange, kFullRange});
  for (const KernelFault& of_all : kOfWeighted) {
    for (const std::string_view kernel : with_weights()) {
      if (has_kernel(of_all.engine, kernel))
        faults.push_back({of_all.engine, kernel, of_all.when, of_all.precaution, of_all.reason});
    }
  }
  faults.insert(faults.end(), kFaults.begin(), kFaults.end());
  return faults;
}

}  // namespace

std::span<const KernelFault> kernel_faults() {
  static const std::vector<KernelFault> kAll = all_faults();
  static const TableRows<KernelFault> kRows("kernel_faults", kAll);
  return kRows.rows();
}

std::string remedy_of(const KernelFault& fault) {
  if (fault.when == SignedInput || fault.when == SignedInputWithoutXnnpack)
    return "give its activation observer dtype quint8";
  std::vector<std::string_view> others;
  std::ranges::copy_if(known_engines(), std::back_inserter(others), [&](std::string_view engine) {
    return !fault.engine.empty() && std::ranges::none_of(kernel_faults(), [&](const KernelFault& each) {
      return each.engine == engine && each.kernel == fault.kernel && each.reason == fault.reason;
    });
  });
  return others.empty()
             ? "change its arguments, or give it no qconfig: the rounding before and after it saves no time"
             : fmt::format("quantize for another engine: {}", fmt::join(others, " or "));
}

}  // namespace tsq::kernels
