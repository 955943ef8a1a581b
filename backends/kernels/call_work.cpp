#include "backends/kernels/call_work.h"

#include <ATen/native/quantized/PackedParams.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace tsq::kernels {
namespace {

using CallValues = std::span<const c10::IValue>;

double count(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 1.0, [](double product, std::int64_t size) {
    return product * static_cast<double>(size);
  });
}

double last_size(const Sizes& sizes) { return sizes.empty() ? 1 : static_cast<double>(sizes.back()); }

std::int64_t number_at(const Sizes& numbers, std::size_t place, std::int64_t standard) {
  if (numbers.empty()) return standard;
  return numbers[std::min(place, numbers.size() - 1)];
}

void add_sizes_of(const c10::IValue& value, std::vector<Sizes>& sizes) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) sizes.push_back(value.toTensor().sizes().vec());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) sizes.push_back(tensor.sizes().vec());
  } else if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) add_sizes_of(element, sizes);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor && tensor->defined()) sizes.push_back(tensor->sizes().vec());
    }
  }
}

std::vector<Sizes> sizes_of(CallValues values) {
  std::vector<Sizes> sizes;
  for (const c10::IValue& value : values) add_sizes_of(value, sizes);
  return sizes;
}

Sizes tensor_sizes(CallValues arguments, std::size_t place) {
  if (place >= arguments.size() || !arguments[place].isTensor() || !arguments[place].toTensor().defined())
    return {};
  return arguments[place].toTensor().sizes().vec();
}

Sizes numbers(CallValues arguments, std::size_t place) {
  if (place >= arguments.size()) return {};
  if (arguments[place].isIntList()) return arguments[place].toIntVector();
  if (arguments[place].isInt()) return {arguments[place].toInt()};
  return {};
}

bool lies_channels_last(CallValues arguments) {
  for (const c10::IValue& value : arguments) {
    if (value.isTensor() && value.toTensor().defined())
      return value.toTensor().dim() >= 3 && !value.toTensor().is_contiguous();
    if (value.isTensorList() && value.toTensorVector().size() > 0)
      return value.toTensorVector().front().dim() >= 3 && !value.toTensorVector().front().is_contiguous();
  }
  return false;
}

/// Of an operator over values. `taps`: of a window.
KernelWork work_of_values(CallValues arguments, CallValues results, double taps = 1) {
  KernelWork work = values_work(sizes_of(arguments), sizes_of(results));
  work.taps = taps;
  work.is_channels_last = lies_channels_last(arguments);
  const std::vector<Sizes> first = sizes_of(arguments.first(std::min<std::size_t>(1, arguments.size())));
  if (work.is_channels_last && !first.empty())
    work.lines = count(first.front()) / std::max(1.0, static_cast<double>(first.front()[1]));
  return work;
}

/// aten::max_pool2d(input, window, …).
KernelWork pool(CallValues arguments, CallValues results) {
  const Sizes window =
      arguments.size() > 1 && arguments[1].isIntList() ? arguments[1].toIntVector() : Sizes{};
  return work_of_values(arguments, results, count(window));
}

/// The result of an operator.
Sizes result_sizes(CallValues results) { return tensor_sizes(results, 0); }

template <int kDims>
bool add_packed(const c10::IValue& packed, ConvolutionSizes& sizes) {
  if (!packed.isObject() || packed.toObjectRef().slots().size() != 1) return false;
  const c10::IValue& held = packed.toObjectRef().getSlot(0);
  if (!held.isCapsule()) return false;
  const auto params = c10::dynamic_intrusive_pointer_cast<ConvPackedParamsBase<kDims>>(held.toCapsule());
  if (!params) return false;
  sizes.weight = std::get<0>(params->unpack()).sizes().vec();
  sizes.stride = params->stride().vec();
  sizes.padding = params->padding().vec();
  sizes.dilation = params->dilation().vec();
  sizes.groups = params->groups();
  sizes.is_transposed = params->transpose();
  return true;
}

KernelWork packed_convolution(CallValues arguments, CallValues results) {
  ConvolutionSizes sizes{.input = tensor_sizes(arguments, 0), .output = result_sizes(results)};
  for (const c10::IValue& value : arguments) {
    if (add_packed<2>(value, sizes) || add_packed<3>(value, sizes)) break;
  }
  return convolution_work(sizes);
}

