#include "backends/kernels/time_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tsq::kernels {
namespace {

double blocks(double channels, double block) { return std::ceil(channels / block) * block; }

// What kernels multiply: products of bytes come in fours, results in registers of 16 numbers.
double products(const KernelWork& work) {
  return work.rows * work.groups * work.taps * blocks(work.inputs, 4) * blocks(work.outputs, 16);
}
double plain_products(const KernelWork& work) {
  return work.rows * work.groups * work.taps * work.inputs * work.outputs;
}
/// What a window reads of all channels, at each of its positions.
double patches(const KernelWork& work) {
  return work.rows * work.groups * work.taps * blocks(work.inputs, 4);
}
double window_values(const KernelWork& work) { return work.rows * blocks(work.groups, 16) * work.taps; }
double columns(const KernelWork& work) { return work.groups * work.outputs; }

constexpr Feature kCall{"call", [](const KernelWork&) { return 1.0; }};
constexpr Feature kProducts{"products", products};
constexpr Feature kPlainProducts{"plain_products", plain_products};
constexpr Feature kPatches{"patches", patches};
constexpr Feature kWindowValues{"window_values", window_values};
constexpr Feature kColumns{"columns", columns};
constexpr Feature kGroups{"groups", [](const KernelWork& work) { return work.groups; }};
constexpr Feature kRows{"rows", [](const KernelWork& work) { return work.rows; }};
constexpr Feature kGroupRows{"group_rows", [](const KernelWork& work) { return work.rows * work.groups; }};
constexpr Feature kValuesIn{"values_in", [](const KernelWork& work) { return work.values_in; }};
constexpr Feature kValuesOut{"values_out", [](const KernelWork& work) { return work.values_out; }};
constexpr Feature kWeights{"weights", [](const KernelWork& work) { return work.weights; }};
constexpr Feature kLines{"lines", [](const KernelWork& work) { return work.lines; }};
constexpr Feature kSteps{"steps", [](const KernelWork& work) { return work.steps; }};
constexpr Feature kSimplePosts{"simple_posts", [](const KernelWork& work) { return work.simple_posts; }};
constexpr Feature kHeavyPosts{"heavy_posts", [](const KernelWork& work) { return work.heavy_posts; }};
constexpr Feature kFunctionPosts{"function_posts",
                                 [](const KernelWork& work) { return work.function_posts; }};
constexpr Feature kTensorPosts{"tensor_posts", [](const KernelWork& work) { return work.tensor_posts; }};
/// Of a recurrent layer: its weights are read again in each step.
constexpr Feature kWeightsOfSteps{"weights_of_steps",
                                  [](const KernelWork& work) { return work.weights * work.steps; }};
/// Places that windows of a pool look at: at each they read all channels that lie side by side.
constexpr Feature kWindowLines{
    "window_lines", [](const KernelWork& work) {
      return work.values_in > 0 ? work.values_out * work.taps * work.lines / work.values_in : 0;
    }};
/// Values that windows of a pool read.
constexpr Feature kWindows{"windows", [](const KernelWork& work) { return work.values_out * work.taps; }};
constexpr Feature kScores{"scores",
                          [](const KernelWork& work) { return work.groups * work.rows * work.outputs; }};

/// What is turned into the layout in which a layer computes, and back.
constexpr Feature kTurnedIn{
    "turned_in", [](const KernelWork& work) { return work.is_channels_last ? 0 : work.values_in; }};
constexpr Feature kTurnedOut{
    "turned_out", [](const KernelWork& work) { return work.is_channels_last ? 0 : work.values_out; }};

/// Results that do not fill the registers of a row.
constexpr Feature kTails{"tails", [](const KernelWork& work) {
                           return std::fmod(work.outputs, 16) == 0 ? 0 : work.rows * work.groups;
                         }};
/// Products of inputs that do not come in fours.
constexpr Feature kOddPatches{
    "odd_patches", [](const KernelWork& work) { return std::fmod(work.inputs, 4) == 0 ? 0 : patches(work); }};
/// The windows of kernels whose registers hold 64 channels.
constexpr Feature kWideWindowValues{"wide_window_values", [](const KernelWork& work) {
                                      return work.rows * blocks(work.groups, 64) * work.taps;
                                    }};

double channels(const KernelWork& work) { return work.lines > 0 ? work.values_in / work.lines : 0; }
/// Positions of the result of an operator that keeps the channels.
double output_lines(const KernelWork& work) {
  return channels(work) > 0 ? work.values_out / channels(work) : 0;
}
/// Lines of the result, as of square images: kernels begin anew at each.
double image_lines(const KernelWork& work) {
  return work.groups * work.batch * std::sqrt(work.rows / std::max(1.0, work.batch));
}

constexpr Feature kChannels{"channels", channels};
constexpr Feature kOutputLines{"output_lines", output_lines};
/// Values of kernels that compute 64 channels at a time.
constexpr Feature kPaddedValues{
    "padded_values", [](const KernelWork& work) { return work.lines * blocks(channels(work), 64); }};
/// Values of a line beyond whole registers of 64 bytes, which kernels of bytes compute one by one.
constexpr Feature kOddValues{"odd_values", [](const KernelWork& work) {
                               return work.lines * std::fmod(work.values_out / std::max(1.0, work.lines), 64);
                             }};
/// Lines of images whose channels come second.
constexpr Feature kEdges{
    "edges", [](const KernelWork& work) { return channels(work) * std::sqrt(std::max(0.0, work.lines)); }};
/// Values beyond a second cache of 1 MiB.
constexpr Feature kFarValues{"far_values", [](const KernelWork& work) {
                               return std::max(0.0, work.values_in + work.values_out - (1 << 18));
                             }};
/// Channels of windows that do not fill a register of bytes.
constexpr Feature kTailWindows{"tail_windows", [](const KernelWork& work) {
                                 return output_lines(work) * work.taps * std::fmod(channels(work), 32);
                               }};
constexpr Feature kPaddedOutputs{"padded_outputs", [](const KernelWork& work) {
                                   return work.rows * work.groups * blocks(work.outputs, 16);
                                 }};
constexpr Feature kImageLines{"image_lines", image_lines};
constexpr Feature kLineBlocks{
    "line_blocks", [](const KernelWork& work) { return image_lines(work) * std::ceil(work.outputs / 64); }};
constexpr Feature kLineSteps{"line_steps", [](const KernelWork& work) {
                               return image_lines(work) * std::ceil(work.outputs / 64) * work.taps *
                                      std::ceil(work.inputs / 64);
                             }};
/// Of windows that kernels with half of them as padding do not compute.
constexpr Feature kShiftedPatches{"shifted_patches",
                                  [](const KernelWork& work) { return work.is_same ? 0 : patches(work); }};
/// The right one of two matrices.
constexpr Feature kRightValues{
    "right_values", [](const KernelWork& work) { return work.groups * work.inputs * work.outputs; }};

constexpr std::array kConvolutionFeatures{
    kCall,      kProducts,    kPlainProducts, kPatches,       kOddPatches,  kValuesIn,      kValuesOut,
    kTurnedIn,  kTurnedOut,   kWeights,       kColumns,       kTails,       kLineBlocks,    kLineSteps,
    kFarValues, kSimplePosts, kHeavyPosts,    kFunctionPosts, kTensorPosts, kShiftedPatches};
constexpr std::array kGroupedFeatures{
    kCall,      kProducts,    kPlainProducts, kPatches,       kOddPatches,  kValuesIn,      kValuesOut,
    kTurnedIn,  kTurnedOut,   kWeights,       kGroupRows,     kTails,       kImageLines,    kLineSteps,
    kFarValues, kSimplePosts, kHeavyPosts,    kFunctionPosts, kTensorPosts, kShiftedPatches};
constexpr std::array kDepthwiseFeatures{kCall,       kWindowValues,  kPlainProducts, kValuesIn,
                                        kValuesOut,  kTurnedIn,      kTurnedOut,     kColumns,
                                        kRows,       kLineBlocks,    kFarValues,     kSimplePosts,
                                        kHeavyPosts, kFunctionPosts, kTensorPosts,   kShiftedPatches};
constexpr std::array kOwnDepthwiseFeatures{kCall,       kWideWindowValues, kValuesIn,   kValuesOut,
                                           kTurnedIn,   kTurnedOut,        kColumns,    kRows,
                                           kImageLines, kFarValues,        kSimplePosts};
constexpr std::array kLinearFeatures{kCall,       kProducts,      kOddPatches, kValuesIn, kValuesOut,
                                     kWeights,    kColumns,       kRows,       kTails,    kSimplePosts,
                                     kHeavyPosts, kFunctionPosts, kTensorPosts};
/// Of a matrix and a vector.
constexpr std::array kVectorFeatures{kCall,        kWeights,    kValuesIn,      kValuesOut,  kTails,
                                     kSimplePosts, kHeavyPosts, kFunctionPosts, kTensorPosts};
constexpr std::array kProductFeatures{kCall,   kProducts,  kPlainProducts, kValuesIn,   kValuesOut,
                                      kGroups, kGroupRows, kFarValues,     kRightValues};
constexpr std::array kAttentionFeatures{kCall, kPlainProducts, kScores, kValuesIn, kGroups, kGroupRows};
constexpr std::array kRecurrentFeatures{kCall,    kSteps, kPlainProducts, kWeightsOfSteps, kValuesOut,
                                        kWeights, kLines, kPaddedOutputs, kPaddedValues};
constexpr std::array kLineFeatures{kCall, kValuesIn, kLines, kPaddedValues, kFarValues};
constexpr std::array kValueFeatures{kCall,        kValuesIn,     kValuesOut,  kLines,
                                    kOutputLines, kPaddedValues, kChannels,   kEdges,
                                    kFarValues,   kSimplePosts,  kHeavyPosts, kFunctionPosts};
constexpr std::array kBroadcastFeatures{kCall,        kValuesIn,  kValuesOut, kLines,    kEdges,
                                        kOutputLines, kOddValues, kChannels,  kFarValues};
constexpr std::array kPoolFeatures{kCall,    kValuesIn,    kValuesOut,   kLines,        kOutputLines,
                                   kWindows, kWindowLines, kTailWindows, kPaddedValues, kFarValues};
constexpr std::array kCallFeatures{kCall};
constexpr std::array kInterpreterFeatures{kCall, kSteps};
constexpr std::array kProgramCallFeatures{kCall, kSteps, kRows};

/// From this many groups on, the engine x86 takes fbgemm's kernels.
constexpr double kManyGroups = 100;

bool always(const KernelWork&) { return true; }
bool is_depthwise(const KernelWork& work) { return work.groups > 1 && work.inputs == 1 && work.outputs == 1; }
bool has_many_groups(const KernelWork& work) { return work.groups > kManyGroups; }
/// What fbgemm's depthwise kernels take.
bool is_regular(const KernelWork& work) { return work.is_same && std::fmod(work.groups, 8) == 0; }
bool is_own_depthwise(const KernelWork& work) {
  const bool has_window = work.taps == 9 || work.taps == 25 || work.taps == 49;
  return is_depthwise(work) && has_window && 4 * work.groups >= 3 * blocks(work.groups, 64) &&
         work.function_posts + work.heavy_posts + work.tensor_posts == 0;
}
bool is_regular_depthwise(const KernelWork& work) {
  return is_depthwise(work) && is_regular(work) && !has_many_groups(work);
}
bool is_wide_depthwise(const KernelWork& work) { return is_depthwise(work) && is_regular(work); }
bool is_odd_depthwise(const KernelWork& work) { return is_depthwise(work) && !has_many_groups(work); }
bool is_grouped(const KernelWork& work) { return work.groups > 1 && !has_many_groups(work); }
bool has_groups(const KernelWork& work) { return work.groups > 1; }
bool is_pointwise(const KernelWork& work) { return work.taps == 1; }
bool is_strided_pointwise(const KernelWork& work) { return work.taps == 1 && work.is_strided; }
/// An image or a signal that LibTorch leaves to its own kernel: see kFloatImages.
bool is_small_signal(const KernelWork& work) {
  return work.groups == 1 && work.batch == 1 && work.values_in <= 20480;
}
bool is_small(const KernelWork& work) { return is_small_signal(work) && work.taps <= 9; }
bool is_small_pointwise(const KernelWork& work) { return is_small_signal(work) && work.taps == 1; }
bool has_few_inputs(const KernelWork& work) { return work.inputs < 4; }
bool is_turned_image(const KernelWork& work) { return work.is_turned; }
bool is_returned(const KernelWork& work) { return work.is_returned; }
bool is_channels_last(const KernelWork& work) { return work.is_channels_last; }
bool is_with_number(const KernelWork& work) { return work.values_in <= work.values_out; }
bool is_broadcast(const KernelWork& work) { return work.values_in < 1.5 * work.values_out; }
bool is_one_row(const KernelWork& work) { return work.rows == 1; }
bool is_one_column(const KernelWork& work) { return work.outputs == 1; }

/// A group of rows that kernels share.
struct Variant {
  std::string_view name;
  bool (*applies)(const KernelWork& work);
  std::span<const Feature> features;
};

/// The variants of one list before those of another.
template <std::size_t kFirst, std::size_t kRest>
constexpr std::array<Variant, kFirst + kRest> before(const std::array<Variant, kFirst>& first,
                                                     const std::array<Variant, kRest>& rest) {
  std::array<Variant, kFirst + kRest> all{};
  std::ranges::copy(rest, std::ranges::copy(first, all.begin()).out);
  return all;
}

/// Of one group.
constexpr std::array kWhole{
    Variant{"strided pointwise", is_strided_pointwise, kConvolutionFeatures},
    Variant{"pointwise", is_pointwise, kConvolutionFeatures},
    Variant{"few inputs", has_few_inputs, kConvolutionFeatures},
    Variant{"", always, kConvolutionFeatures},
};
constexpr auto kConvolution = before(
    std::array{
        Variant{"regular depthwise", is_regular_depthwise, kDepthwiseFeatures},
        Variant{"wide depthwise", is_wide_depthwise, kDepthwiseFeatures},
        Variant{"odd depthwise", is_odd_depthwise, kDepthwiseFeatures},
        Variant{"wide odd depthwise", is_depthwise, kDepthwiseFeatures},
        Variant{"grouped", is_grouped, kGroupedFeatures},
        Variant{"many groups", has_groups, kGroupedFeatures},
    },
    kWhole);
/// LibTorch leaves small images to its own kernel (ATen/native/Convolution.cpp, use_mkldnn).
constexpr auto kFloatImages =
    before(std::array{Variant{"small pointwise", is_small_pointwise, kConvolutionFeatures},
                      Variant{"small", is_small, kConvolutionFeatures}},
           kConvolution);
constexpr auto kFloatSignals =
    before(std::array{Variant{"small pointwise", is_small_pointwise, kConvolutionFeatures},
                      Variant{"small", is_small_signal, kConvolutionFeatures}},
           kConvolution);
constexpr std::array kFloatTransposed{
    Variant{"small", is_small_signal, kConvolutionFeatures},
    Variant{"", always, kConvolutionFeatures},
};
/// Of int8 programs: the runtime's own kernel is for windows of 3, 5 and 7 (primitives/depthwise.cpp).
constexpr auto kOfPrograms =
    before(std::array{Variant{"own depthwise", is_own_depthwise, kOwnDepthwiseFeatures},
                      Variant{"depthwise", is_depthwise, kDepthwiseFeatures},
                      Variant{"grouped", has_groups, kGroupedFeatures}},
           kWhole);
constexpr std::array kLinearLayers{
    Variant{"one row", is_one_row, kVectorFeatures},
    Variant{"one column", is_one_column, kVectorFeatures},
    Variant{"", always, kLinearFeatures},
};
constexpr std::array kTransposed{Variant{"", always, kConvolutionFeatures}};
constexpr std::array kProduct{Variant{"", always, kProductFeatures}};
constexpr std::array kAttention{Variant{"", always, kAttentionFeatures}};
constexpr std::array kRecurrentLayers{Variant{"", always, kRecurrentFeatures}};
constexpr std::array kOfLines{Variant{"", always, kLineFeatures}};
constexpr std::array kOfValues{
    Variant{"turned", is_turned_image, kValueFeatures},
    Variant{"returned", is_returned, kValueFeatures},
    Variant{"channels last", is_channels_last, kValueFeatures},
    Variant{"", always, kValueFeatures},
};
/// Of two tensors, or of one and a number or a smaller tensor.
constexpr std::array kOfTwo{
    Variant{"number", is_with_number, kValueFeatures},
    Variant{"broadcast", is_broadcast, kBroadcastFeatures},
    Variant{"", always, kValueFeatures},
};
constexpr std::array kOfSlopes{Variant{"", always, kBroadcastFeatures}};
constexpr std::array kPool{
    Variant{"channels last", is_channels_last, kPoolFeatures},
    Variant{"", always, kPoolFeatures},
};
constexpr std::array kOfCalls{Variant{"", always, kCallFeatures}};
constexpr std::array kOfInterpreter{Variant{"", always, kInterpreterFeatures}};
constexpr std::array kOfProgram{Variant{"", always, kProgramCallFeatures}};

/// The kernels whose time is not that of values alone.
struct KernelRows {
  std::string_view kernel;
  std::span<const Variant> variants;
  std::string_view same_as{};  ///< the kernel that is measured in its place
  bool has_layouts{false};     ///< whether LibTorch has other code for channels that lie side by side
};

constexpr std::array kKernelRows{
    KernelRows{"quantized::conv1d", kConvolution},
    KernelRows{"quantized::conv1d_relu", kConvolution, "quantized::conv1d"},
    KernelRows{"quantized::conv2d", kConvolution},
    KernelRows{"quantized::conv2d_relu", kConvolution, "quantized::conv2d"},
    KernelRows{"quantized::conv2d_add", kConvolution, "quantized::conv2d"},
    KernelRows{"quantized::conv2d_add_relu", kConvolution, "quantized::conv2d"},
    KernelRows{"quantized::conv3d", kConvolution},
    KernelRows{"quantized::conv3d_relu", kConvolution, "quantized::conv3d"},
    KernelRows{"quantized::conv_transpose1d", kTransposed},
    KernelRows{"quantized::conv_transpose2d", kTransposed},
    KernelRows{"onednn::qconv1d_pointwise", kConvolution},
    KernelRows{"onednn::qconv2d_pointwise", kConvolution},
    KernelRows{"quantized::linear", kLinearLayers},
    KernelRows{"quantized::linear_relu", kLinearLayers, "quantized::linear"},
    KernelRows{"quantized::linear_leaky_relu", kLinearLayers, "quantized::linear"},
    KernelRows{"quantized::linear_tanh", kLinearLayers, "quantized::linear"},
    KernelRows{"quantized::linear_with_input_q_dq_qweight_dq_output_fp32", kLinearLayers},
    KernelRows{"quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32", kLinearLayers,
               "quantized::linear_with_input_q_dq_qweight_dq_output_fp32"},
    KernelRows{"quantized::linear_dynamic", kLinearLayers},
    KernelRows{"quantized::linear_relu_dynamic", kLinearLayers, "quantized::linear_dynamic"},
    KernelRows{"quantized::linear_dynamic_fp16", kLinearLayers},
    KernelRows{"quantized::linear_relu_dynamic_fp16", kLinearLayers, "quantized::linear_dynamic_fp16"},
    KernelRows{"quantized::matmul", kProduct},
    KernelRows{"aten::conv1d", kFloatSignals, "", true},
    KernelRows{"aten::conv2d", kFloatImages, "", true},
    KernelRows{"aten::convolution", kFloatImages, "aten::conv2d", true},
    KernelRows{"aten::_convolution", kFloatImages, "aten::conv2d", true},
    KernelRows{"aten::conv3d", kConvolution},
    KernelRows{"aten::conv_transpose1d", kFloatTransposed},
    KernelRows{"aten::conv_transpose2d", kFloatTransposed},
    KernelRows{"aten::linear", kLinearLayers},
    KernelRows{"aten::addmm", kLinearLayers, "aten::linear"},
    KernelRows{"aten::mm", kLinearLayers, "aten::linear"},
    KernelRows{"aten::bmm", kProduct},
    KernelRows{"aten::matmul", kProduct},
    KernelRows{"aten::baddbmm", kProduct, "aten::bmm"},
    KernelRows{"aten::scaled_dot_product_attention", kAttention},
    KernelRows{"aten::lstm", kRecurrentLayers},
    KernelRows{"aten::gru", kRecurrentLayers},
    KernelRows{"aten::quantized_lstm", kRecurrentLayers},
    KernelRows{"aten::quantized_gru", kRecurrentLayers},
    KernelRows{"aten::softmax", kOfLines},
    KernelRows{"aten::layer_norm", kOfLines},
    KernelRows{"quantized::softmax", kOfLines},
    KernelRows{"quantized::layer_norm", kOfLines},
    KernelRows{"int8 convolution", kOfPrograms},
    KernelRows{"float convolution", kOfPrograms},
    KernelRows{"int8 transposed_convolution", kTransposed},
    KernelRows{"float transposed_convolution", kTransposed},
    KernelRows{"int8 linear", kLinearLayers},
    KernelRows{"float linear", kLinearLayers},
    KernelRows{"int8 matmul", kProduct},
    KernelRows{"float matmul", kProduct},
    KernelRows{"int8 attention", kAttention},
    KernelRows{"float attention", kAttention},
    KernelRows{"int8 lstm", kRecurrentLayers},
    KernelRows{"int8 gru", kRecurrentLayers},
    KernelRows{"float lstm", kRecurrentLayers},
    KernelRows{"float gru", kRecurrentLayers},
    KernelRows{"int8 softmax", kOfLines},
    KernelRows{"float softmax", kOfLines},
    KernelRows{"int8 layer_norm", kOfLines},
    KernelRows{"float layer_norm", kOfLines},
    KernelRows{"aten::max_pool1d", kPool},
    KernelRows{"aten::max_pool2d", kPool},
    KernelRows{"aten::avg_pool1d", kPool},
    KernelRows{"aten::avg_pool2d", kPool},
    KernelRows{"int8 max_pool", kPool},
    KernelRows{"float max_pool", kPool},
    KernelRows{"int8 avg_pool", kPool},
    KernelRows{"float avg_pool", kPool},
    KernelRows{"aten::pad", kOfValues, "aten::constant_pad_nd"},
    KernelRows{"aten::relu6", kOfValues, "aten::hardtanh"},
    KernelRows{"aten::clamp", kOfValues, "aten::hardtanh"},
    KernelRows{"aten::add", kOfTwo, "", true},
    KernelRows{"aten::sub", kOfTwo, "", true},
    KernelRows{"aten::mul", kOfTwo, "", true},
    KernelRows{"aten::div", kOfTwo, "", true},
    KernelRows{"quantized::add", kOfTwo, "", true},
    KernelRows{"quantized::mul", kOfTwo, "", true},
    KernelRows{"quantized::prelu", kOfSlopes, "", true},
    KernelRows{"program call", kOfProgram},
    KernelRows{"interpreter", kOfInterpreter},
    KernelRows{"view", kOfCalls},
};

/// Operators that make another view of a tensor.
constexpr std::array kViews{"aten::view",      "aten::reshape",   "aten::permute",   "aten::transpose",
                            "aten::t",         "aten::unsqueeze", "aten::squeeze",   "aten::flatten",
                            "aten::select",    "aten::slice",     "aten::chunk",     "aten::split",
                            "aten::narrow",    "aten::expand",    "aten::expand_as", "aten::detach",
                            "aten::unflatten", "aten::alias",     "aten::unbind",    "aten::size",
                            "aten::dropout",   "aten::numpy_T",   "aten::unfold",    "aten::as_strided"};
constexpr KernelRows kView{"aten::slice", kOfCalls};

/// In-place operators take as long as others: without the line at the end.
std::string_view out_of_place(std::string_view kernel) {
  if (kernel.ends_with('_')) kernel.remove_suffix(1);
  return kernel;
}

}  // namespace

