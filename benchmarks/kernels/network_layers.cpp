#include "benchmarks/kernels/network_layers.h"

#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/prelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

namespace tsq::benchmarks {
namespace {

constexpr int64_t kChannels = 1;  ///< the axis of channels

/// A float operator of one tensor.
template <at::Tensor (*op)(const at::Tensor&)>
Call float_unary(const std::vector<int64_t>& sizes) {
  return [x = random_float(sizes)] { op(x); };
}

Call float_add(const std::vector<int64_t>& sizes) {
  return [x = random_float(sizes), y = random_float(sizes)] { at::add(x, y); };
}

Call float_mul(const std::vector<int64_t>& sizes) {
  return [x = random_float(sizes), y = random_float(sizes)] { at::mul(x, y); };
}

Call float_cat(const std::vector<int64_t>& sizes) {
  return [x = random_float(sizes), y = random_float(sizes)] { at::cat({x, y}, kChannels); };
}

Call float_prelu(const std::vector<int64_t>& sizes) {
  return [x = random_float(sizes), weight = slopes_of(sizes)] { at::prelu(x, weight); };
}

Call float_gelu(const std::vector<int64_t>& sizes) {
  return [x = random_float(sizes)] { at::gelu(x); };
}

Call float_softmax(const std::vector<int64_t>& sizes) {
  return [x = random_float(sizes, /*contiguous=*/true)] { at::softmax(x, -1); };
}

Call float_layer_norm(const std::vector<int64_t>& sizes) {
  const int64_t features = sizes.back();
  return [x = random_float(sizes, /*contiguous=*/true), weight = at::ones({features}),
          bias = at::zeros({features}), features] { at::layer_norm(x, {features}, weight, bias); };
}

/// The scores of attention: queries [heads, rows, features] times keys.
Call float_scores(const std::vector<int64_t>& sizes) {
  const at::Tensor queries = random_float(sizes, /*contiguous=*/true);
  const at::Tensor keys = random_float(sizes, /*contiguous=*/true).transpose(-1, -2);
  return [queries, keys] { at::matmul(queries, keys); };
}

Call quantize_call(const std::vector<int64_t>& sizes) {
  return [x = random_float(sizes)] { quantize(x); };
}

Call dequantize_call(const std::vector<int64_t>& sizes) {
  return [x = random_codes(sizes)] { x.dequantize(); };
}

Call int_repr_call(const std::vector<int64_t>& sizes) {
  return [x = random_codes(sizes)] { x.int_repr(); };
}

Call int8_relu(const std::vector<int64_t>& sizes) {
  return [x = random_codes(sizes)] { at::relu(x); };
}

Call int8_add(const std::vector<int64_t>& sizes) {
  return [x = random_codes(sizes), y = random_codes(sizes), kernel = Operator("quantized::add")] {
    kernel({x, y, kScale, kZeroPoint});
  };
}

Call int8_mul(const std::vector<int64_t>& sizes) {
  return [x = random_codes(sizes), y = random_codes(sizes), kernel = Operator("quantized::mul")] {
    kernel({x, y, kScale, kZeroPoint});
  };
}

/// A gate for each channel, as squeeze and excitation multiply by.
Call int8_gate(const std::vector<int64_t>& sizes) {
  return [x = random_codes(sizes), gate = random_codes({1, sizes[kChannels], 1, 1}),
          kernel = Operator("quantized::mul")] {
    kernel({x, gate, kScale, kZeroPoint});
  };
}

Call int8_cat(const std::vector<int64_t>& sizes) {
  const c10::List<at::Tensor> parts({random_codes(sizes), random_codes(sizes)});
  return [parts, kernel = Operator("quantized::cat")] { kernel({parts, kChannels, kScale, kZeroPoint}); };
}

Call int8_sigmoid(const std::vector<int64_t>& sizes) {
  constexpr double kOutputScale = 1.0 / 256;  // of all quantized sigmoids: QNNPACK takes no other
  return [x = random_codes(sizes), kernel = Operator("quantized::sigmoid")] {
    kernel({x, kOutputScale, /*zero_point*/ int64_t{0}});
  };
}

}  // namespace

const std::vector<NetworkConvolution>& network_convolutions() {
  static const std::vector<NetworkConvolution> layers{
      {"MobileNetV2",
       {.channels_in = 3, .channels_out = 32, .kernel = 3, .size = 224, .stride = 2, .padding = 1}},
      {"MobileNetV2", {.channels_in = 16, .channels_out = 96, .size = 112}},
      {"MobileNetV2",
       {.channels_in = 96,
        .channels_out = 96,
        .kernel = 3,
        .size = 112,
        .stride = 2,
        .padding = 1,
        .groups = 96}},
      {"MobileNetV2", {.channels_in = 144, .channels_out = 24, .size = 56}},
      {"MobileNetV2",
       {.channels_in = 384, .channels_out = 384, .kernel = 3, .size = 14, .padding = 1, .groups = 384}},
      {"MobileNetV2", {.channels_in = 384, .channels_out = 64, .size = 14}},
      {"MobileNetV2", {.channels_in = 320, .channels_out = 1280, .size = 7}},
      {"EfficientNet-Lite0",
       {.channels_in = 144,
        .channels_out = 144,
        .kernel = 5,
        .size = 56,
        .stride = 2,
        .padding = 2,
        .groups = 144}},
      {"EfficientNet-Lite0", {.channels_in = 240, .channels_out = 40, .size = 28}},
      {"EfficientNet-Lite0",
       {.channels_in = 672, .channels_out = 672, .kernel = 5, .size = 14, .padding = 2, .groups = 672}},
      {"EfficientNet-Lite0", {.channels_in = 192, .channels_out = 1152, .size = 7}},
      {"ResNet-50",
       {.channels_in = 3, .channels_out = 64, .kernel = 7, .size = 224, .stride = 2, .padding = 3}},
      {"ResNet-50", {.channels_in = 64, .channels_out = 64, .kernel = 3, .size = 56, .padding = 1}},
      {"ResNet-50", {.channels_in = 64, .channels_out = 256, .size = 56}},
      {"ResNet-50", {.channels_in = 256, .channels_out = 256, .kernel = 3, .size = 14, .padding = 1}},
      {"ResNet-50", {.channels_in = 1024, .channels_out = 2048, .size = 14, .stride = 2}},
      {"ResNet-50", {.channels_in = 512, .channels_out = 512, .kernel = 3, .size = 7, .padding = 1}},
  };
  return layers;
}

const std::vector<NetworkLinear>& network_linears() {
  static const std::vector<NetworkLinear> layers{
      {"MiniLM", {.in = 384, .out = 384}},        {"MiniLM", {.in = 384, .out = 1536}},
      {"MiniLM", {.in = 1536, .out = 384}},       {"BERT", {.in = 768, .out = 768}},
      {"BERT", {.in = 768, .out = 3072}},         {"BERT", {.in = 3072, .out = 768}},
      {"MobileNetV2", {.in = 1280, .out = 1000}}, {"ResNet-50", {.in = 2048, .out = 1000}},
  };
  return layers;
}

const std::vector<NetworkLstm>& network_lstms() {
  static const std::vector<NetworkLstm> layers{
      {"LSTM", {.steps = 1, .in = 128, .hidden = 128}},
      {"LSTM", {.steps = 50, .in = 128, .hidden = 128}},
      {"LSTM", {.steps = 50, .in = 512, .hidden = 512}},
  };
  return layers;
}

const std::vector<NetworkOperator>& network_operators() {
  static const std::vector<NetworkTensor> maps{{"MobileNetV2", {1, 96, 14, 14}},
                                               {"ResNet-50", {1, 256, 56, 56}}};
  static const std::vector<NetworkTensor> tokens{{"MiniLM", {128, 384}}, {"BERT", {128, 768}}};
  static const std::vector<NetworkTensor> heads{{"MiniLM", {12, 128, 32}}, {"BERT", {12, 128, 64}}};
  static const std::vector<NetworkTensor> scores{{"MiniLM", {12, 128, 128}}};
  static const std::vector<NetworkTensor> wide_tokens{{"MiniLM", {128, 1536}}, {"BERT", {128, 3072}}};
  static const std::vector<NetworkOperator> operators{
      {"quantize", true, quantize_call, maps},
      {"dequantize", true, dequantize_call, maps},
      {"int_repr", true, int_repr_call, maps},
      {"relu", true, float_unary<at::relu>, maps},
      {"hardswish", true, float_unary<at::hardswish>, maps},
      {"silu", true, float_unary<at::silu>, maps},
      {"sigmoid", true, float_unary<at::sigmoid>, maps},
      {"prelu", true, float_prelu, maps},
      {"add", true, float_add, maps},
      {"mul", true, float_mul, maps},
      {"cat", true, float_cat, maps},
      {"gelu", true, float_gelu, wide_tokens},
      {"layer_norm", true, float_layer_norm, tokens},
      {"attention_scores", true, float_scores, heads},
      {"softmax", true, float_softmax, scores},
      {"relu", false, int8_relu, maps},
      {"hardswish", false, int8_hardswish, maps},
      {"sigmoid", false, int8_sigmoid, maps},
      {"prelu", false, int8_prelu, maps},
      {"add", false, int8_add, maps},
      {"mul", false, int8_mul, maps},
      {"mul_by_gate", false, int8_gate, maps},
      {"cat", false, int8_cat, maps},
  };
  return operators;
}

}  // namespace tsq::benchmarks