/// aten::conv2d(input, weight, bias, stride, padding, dilation, groups).
KernelWork float_convolution(CallValues arguments, CallValues results) {
  KernelWork work =
      convolution_work({.input = tensor_sizes(arguments, 0),
                        .output = result_sizes(results),
                        .weight = tensor_sizes(arguments, 1),
                        .stride = numbers(arguments, 3),
                        .padding = numbers(arguments, 4),
                        .dilation = numbers(arguments, 5),
                        .groups = arguments.size() > 6 && arguments[6].isInt() ? arguments[6].toInt() : 1});
  work.is_channels_last = lies_channels_last(arguments);
  return work;
}

/// aten::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups).
KernelWork any_convolution(CallValues arguments, CallValues results) {
  return convolution_work({.input = tensor_sizes(arguments, 0),
                           .output = result_sizes(results),
                           .weight = tensor_sizes(arguments, 1),
                           .stride = numbers(arguments, 3),
                           .padding = numbers(arguments, 4),
                           .dilation = numbers(arguments, 5),
                           .groups = arguments[8].toInt(),
                           .is_transposed = arguments[6].toBool()});
}

/// aten::conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation).
KernelWork transposed_convolution(CallValues arguments, CallValues results) {
  return convolution_work({.input = tensor_sizes(arguments, 0),
                           .output = result_sizes(results),
                           .weight = tensor_sizes(arguments, 1),
                           .stride = numbers(arguments, 3),
                           .padding = numbers(arguments, 4),
                           .dilation = numbers(arguments, 7),
                           .groups = arguments[6].toInt(),
                           .is_transposed = true});
}

/// onednn::qconv2d_pointwise(x, scale, zero point, weight, weight scales, weight zero points, bias, stride,
/// padding, dilation, groups, …); one that adds has the addend before its stride.
KernelWork pointwise_convolution(CallValues arguments, CallValues results) {
  const std::size_t stride = arguments.size() > 7 && arguments[7].isIntList() ? 7 : 8;
  if (arguments.size() <= stride + 3) return values_work(sizes_of(arguments), sizes_of(results));
  KernelWork work = convolution_work({.input = tensor_sizes(arguments, 0),
                                      .output = result_sizes(results),
                                      .weight = tensor_sizes(arguments, 3),
                                      .stride = numbers(arguments, stride),
                                      .padding = numbers(arguments, stride + 1),
                                      .dilation = numbers(arguments, stride + 2),
                                      .groups = arguments[stride + 3].toInt()});
  const bool has_activation = arguments.size() > stride + 7 && arguments[stride + 7].isString();
  const std::string activation = has_activation ? arguments[stride + 7].toStringRef() : "none";
  if (activation == "swish" || activation == "sigmoid") work.function_posts = work.values_out;
  if (activation == "relu" || activation == "hardswish" || activation == "hardtanh")
    work.simple_posts = work.values_out;
  return work;
}

/// A layer whose input comes first, and whose result has the outputs as its last dimension.
KernelWork linear(CallValues arguments, CallValues results) {
  const Sizes input = tensor_sizes(arguments, 0);
  const double inputs = last_size(input);
  return linear_work(count(input) / std::max(inputs, 1.0), inputs, last_size(result_sizes(results)));
}

/// A product of matrices, or of a batch of them, whose right operand is `place`.
KernelWork product(CallValues arguments, CallValues results, std::size_t place) {
  const Sizes left = tensor_sizes(arguments, place - 1);
  const Sizes right = tensor_sizes(arguments, place);
  const Sizes result = result_sizes(results);
  const double inputs = last_size(left);
  const double outputs = right.size() > 1 ? last_size(right) : 1;
  const double all_rows = count(left) / std::max(inputs, 1.0);
  if (right.size() <= 2) return linear_work(all_rows, inputs, outputs);
  const double rows = left.size() > 1 ? static_cast<double>(left[left.size() - 2]) : 1;
  KernelWork work = linear_work(rows, inputs, outputs);
  work.groups = std::max(1.0, count(result) / std::max(1.0, rows * outputs));
  work.values_in = count(left) + count(right);
  work.values_out = count(result);
  work.weights = 0;
  return work;
}
KernelWork product_of_two(CallValues arguments, CallValues results) { return product(arguments, results, 1); }
KernelWork product_with_addend(CallValues arguments, CallValues results) {
  return product(arguments, results, 2);
}