std::vector<TimeRow> time_rows(std::string_view kernel, const KernelWork& work) {
  const std::string_view plain = out_of_place(kernel);
  const auto found = std::ranges::find(kKernelRows, plain, &KernelRows::kernel);
  const bool is_view = std::ranges::find(kViews, plain) != kViews.end();
  const KernelRows values{plain, kOfValues};
  const KernelRows& rows = is_view ? kView : found != kKernelRows.end() ? *found : values;
  std::vector<TimeRow> result;
  for (const Variant& variant : rows.variants) {
    if (!variant.applies(work)) continue;
    result.push_back({.kernel = rows.same_as.empty() ? rows.kernel : rows.same_as,
                      .variant = variant.name,
                      .features = variant.features,
                      .is_of_engine = !is_view,
                      .is_channels_last = rows.has_layouts && work.is_channels_last});
  }
  return result;
}

std::string name_of(const TimeRow& row, std::string_view engine) {
  std::string name(row.is_of_engine ? engine : std::string_view());
  const std::string_view layout = row.is_channels_last ? "channels last" : "";
  for (const std::string_view word : {row.kernel, row.variant, layout}) {
    if (!name.empty() && !word.empty()) name += ' ';
    name += word;
  }
  return name;
}

std::vector<double> feature_values(const TimeRow& row, const KernelWork& work) {
  std::vector<double> values;
  for (const Feature& feature : row.features) values.push_back(feature.value(work));
  return values;
}

}  // namespace tsq::kernels
