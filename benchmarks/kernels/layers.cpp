#include "benchmarks/kernels/layers.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <utility>

namespace tsq::benchmarks {
namespace {

std::vector<int64_t> repeated(const Convolution& convolution, int64_t number) {
  return std::vector<int64_t>(static_cast<std::size_t>(convolution.dims), number);
}

std::vector<int64_t> weight_sizes(const Convolution& convolution) {
  std::vector<int64_t> sizes{convolution.channels_out, convolution.channels_in / convolution.groups};
  const std::vector<int64_t> kernel = repeated(convolution, convolution.kernel);
  sizes.insert(sizes.end(), kernel.begin(), kernel.end());
  return sizes;
}

int64_t output_size(const Convolution& convolution) {
  const int64_t reach = convolution.dilation * (convolution.kernel - 1) + 1;
  return (convolution.size + 2 * convolution.padding - reach) / convolution.stride + 1;
}

int64_t power(int64_t number, int64_t dims) { return dims == 1 ? number : number * number; }

const char* prepack_name(const Convolution& convolution) {
  return convolution.dims == 1 ? "quantized::conv1d_prepack" : "quantized::conv2d_prepack";
}

Operator int8_kernel(const Convolution& convolution) {
  return convolution.dims == 1 ? Operator("quantized::conv1d") : Operator("quantized::conv2d.new");
}

at::IValue packed(const Convolution& convolution, const at::Tensor& weight) {
  return Operator(prepack_name(convolution))(
      {weight, at::zeros({convolution.channels_out}), repeated(convolution, convolution.stride),
       repeated(convolution, convolution.padding), repeated(convolution, convolution.dilation),
       convolution.groups});
}

at::IValue packed_linear(int64_t in, int64_t out) {
  return Operator("quantized::linear_prepack")({quantize_weight(at::randn({out, in})), at::zeros({out})});
}

}  // namespace

std::vector<int64_t> input_sizes(const Convolution& convolution) {
  std::vector<int64_t> sizes{1, convolution.channels_in};
  const std::vector<int64_t> spatial = repeated(convolution, convolution.size);
  sizes.insert(sizes.end(), spatial.begin(), spatial.end());
  return sizes;
}

int64_t products(const Convolution& convolution) {
  return convolution.channels_out * (convolution.channels_in / convolution.groups) *
         power(convolution.kernel, convolution.dims) * power(output_size(convolution), convolution.dims);
}

Call float_convolution(const Convolution& convolution) {
  const at::Tensor x = random_float(input_sizes(convolution), /*contiguous=*/true);
  const at::Tensor weight = at::randn(weight_sizes(convolution));
  const at::Tensor bias = at::zeros({convolution.channels_out});
  return [=] {
    at::convolution(x, weight, bias, repeated(convolution, convolution.stride),
                    repeated(convolution, convolution.padding), repeated(convolution, convolution.dilation),
                    /*transposed=*/false, repeated(convolution, 0), convolution.groups);
  };
}

Call int8_convolution(const Convolution& convolution) {
  const at::Tensor x = random_codes(input_sizes(convolution));
  const at::IValue weight = packed(convolution, quantize_weight(at::randn(weight_sizes(convolution))));
  return [x, weight, kernel = int8_kernel(convolution)] { kernel({x, weight, kScale, kZeroPoint}); };
}

at::Tensor sums_of_equal_codes(const Convolution& convolution, int64_t input_code, int64_t weight_code) {
  const auto equal = [](const std::vector<int64_t>& sizes, int64_t code) {
    return at::full(sizes, static_cast<double>(code), at::kFloat);
  };
  const at::Tensor x = at::quantize_per_tensor(equal(input_sizes(convolution), input_code), /*scale=*/1,
                                               /*zero_point=*/0, at::kQUInt8);
  const at::Tensor weight = at::quantize_per_tensor(equal(weight_sizes(convolution), weight_code),
                                                    /*scale=*/1, /*zero_point=*/0, at::kQInt8);
  // All taps within the image, and a code in the upper half of the output's.
  const double largest = static_cast<double>(input_code * weight_code) *
                         static_cast<double>(power(convolution.kernel, convolution.dims)) *
                         static_cast<double>(convolution.channels_in / convolution.groups);
  const at::Tensor result =
      int8_kernel(convolution)({x, packed(convolution, weight), largest / 200, int64_t{0}}).toTensor();
  return result.dequantize();
}

Call pointwise_convolution(const Convolution& convolution, const std::string& post_op, bool returns_bytes) {
  const at::Tensor x = random_codes(input_sizes(convolution)).int_repr();
  const at::Tensor scales = at::full({convolution.channels_out}, kScale, at::kFloat);
  const std::vector<int64_t> stride = repeated(convolution, convolution.stride);
  const std::vector<int64_t> padding = repeated(convolution, convolution.padding);
  const std::vector<int64_t> dilation = repeated(convolution, convolution.dilation);
  const at::Tensor codes = quantize_weight(at::randn(weight_sizes(convolution))).int_repr();
  const at::IValue weight =
      Operator("onednn::qconv_prepack")({codes, scales, kScale, kZeroPoint, stride, padding, dilation,
                                         convolution.groups, input_sizes(convolution)});
  const auto dtype = returns_bytes ? at::kByte : at::kFloat;
  const std::vector<at::IValue> arguments{
      x,
      kScale,
      kZeroPoint,
      weight,
      scales,
      at::zeros({convolution.channels_out}, at::kLong),
      at::zeros({convolution.channels_out}),
      stride,
      padding,
      dilation,
      convolution.groups,
      returns_bytes ? kScale : 1.0,
      returns_bytes ? kZeroPoint : int64_t{0},
      static_cast<int64_t>(dtype),
      post_op,
      c10::impl::GenericList(c10::OptionalType::create(c10::NumberType::get())),
      std::string()};
  const Operator kernel(convolution.dims == 1 ? "onednn::qconv1d_pointwise" : "onednn::qconv2d_pointwise");
  return [kernel, arguments] { kernel(arguments); };
}

int64_t products(const Linear& linear) { return linear.rows * linear.in * linear.out; }

Call float_linear(const Linear& linear) {
  const at::Tensor x = at::randn({linear.rows, linear.in});
  const at::Tensor weight = at::randn({linear.out, linear.in});
  const at::Tensor bias = at::zeros({linear.out});
  return [=] { at::linear(x, weight, bias); };
}

Call int8_linear(const Linear& linear) {
  const at::Tensor x = random_codes({linear.rows, linear.in});
  const at::IValue weight = packed_linear(linear.in, linear.out);
  return [x, weight, kernel = Operator("quantized::linear")] { kernel({x, weight, kScale, kZeroPoint}); };
}

Call static_linear(const at::Tensor& x, int64_t out) {
  const at::IValue weight = packed_linear(x.size(-1), out);
  const Operator kernel("quantized::linear_with_input_q_dq_qweight_dq_output_fp32");
  return [x, weight, kernel] { kernel({x, kScale, kZeroPoint, weight}); };
}

Call dynamic_linear(const at::Tensor& x, int64_t out) {
  const at::IValue weight = packed_linear(x.size(-1), out);
  const Operator kernel("quantized::linear_dynamic");
  return [x, weight, kernel] { kernel({x, weight, /*reduce_range*/ false}); };
}

at::Tensor slopes_of(const std::vector<int64_t>& sizes) { return at::full({sizes[1]}, 0.25); }

Call int8_prelu(const std::vector<int64_t>& sizes) {
  return
      [x = random_codes(sizes), weight = quantize(slopes_of(sizes)), kernel = Operator("quantized::prelu")] {
        kernel({x, weight, kScale, kZeroPoint});
      };
}

Call int8_hardswish(const std::vector<int64_t>& sizes) {
  return [x = random_codes(sizes), kernel = Operator("quantized::hardswish")] {
    kernel({x, kScale, kZeroPoint});
  };
}

int64_t products(const Recurrent& lstm) {
  constexpr int64_t kGates = 4;
  return lstm.steps * kGates * lstm.hidden * (lstm.in + lstm.hidden);
}

Call float_lstm(const Recurrent& lstm) {
  const at::Tensor x = at::randn({1, lstm.steps, lstm.in});
  const std::vector<at::Tensor> state{at::zeros({1, 1, lstm.hidden}), at::zeros({1, 1, lstm.hidden})};
  const int64_t gates = 4 * lstm.hidden;
  const std::vector<at::Tensor> weights{at::randn({gates, lstm.in}), at::randn({gates, lstm.hidden}),
                                        at::zeros({gates}), at::zeros({gates})};
  return [=] {
    at::lstm(x, state, weights, /*has_biases=*/true, /*num_layers=*/1, /*dropout=*/0, /*train=*/false,
             /*bidirectional=*/false, /*batch_first=*/true);
  };
}

Call dynamic_lstm(const Recurrent& lstm) {
  const int64_t gates = 4 * lstm.hidden;
  const at::IValue cell = Operator("quantized::make_quantized_cell_params_dynamic")(
      {packed_linear(lstm.in, gates), packed_linear(lstm.hidden, gates), at::zeros({gates}),
       at::zeros({gates}), /*reduce_range*/ false});
  c10::impl::GenericList cells(cell.type());
  cells.push_back(cell);
  const c10::List<at::Tensor> state({at::zeros({1, 1, lstm.hidden}), at::zeros({1, 1, lstm.hidden})});
  const std::vector<at::IValue> arguments{at::randn({1, lstm.steps, lstm.in}),
                                          state,
                                          cells,
                                          /*has_biases*/ true,
                                          /*num_layers*/ int64_t{1},
                                          /*dropout*/ 0.0,
                                          /*train*/ false,
                                          /*bidirectional*/ false,
                                          /*batch_first*/ true,
                                          static_cast<int64_t>(at::kChar),
                                          /*use_dynamic*/ true};
  return [arguments, kernel = Operator("aten::quantized_lstm.input")] { kernel(arguments); };
}

}  // namespace tsq::benchmarks