/// aten::scaled_dot_product_attention(query, key, value, …).
KernelWork attention(CallValues arguments, CallValues results) {
  const Sizes query = tensor_sizes(arguments, 0);
  const Sizes key = tensor_sizes(arguments, 1);
  KernelWork work = values_work(sizes_of(arguments.first(3)), sizes_of(results));
  if (query.size() < 2 || key.size() < 2) return work;
  work.rows = static_cast<double>(query[query.size() - 2]);
  work.outputs = static_cast<double>(key[key.size() - 2]);
  work.inputs = last_size(query);
  work.groups = count(query) / std::max(1.0, work.rows * work.inputs);
  return work;
}

/// aten::lstm(input, states, weights…), aten::quantized_lstm(input, states, cells…). Numbers of all weights
/// are known where they are tensors; of packed ones, from the states.
KernelWork recurrent(CallValues arguments, CallValues results) {
  const Sizes input = tensor_sizes(arguments, 0);
  const std::vector<Sizes> states = sizes_of(arguments.subspan(1, 1));
  return recurrent_work(
      {.input = input,
       .hidden = states.empty() ? std::max(1.0, last_size(input)) : last_size(states.front()),
       .layers = states.empty() || states.front().empty() ? 1 : static_cast<double>(states.front()[0]),
       .values_out = values_work({}, sizes_of(results.first(1))).values_out});
}

/// aten::embedding(weight, indices): reads rows of the table alone.
KernelWork embedding(CallValues /*arguments*/, CallValues results) {
  return values_work(sizes_of(results), sizes_of(results));
}

struct WorkRow {
  std::string_view name;
  KernelWork (*work)(CallValues arguments, CallValues results);
};

constexpr std::array kWorks{
    WorkRow{"aten::conv1d", float_convolution},
    WorkRow{"aten::conv2d", float_convolution},
    WorkRow{"aten::conv3d", float_convolution},
    WorkRow{"aten::convolution", any_convolution},
    WorkRow{"aten::_convolution", any_convolution},
    WorkRow{"aten::conv_transpose1d", transposed_convolution},
    WorkRow{"aten::conv_transpose2d", transposed_convolution},
    WorkRow{"aten::conv_transpose3d", transposed_convolution},
    WorkRow{"quantized::conv1d", packed_convolution},
    WorkRow{"quantized::conv1d_relu", packed_convolution},
    WorkRow{"quantized::conv2d", packed_convolution},
    WorkRow{"quantized::conv2d_relu", packed_convolution},
    WorkRow{"quantized::conv2d_add", packed_convolution},
    WorkRow{"quantized::conv2d_add_relu", packed_convolution},
    WorkRow{"quantized::conv3d", packed_convolution},
    WorkRow{"quantized::conv3d_relu", packed_convolution},
    WorkRow{"quantized::conv_transpose1d", packed_convolution},
    WorkRow{"quantized::conv_transpose2d", packed_convolution},
    WorkRow{"quantized::conv_transpose3d", packed_convolution},
    WorkRow{"onednn::qconv1d_pointwise", pointwise_convolution},
    WorkRow{"onednn::qconv2d_pointwise", pointwise_convolution},
    WorkRow{"aten::linear", linear},
    WorkRow{"quantized::linear", linear},
    WorkRow{"quantized::linear_relu", linear},
    WorkRow{"quantized::linear_leaky_relu", linear},
    WorkRow{"quantized::linear_tanh", linear},
    WorkRow{"quantized::linear_dynamic", linear},
    WorkRow{"quantized::linear_relu_dynamic", linear},
    WorkRow{"quantized::linear_dynamic_fp16", linear},
    WorkRow{"quantized::linear_relu_dynamic_fp16", linear},
    WorkRow{"quantized::linear_with_input_q_dq_qweight_dq_output_fp32", linear},
    WorkRow{"quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32", linear},
    WorkRow{"onednn::qlinear_pointwise", linear},
    WorkRow{"aten::mm", product_of_two},
    WorkRow{"aten::bmm", product_of_two},
    WorkRow{"aten::matmul", product_of_two},
    WorkRow{"quantized::matmul", product_of_two},
    WorkRow{"aten::addmm", product_with_addend},
    WorkRow{"aten::baddbmm", product_with_addend},
    WorkRow{"aten::scaled_dot_product_attention", attention},
    WorkRow{"aten::lstm", recurrent},
    WorkRow{"aten::gru", recurrent},
    WorkRow{"aten::quantized_lstm", recurrent},
    WorkRow{"aten::quantized_gru", recurrent},
    WorkRow{"aten::embedding", embedding},
    WorkRow{"aten::max_pool1d", pool},
    WorkRow{"aten::max_pool2d", pool},
    WorkRow{"aten::max_pool3d", pool},
    WorkRow{"aten::avg_pool1d", pool},
    WorkRow{"aten::avg_pool2d", pool},
    WorkRow{"aten::avg_pool3d", pool},
};

}  // namespace

