#include <ATen/ops/full.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>

#include "tuning/draw.h"

namespace tsq::tuning {
namespace {

using Numbers = std::vector<std::int64_t>;

// Of one call: bounds that let a thousand calls be measured in a minute. Times beyond grow with the work.
constexpr double kMostProducts = 1.5e8;
constexpr double kLeastProducts = 1e4;
constexpr double kMostValues = 1.5e6;
constexpr double kMostWeights = 2.5e6;

/// A convolution that is drawn; all dimensions have the same numbers.
struct Convolution {
  std::int64_t dims{2};
  std::int64_t batch{1};
  std::int64_t channels_in{1};
  std::int64_t channels_out{1};
  std::int64_t groups{1};
  std::int64_t window{1};
  std::int64_t size{1};
  std::int64_t stride{1};
  std::int64_t padding{0};
  std::int64_t dilation{1};
  bool is_transposed{false};

  [[nodiscard]] std::int64_t output() const {
    const std::int64_t reach = dilation * (window - 1) + 1;
    if (is_transposed) return (size - 1) * stride - 2 * padding + reach;
    return size + 2 * padding < reach ? 0 : (size + 2 * padding - reach) / stride + 1;
  }
  [[nodiscard]] double power(std::int64_t number) const {
    return std::pow(static_cast<double>(number), static_cast<double>(dims));
  }
  [[nodiscard]] Numbers repeated(std::int64_t number) const {
    return Numbers(static_cast<std::size_t>(dims), number);
  }
  [[nodiscard]] Numbers sizes(std::int64_t channels, std::int64_t length) const {
    Numbers sizes{batch, channels};
    for (std::int64_t d = 0; d < dims; ++d) sizes.push_back(length);
    return sizes;
  }
  [[nodiscard]] Numbers weight() const {
    Numbers sizes = is_transposed ? Numbers{channels_in, channels_out / groups}
                                  : Numbers{channels_out, channels_in / groups};
    for (std::int64_t d = 0; d < dims; ++d) sizes.push_back(window);
    return sizes;
  }
  [[nodiscard]] bool is_of_use() const {
    if (output() < 1) return false;
    const double weights = static_cast<double>(channels_out * (channels_in / groups)) * power(window);
    const double positions = static_cast<double>(batch) * power(is_transposed ? size : output());
    const double products = weights * positions;
    const double values =
        static_cast<double>(batch) * std::max(static_cast<double>(channels_in) * power(size),
                                              static_cast<double>(channels_out) * power(output()));
    return products >= kLeastProducts && products <= kMostProducts && values <= kMostValues &&
           weights <= kMostWeights;
  }
};

void draw_channels(Draw& draw, Convolution& drawn) {
  const double kind = draw.share();
  const bool is_image = drawn.dims == 2;
  if (kind < 0.27) {
    drawn.channels_in = draw.channels(8, 2048);
    drawn.channels_out = draw.channels_out(2048);
    if (draw.once_in(5)) drawn.stride = 2;
    return;
  }
  drawn.stride = draw.one_of<std::int64_t>({1, 1, 1, 2});
  drawn.window = draw.one_of<std::int64_t>({3, 3, 3, 3, 3, 3, 3, 5, 7, 2, 4});
  if (kind < 0.35) {
    drawn.channels_in = draw.image_channels();
    drawn.channels_out = draw.channels(8, 256);
    drawn.stride = draw.between(1, 2);
  } else if (kind < 0.6 || !is_image) {
    drawn.channels_in = draw.channels(8, 1024);
    drawn.channels_out = draw.channels_out(1024);
    if (draw.once_in(8)) drawn.dilation = 2;
  } else if (kind < 0.85) {
    drawn.channels_in = drawn.channels_out = drawn.groups = draw.channels(8, 1024);
    drawn.window = draw.one_of<std::int64_t>({3, 3, 3, 5, 7});
  } else {
    drawn.groups = draw.one_of<std::int64_t>({2, 4, 8, 16, 32, 32, 64});
    drawn.channels_in = drawn.groups * draw.group_width();
    drawn.channels_out = draw.once_in(4) ? drawn.groups * draw.group_width() : drawn.channels_in;
  }
}

Convolution drawn_convolution(Draw& draw, std::int64_t dims) {
  while (true) {
    Convolution drawn{.dims = dims};
    drawn.batch = draw.one_of<std::int64_t>({1, 1, 1, 1, 2, 4, 8});
    drawn.size = dims == 1 ? draw.size(8, 4096) : dims == 2 ? draw.size(2, 256) : draw.size(2, 48);
    draw_channels(draw, drawn);
    drawn.padding = draw.once_in(12) ? 0 : drawn.dilation * (drawn.window / 2);
    if (drawn.is_of_use()) return drawn;
  }
}

Convolution drawn_transposed(Draw& draw, std::int64_t dims) {
  while (true) {
    Convolution drawn{.dims = dims, .is_transposed = true};
    drawn.channels_in = draw.channels(4, 512);
    drawn.channels_out = draw.channels(1, 512);
    drawn.size = dims == 1 ? draw.size(8, 2048) : draw.size(2, 96);
    drawn.window = draw.one_of<std::int64_t>({2, 2, 3, 4, 4, 5});
    drawn.stride = draw.one_of<std::int64_t>({1, 2, 2, 2});
    if (drawn.window > 2) drawn.padding = 1;
    if (drawn.is_of_use()) return drawn;
  }
}

std::int64_t dims_of(std::string_view name) {
  return name.find("1d") != std::string_view::npos ? 1 : name.find("3d") != std::string_view::npos ? 3 : 2;
}

Convolution drawn_for(Draw& draw, std::string_view name) {
  const bool is_transposed = name.find("transpose") != std::string_view::npos;
  return is_transposed ? drawn_transposed(draw, dims_of(name)) : drawn_convolution(draw, dims_of(name));
}

KernelCall int8_convolution(Draw& draw, const DrawnKernel& kernel) {
  const Convolution drawn = drawn_for(draw, kernel.name);
  const std::string prepack = std::string(base_name(kernel.name)) + "_prepack";
  const at::Tensor weight = at::randn(drawn.weight());
  std::vector<c10::IValue> packing{
      drawn.is_transposed ? at::quantize_per_tensor(weight, kScale, 0, at::kQInt8) : quantize_weight(weight),
      at::zeros({drawn.channels_out}), drawn.repeated(drawn.stride), drawn.repeated(drawn.padding)};
  if (drawn.is_transposed) packing.emplace_back(drawn.repeated(0));  // what pads the output
  packing.insert(packing.end(), {drawn.repeated(drawn.dilation), drawn.groups});
  return {.name = std::string(kernel.name),
          .arguments = {random_codes(drawn.sizes(drawn.channels_in, drawn.size)), Operator(prepack)(packing),
                        kScale, kZeroPoint}};
}

KernelCall float_convolution(Draw& draw, const DrawnKernel& kernel) {
  const Convolution drawn = drawn_for(draw, kernel.name);
  const at::Tensor x = random_float(drawn.sizes(drawn.channels_in, drawn.size), draw.once_in(2));
  const at::Tensor weight = at::randn(drawn.weight());
  const at::Tensor bias = at::zeros({drawn.channels_out});
  if (drawn.is_transposed) {
    return {.name = std::string(kernel.name),
            .arguments = {x, weight, bias, drawn.repeated(drawn.stride), drawn.repeated(drawn.padding),
                          drawn.repeated(0), drawn.groups, drawn.repeated(drawn.dilation)}};
  }
  return {.name = std::string(kernel.name),
          .arguments = {x, weight, bias, drawn.repeated(drawn.stride), drawn.repeated(drawn.padding),
                        drawn.repeated(drawn.dilation), drawn.groups}};
}

/// onednn::qconv2d_pointwise, which reads bytes and returns floats.
KernelCall pointwise_convolution(Draw& draw, const DrawnKernel& kernel) {
  const Convolution drawn = drawn_for(draw, kernel.name);
  const at::Tensor x = random_codes(drawn.sizes(drawn.channels_in, drawn.size)).int_repr();
  const at::Tensor scales = at::full({drawn.channels_out}, kScale, at::kFloat);
  const c10::IValue weight = Operator("onednn::qconv_prepack")(
      {quantize_weight(at::randn(drawn.weight())).int_repr(), scales, kScale, kZeroPoint,
       drawn.repeated(drawn.stride), drawn.repeated(drawn.padding), drawn.repeated(drawn.dilation),
       drawn.groups, drawn.sizes(drawn.channels_in, drawn.size)});
  const bool is_of_images = kernel.name == "onednn::qconv2d_pointwise";
  const std::string attribute =
      is_of_images ? draw.one_of({"none", "relu", "hardswish", "swish"}) : draw.one_of({"none", "relu"});
  return {.name = std::string(kernel.name),
          .arguments = {x, kScale, kZeroPoint, weight, scales, at::zeros({drawn.channels_out}, at::kLong),
                        at::zeros({drawn.channels_out}), drawn.repeated(drawn.stride),
                        drawn.repeated(drawn.padding), drawn.repeated(drawn.dilation), drawn.groups, 1.0,
                        std::int64_t{0}, static_cast<std::int64_t>(at::kFloat), attribute,
                        c10::impl::GenericList(c10::OptionalType::create(c10::NumberType::get())),
                        std::string()}};
}

struct Linear {
  std::int64_t rows{1};
  std::int64_t inputs{1};
  std::int64_t outputs{1};
};

Linear drawn_linear(Draw& draw) {
  while (true) {
    Linear drawn{.rows = draw.once_in(4) ? 1 : draw.size(1, 4096),
                 .inputs = draw.channels(8, 4096),
                 .outputs = draw.channels(1, 4096)};
    const auto weights = static_cast<double>(drawn.inputs * drawn.outputs);
    const double products = weights * static_cast<double>(drawn.rows);
    const auto values = static_cast<double>(drawn.rows * std::max(drawn.inputs, drawn.outputs));
    if (products >= kLeastProducts && products <= kMostProducts && weights <= kMostWeights &&
        values <= kMostValues)
      return drawn;
  }
}

c10::IValue packed(std::int64_t inputs, std::int64_t outputs) {
  return Operator("quantized::linear_prepack")(
      {quantize_weight(at::randn({outputs, inputs})), at::zeros({outputs})});
}

KernelCall int8_linear(Draw& draw, const DrawnKernel& kernel) {
  const Linear drawn = drawn_linear(draw);
  return {.name = std::string(kernel.name),
          .arguments = {random_codes({drawn.rows, drawn.inputs}), packed(drawn.inputs, drawn.outputs), kScale,
                        kZeroPoint}};
}

/// Floats in, floats out, with the range of the input known before.
KernelCall static_linear(Draw& draw, const DrawnKernel& kernel) {
  const Linear drawn = drawn_linear(draw);
  return {.name = std::string(kernel.name),
          .arguments = {at::randn({drawn.rows, drawn.inputs}), kScale, kZeroPoint,
                        packed(drawn.inputs, drawn.outputs)}};
}

KernelCall dynamic_linear(Draw& draw, const DrawnKernel& kernel) {
  const Linear drawn = drawn_linear(draw);
  return {.name = std::string(kernel.name),
          .arguments = {at::randn({drawn.rows, drawn.inputs}), packed(drawn.inputs, drawn.outputs), false}};
}

KernelCall half_linear(Draw& draw, const DrawnKernel& kernel) {
  const Linear drawn = drawn_linear(draw);
  const c10::IValue weight = Operator("quantized::linear_prepack_fp16")(
      {at::randn({drawn.outputs, drawn.inputs}), at::zeros({drawn.outputs})});
  return {.name = std::string(kernel.name), .arguments = {at::randn({drawn.rows, drawn.inputs}), weight}};
}

KernelCall float_linear(Draw& draw, const DrawnKernel& kernel) {
  const Linear drawn = drawn_linear(draw);
  return {.name = std::string(kernel.name),
          .arguments = {at::randn({drawn.rows, drawn.inputs}), at::randn({drawn.outputs, drawn.inputs}),
                        at::zeros({drawn.outputs})}};
}

/// Heads of an attention, as a product of queries and keys, or of weights and values.
KernelCall matrix_product(Draw& draw, const DrawnKernel& kernel) {
  while (true) {
    const std::int64_t batch = draw.size(1, 64);
    const std::int64_t rows = draw.size(1, 1024);
    const std::int64_t inputs = draw.channels(8, 1024);
    const std::int64_t outputs = draw.channels(8, 1024);
    const double products = static_cast<double>(batch * rows) * static_cast<double>(inputs * outputs);
    if (products < kLeastProducts || products > kMostProducts) continue;
    at::Tensor right = at::randn({batch, inputs, outputs});
    if (draw.once_in(2)) right = at::randn({batch, outputs, inputs}).transpose(1, 2);
    return {.name = std::string(kernel.name), .arguments = {at::randn({batch, rows, inputs}), right}};
  }
}

KernelCall int8_product(Draw& draw, const DrawnKernel& kernel) {
  KernelCall call = matrix_product(draw, kernel);
  for (c10::IValue& operand : call.arguments) operand = quantize(operand.toTensor());
  call.arguments.insert(call.arguments.end(), {kScale, kZeroPoint});
  return call;
}

KernelCall attention(Draw& draw, const DrawnKernel& kernel) {
  const Numbers sizes{1, draw.size(1, 16), draw.size(4, 512), draw.one_of<std::int64_t>({16, 32, 64, 128})};
  return {.name = std::string(kernel.name),
          .arguments = {at::randn(sizes), at::randn(sizes), at::randn(sizes), c10::IValue(), 0.0, false,
                        c10::IValue(), false}};
}

struct Recurrent {
  std::int64_t steps{1};
  std::int64_t inputs{1};
  std::int64_t hidden{1};
  std::int64_t gates{4};
};

Recurrent drawn_recurrent(Draw& draw, std::string_view name) {
  return {.steps = draw.size(1, 64),
          .inputs = draw.channels(8, 512),
          .hidden = draw.channels(8, 512),
          .gates = name.find("lstm") != std::string_view::npos ? 4 : 3};
}

c10::IValue drawn_state(const Recurrent& drawn) {
  const at::Tensor state = at::zeros({1, 1, drawn.hidden});
  if (drawn.gates == 3) return state;
  return c10::List<at::Tensor>({state, state});
}

KernelCall float_recurrent(Draw& draw, const DrawnKernel& kernel) {
  const Recurrent drawn = drawn_recurrent(draw, kernel.name);
  const std::int64_t gates = drawn.gates * drawn.hidden;
  const c10::List<at::Tensor> weights({at::randn({gates, drawn.inputs}), at::randn({gates, drawn.hidden}),
                                       at::zeros({gates}), at::zeros({gates})});
  return {.name = std::string(kernel.name),
          .arguments = {at::randn({1, drawn.steps, drawn.inputs}), drawn_state(drawn), weights, true,
                        std::int64_t{1}, 0.0, false, false, true}};
}

KernelCall dynamic_recurrent(Draw& draw, const DrawnKernel& kernel) {
  const Recurrent drawn = drawn_recurrent(draw, kernel.name);
  const std::int64_t gates = drawn.gates * drawn.hidden;
  const c10::IValue cell = Operator("quantized::make_quantized_cell_params_dynamic")(
      {packed(drawn.inputs, gates), packed(drawn.hidden, gates), at::zeros({gates}), at::zeros({gates}),
       false});
  c10::impl::GenericList cells(cell.type());
  cells.push_back(cell);
  KernelCall call{.name = std::string(kernel.name),
                  .arguments = {at::randn({1, drawn.steps, drawn.inputs}), drawn_state(drawn), cells, true,
                                std::int64_t{1}, 0.0, false, false, true}};
  if (drawn.gates == 4) {
    call.arguments.emplace_back(static_cast<std::int64_t>(at::kChar));
    call.arguments.emplace_back(true);
  }
  return call;
}

constexpr std::array kLayers{
    DrawnKernel{"quantized::conv2d.new", true, int8_convolution, 960},
    DrawnKernel{"quantized::conv1d", true, int8_convolution, 240},
    DrawnKernel{"quantized::conv3d.new", true, int8_convolution, 120},
    DrawnKernel{"quantized::conv_transpose2d", true, int8_convolution, 72},
    DrawnKernel{"quantized::conv_transpose1d", true, int8_convolution, 72},
    DrawnKernel{"onednn::qconv2d_pointwise", false, pointwise_convolution, 720},
    DrawnKernel{"onednn::qconv1d_pointwise", false, pointwise_convolution, 240},
    DrawnKernel{"quantized::linear", true, int8_linear, 288},
    DrawnKernel{"quantized::linear_with_input_q_dq_qweight_dq_output_fp32", true, static_linear, 240},
    DrawnKernel{"quantized::linear_dynamic", true, dynamic_linear, 240},
    DrawnKernel{"quantized::linear_dynamic_fp16", true, half_linear, 72},
    DrawnKernel{"aten::conv2d", false, float_convolution, 960},
    DrawnKernel{"aten::conv1d", false, float_convolution, 240},
    DrawnKernel{"aten::conv3d", false, float_convolution, 96},
    DrawnKernel{"aten::conv_transpose2d.input", false, float_convolution, 72},
    DrawnKernel{"aten::conv_transpose1d", false, float_convolution, 72},
    DrawnKernel{"aten::linear", false, float_linear, 336},
    DrawnKernel{"aten::bmm", false, matrix_product, 96},
    DrawnKernel{"aten::matmul", false, matrix_product, 96},
    DrawnKernel{"quantized::matmul", true, int8_product, 72},
    DrawnKernel{"aten::scaled_dot_product_attention", false, attention, 96},
    DrawnKernel{"aten::lstm.input", false, float_recurrent, 72},
    DrawnKernel{"aten::gru.input", false, float_recurrent, 72},
    DrawnKernel{"aten::quantized_lstm.input", true, dynamic_recurrent, 72},
    DrawnKernel{"aten::quantized_gru.input", true, dynamic_recurrent, 72},
};

}  // namespace

std::span<const DrawnKernel> drawn_layers() { return kLayers; }

}  // namespace tsq::tuning