KernelWork convolution_work(const ConvolutionSizes& sizes) {
  KernelWork work;
  work.values_in = count(sizes.input);
  work.values_out = count(sizes.output);
  work.weights = count(sizes.weight);
  if (sizes.weight.size() < 3) return work;
  const auto groups = static_cast<double>(sizes.groups);
  if (!sizes.input.empty()) work.batch = static_cast<double>(sizes.input.front());
  const auto first = static_cast<double>(sizes.weight[0]);
  const auto second = static_cast<double>(sizes.weight[1]);
  work.groups = groups;
  work.inputs = sizes.is_transposed ? first / groups : second;
  work.outputs = sizes.is_transposed ? second : first / groups;
  for (std::size_t d = 2; d < sizes.weight.size(); ++d) {
    const std::int64_t window = sizes.weight[d];
    work.taps *= static_cast<double>(window);
    if (number_at(sizes.stride, d - 2, 1) != 1) work.is_strided = true;
    const bool is_half = window % 2 == 1 && number_at(sizes.padding, d - 2, 0) == window / 2;
    if (!is_half || number_at(sizes.dilation, d - 2, 1) != 1) work.is_same = false;
  }
  // Each value of the input of a transposed convolution is multiplied by all taps.
  const double multiplied = sizes.is_transposed ? work.values_in / (groups * work.inputs)
                                                : work.values_out / (groups * work.outputs);
  work.rows = multiplied;
  return work;
}

KernelWork linear_work(double rows, double inputs, double outputs) {
  return {.values_in = rows * inputs,
          .values_out = rows * outputs,
          .weights = inputs * outputs,
          .rows = rows,
          .inputs = inputs,
          .outputs = outputs};
}

KernelWork recurrent_work(const RecurrentSizes& sizes) {
  const std::vector<Sizes> inputs{sizes.input};
  KernelWork work = values_work(inputs, {});
  const double features = std::max(1.0, last_size(sizes.input));
  work.values_out = sizes.values_out;
  work.rows = count(sizes.input) / features;
  work.inputs = features + sizes.hidden;
  work.outputs = sizes.hidden;
  work.groups = sizes.layers;
  work.steps = sizes.input.size() == 3 ? static_cast<double>(std::max(sizes.input[0], sizes.input[1])) : 1;
  work.weights = work.inputs * work.outputs * sizes.layers;
  return work;
}

KernelWork values_work(std::span<const Sizes> inputs, std::span<const Sizes> outputs) {
  KernelWork work;
  for (const Sizes& sizes : inputs) work.values_in += count(sizes);
  for (const Sizes& sizes : outputs) work.values_out += count(sizes);
  if (!inputs.empty()) work.lines = count(inputs.front()) / std::max(1.0, last_size(inputs.front()));
  return work;
}

KernelWork work_of_call(std::string_view name, std::span<const c10::IValue> arguments,
                        std::span<const c10::IValue> results) {
  const auto row = std::ranges::find(kWorks, name, &WorkRow::name);
  if (row != kWorks.end()) return row->work(arguments, results);
  return work_of_values(arguments, results);
}

}  // namespace tsq::kernels
