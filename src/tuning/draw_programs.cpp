#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>

#include "runtime/program/operation_table.h"
#include "tuning/drawn_program.h"

namespace tsq::tuning {
namespace {

using runtime::Dtype;
using runtime::Kind;
using runtime::Operation;
using runtime::PostOp;
using runtime::PostOpKind;
using runtime::Shape;
using runtime::Value;

const Value kFloats{};
const Value kCodes{.dtype = Dtype::U8, .scale = 0.04, .zero_point = 128};
const Value kOtherCodes{.dtype = Dtype::U8, .scale = 0.05, .zero_point = 100};

/// Writes a program whose operations stand one after another.
class Chain {
 public:
  explicit Chain(const Shape& input) {
    program_.input = at::randn(input);
    last_ = add_value(kFloats);
    program_.model.program.inputs = {last_};
  }

  [[nodiscard]] int last() const { return last_; }
  int constant(const at::Tensor& tensor, Dtype dtype) {
    program_.constants.push_back(tensor);
    program_.model.constants.push_back({.dtype = dtype,
                                        .shape = tensor.sizes().vec(),
                                        .data = {tensor.const_data_ptr(), [](const void*) {}}});
    return static_cast<int>(program_.constants.size()) - 1;
  }
  /// The operation reads what the one before it wrote, unless it names its inputs.
  int add(Operation operation, const Value& written) {
    if (operation.inputs.empty()) operation.inputs = {last_};
    operation.output = last_ = add_value(written);
    program_.model.program.operations.push_back(std::move(operation));
    return last_;
  }
  int convert(const Value& to) { return add({.kind = Kind::Convert}, to); }
  void add_weights(Operation& operation, const Shape& sizes, std::int64_t channels, bool codes) {
    if (codes) {
      // No two neighbouring products leave 16 bits.
      operation.weight = constant(at::randint(-60, 60, sizes, at::kChar), Dtype::S8);
      operation.weight_scales = constant(at::full({channels}, 0.01, at::kFloat), Dtype::F32);
      operation.bounded = true;
    } else {
      operation.weight = constant(at::randn(sizes), Dtype::F32);
    }
    operation.bias = constant(at::zeros({channels}), Dtype::F32);
  }
  /// The program, which returns as floats what was written last: half of the time by an operation of its own.
  DrawnProgram returned(Draw& draw) && {
    if (draw.once_in(2)) convert(kCodes);
    if (program_.model.program.values[static_cast<std::size_t>(last_)].dtype != Dtype::F32) convert(kFloats);
    program_.model.program.outputs = {last_};
    return std::move(program_);
  }

 private:
  int add_value(const Value& value) {
    program_.model.program.values.push_back(value);
    return static_cast<int>(program_.model.program.values.size()) - 1;
  }

  DrawnProgram program_{};
  int last_{-1};
};

bool is_int8(const DrawnOperation& operation) { return operation.name.starts_with("int8 "); }
const Value& written(const DrawnOperation& operation) { return is_int8(operation) ? kOtherCodes : kFloats; }

/// The input of an operation: codes, or floats that another operation has written.
Chain begun(const Shape& input, const DrawnOperation& operation) {
  Chain chain(input);
  chain.convert(kCodes);
  if (!is_int8(operation)) chain.convert(kFloats);
  return chain;
}

void draw_function(Draw& draw, Operation& operation) {
  if (draw.once_in(2)) return;
  const auto kind =
      draw.once_in(3)
          ? draw.one_of({PostOpKind::Sigmoid, PostOpKind::Silu, PostOpKind::Gelu, PostOpKind::Tanh})
          : draw.one_of({PostOpKind::Relu, PostOpKind::Relu, PostOpKind::Hardswish});
  operation.post_ops.push_back({.kind = kind});
}

struct Window {
  std::int64_t in{1};
  std::int64_t out{1};
  std::int64_t groups{1};
  std::int64_t size{1};
  std::int64_t stride{1};
};

Window drawn_window(Draw& draw) {
  const double kind = draw.share();
  if (kind < 0.3) {
    return {.in = draw.channels(8, 1536), .out = draw.channels_out(1536), .stride = draw.once_in(5) ? 2 : 1};
  }
  const std::int64_t size = draw.one_of<std::int64_t>({3, 3, 3, 5, 7});
  const std::int64_t stride = draw.one_of<std::int64_t>({1, 1, 1, 2});
  if (kind < 0.38) return {draw.image_channels(), draw.channels(8, 128), 1, size, draw.between(1, 2)};
  if (kind < 0.65) return {draw.channels(8, 768), draw.channels_out(768), 1, size, stride};
  if (kind < 0.88) {
    const std::int64_t channels = draw.channels(8, 1024);
    return {channels, channels, channels, size, stride};
  }
  const auto groups = draw.one_of<std::int64_t>({2, 4, 8, 16, 32});
  const std::int64_t channels = groups * draw.group_width();
  return {channels, channels, groups, size, stride};
}

std::vector<runtime::Extent> extents(const Shape& sizes) {
  std::vector<runtime::Extent> result;
  for (const std::int64_t size : sizes) result.emplace_back(size);
  return result;
}

constexpr double kMostOfProgram = 1.5e8;
constexpr double kLeastOfProgram = 1e4;

DrawnProgram program_of_convolution(Draw& draw, const DrawnOperation& drawn) {
  const bool is_transposed = drawn.name.find("transposed") != std::string_view::npos;
  while (true) {
    Window window = drawn_window(draw);
    const std::int64_t length = draw.size(2, 256);
    const std::int64_t batch = draw.one_of<std::int64_t>({1, 1, 1, 4});
    if (is_transposed) {
      window.groups = 1;
      window.size = window.stride = draw.one_of<std::int64_t>({2, 2, 3, 4});
      if (window.size == 4) window.stride = 2;
    }
    const std::int64_t padding = is_transposed ? 0 : window.size / 2;
    const std::int64_t output = (length + 2 * padding - window.size) / window.stride + 1;
    const auto positions = static_cast<double>(batch * (is_transposed ? length * length : output * output));
    const auto weights =
        static_cast<double>(window.out * window.in / window.groups * window.size * window.size);
    const auto values = static_cast<double>(batch * std::max(window.in, window.out) * length * length) *
                        (is_transposed ? static_cast<double>(window.stride * window.stride) : 1);
    if (weights * positions > kMostOfProgram || weights * positions < kLeastOfProgram || values > 1.5e6 ||
        weights > 2.5e6)
      continue;
    Chain chain = begun({batch, window.in, length, length}, drawn);
    const int residual = chain.last();
    Operation layer{.kind = is_transposed ? Kind::TransposedConvolution : Kind::Convolution,
                    .stride = {window.stride, window.stride},
                    .padding_begin = {padding, padding},
                    .padding_end = {padding, padding},
                    .groups = window.groups};
    const Shape sizes = is_transposed
                            ? Shape{window.in, window.out, window.size, window.size}
                            : Shape{window.out, window.in / window.groups, window.size, window.size};
    chain.add_weights(layer, sizes, window.out, is_int8(drawn));
    const bool may_add = window.in == window.out && window.stride == 1 && !is_transposed;
    if (may_add && draw.once_in(3)) layer.post_ops.push_back({.kind = PostOpKind::Add, .value = residual});
    draw_function(draw, layer);
    chain.add(std::move(layer), written(drawn));
    return std::move(chain).returned(draw);
  }
}

DrawnProgram program_of_linear(Draw& draw, const DrawnOperation& drawn) {
  while (true) {
    const std::int64_t rows = draw.once_in(4) ? 1 : draw.size(1, 2048);
    const std::int64_t inputs = draw.channels(8, 3072);
    const std::int64_t outputs = draw.channels(1, 3072);
    const double products = static_cast<double>(rows) * static_cast<double>(inputs * outputs);
    if (products > kMostOfProgram || products < kLeastOfProgram || inputs * outputs > 2'500'000 ||
        rows * std::max(inputs, outputs) > 1'000'000)
      continue;
    Chain chain = begun({rows, inputs}, drawn);
    const int residual = chain.last();
    Operation layer{.kind = Kind::Linear};
    chain.add_weights(layer, {outputs, inputs}, outputs, is_int8(drawn));
    if (inputs == outputs && draw.once_in(2))
      layer.post_ops.push_back({.kind = PostOpKind::Add, .value = residual});
    draw_function(draw, layer);
    chain.add(std::move(layer), written(drawn));
    return std::move(chain).returned(draw);
  }
}

DrawnProgram program_of_product(Draw& draw, const DrawnOperation& drawn) {
  const std::int64_t heads = draw.size(1, 16);
  const std::int64_t rows = draw.size(4, 384);
  const auto width = draw.one_of<std::int64_t>({16, 32, 64, 128});
  Chain chain = begun({1, heads, rows, width}, drawn);
  const int left = chain.last();
  const int right =
      chain.add({.kind = Kind::Permute, .order = {0, 1, 3, 2}}, is_int8(drawn) ? kCodes : kFloats);
  Operation layer{.kind = Kind::Matmul, .inputs = {left, right}};
  layer.bounded = false;
  chain.add(std::move(layer), written(drawn));
  return std::move(chain).returned(draw);
}

DrawnProgram program_of_attention(Draw& draw, const DrawnOperation& drawn) {
  const Shape sizes{1, draw.size(1, 16), draw.size(4, 384), draw.one_of<std::int64_t>({16, 32, 64, 128})};
  Chain chain = begun(sizes, drawn);
  const int query = chain.last();
  chain.add({.kind = Kind::Attention, .inputs = {query, query, query}}, written(drawn));
  return std::move(chain).returned(draw);
}

DrawnProgram program_of_recurrent(Draw& draw, const DrawnOperation& drawn) {
  const bool is_lstm = drawn.name.find("lstm") != std::string_view::npos;
  const std::int64_t gates = is_lstm ? 4 : 3;
  const std::int64_t inputs = draw.channels(8, 512);
  const std::int64_t hidden = draw.channels(8, 512);
  const bool codes = is_int8(drawn);
  Chain chain({draw.size(1, 48), draw.size(1, 8), inputs});
  Operation layer{.kind = is_lstm ? Kind::Lstm : Kind::Gru};
  const auto weight = [&](const Shape& sizes) {
    return codes ? chain.constant(at::randint(-60, 60, sizes, at::kChar), Dtype::S8)
                 : chain.constant(at::randn(sizes), Dtype::F32);
  };
  const auto scales = [&] {
    return chain.constant(at::full({gates * hidden}, 0.01, at::kFloat), Dtype::F32);
  };
  layer.weight = weight({gates * hidden, inputs});
  layer.recurrent_weight = weight({gates * hidden, hidden});
  if (codes) {
    layer.weight_scales = scales();
    layer.recurrent_scales = scales();
  }
  layer.bias = chain.constant(at::zeros({gates * hidden}), Dtype::F32);
  layer.recurrent_bias = chain.constant(at::zeros({gates * hidden}), Dtype::F32);
  chain.add(std::move(layer), kFloats);
  return std::move(chain).returned(draw);
}

Shape image_shape(Draw& draw) {
  while (true) {
    const auto [height, width] = draw.image(2, 224);
    const std::int64_t channels = draw.once_in(6) ? draw.image_channels() : draw.channels(4, 1024);
    const Shape sizes{draw.one_of<std::int64_t>({1, 1, 4}), channels, height, width};
    const std::int64_t values = runtime::elements_of(sizes);
    if (values <= 800'000 && values >= 500) return sizes;
  }
}

DrawnProgram program_of_conversion(Draw& draw, const DrawnOperation& /*drawn*/) {
  Chain chain(image_shape(draw));
  chain.convert(kCodes);
  chain.convert(kFloats);
  if (draw.once_in(2)) {
    chain.add({.kind = Kind::Activation, .post_ops = {{.kind = PostOpKind::Gelu}}}, kFloats);
    chain.convert(kCodes);
  } else {
    chain.convert(kOtherCodes);
    chain.convert(kCodes);
  }
  return std::move(chain).returned(draw);
}

/// Conversions of so few numbers that they take no longer than a clock.
DrawnProgram program_of_calls(Draw& draw, const DrawnOperation& /*drawn*/) {
  Chain chain({1, draw.between(16, 64)});
  for (std::int64_t i = draw.between(0, 12); i >= 0; --i) chain.convert(i % 2 == 0 ? kCodes : kOtherCodes);
  DrawnProgram program = std::move(chain).returned(draw);
  program.shows_call = true;
  return program;
}

Kind operation_kind(std::string_view name) {
  name = name.substr(name.find(' ') + 1);
  for (const runtime::OperationRow& row : runtime::operation_table()) {
    if (row.name == name) return row.kind;
  }
  return Kind::Convert;
}

/// A second tensor as large as the last one.
int add_second(Chain& chain, bool codes) {
  chain.convert(codes ? kOtherCodes : kCodes);
  return chain.convert(codes ? kCodes : kFloats);
}

/// Of two tensors of one size.
DrawnProgram program_of_binary(Draw& draw, const DrawnOperation& drawn) {
  Chain chain = begun(image_shape(draw), drawn);
  const int left = chain.last();
  const int right = add_second(chain, is_int8(drawn));
  Operation layer{.kind = operation_kind(drawn.name), .inputs = {left, right}};
  if (draw.once_in(3)) layer.post_ops.push_back({.kind = PostOpKind::Relu});
  chain.add(std::move(layer), written(drawn));
  return std::move(chain).returned(draw);
}

/// Channels times a number for each.
DrawnProgram program_of_scaled(Draw& draw, const DrawnOperation& drawn) {
  Chain chain = begun(image_shape(draw), drawn);
  const int left = chain.last();
  const int right = chain.add({.kind = Kind::GlobalAvgPool}, is_int8(drawn) ? kCodes : kFloats);
  chain.add({.kind = operation_kind(drawn.name), .inputs = {left, right}}, written(drawn));
  return std::move(chain).returned(draw);
}

DrawnProgram program_of_concatenation(Draw& draw, const DrawnOperation& drawn) {
  Chain chain = begun(image_shape(draw), drawn);
  const Value& value = is_int8(drawn) ? kCodes : kFloats;
  const int left = chain.last();
  const int right = add_second(chain, is_int8(drawn));
  const bool requantizes = is_int8(drawn) && draw.once_in(2);
  const Value& joined = requantizes ? kOtherCodes : value;
  chain.add({.kind = Kind::Concat, .inputs = {left, right}, .axis = 1}, joined);
  // In front of layers channels lie last.
  if (!draw.once_in(3)) chain.add({.kind = Kind::GlobalAvgPool}, joined);
  return std::move(chain).returned(draw);
}

DrawnProgram program_of_activation(Draw& draw, const DrawnOperation& drawn) {
  Chain chain = begun(image_shape(draw), drawn);
  const auto kind = draw.one_of({PostOpKind::Relu, PostOpKind::Hardswish, PostOpKind::Sigmoid,
                                 PostOpKind::Silu, PostOpKind::Gelu, PostOpKind::Tanh, PostOpKind::Exp});
  chain.add({.kind = Kind::Activation, .post_ops = {{.kind = kind}}}, written(drawn));
  return std::move(chain).returned(draw);
}

DrawnProgram program_of_pool(Draw& draw, const DrawnOperation& drawn) {
  Shape sizes = image_shape(draw);
  sizes[2] = std::max<std::int64_t>(sizes[2], 4);
  sizes[3] = std::max<std::int64_t>(sizes[3], 4);
  Chain chain = begun(sizes, drawn);
  Operation layer{.kind = operation_kind(drawn.name)};
  const auto window = draw.one_of<std::int64_t>({2, 2, 3, 3});
  if (layer.kind == Kind::AdaptiveAvgPool) {
    layer.size = {runtime::Extent(2), runtime::Extent(2)};
  } else if (layer.kind != Kind::GlobalAvgPool) {
    layer.kernel = {window, window};
    layer.stride = {2, 2};
    layer.padding_begin = layer.padding_end = {window / 3, window / 3};
  }
  const bool keeps_codes = layer.kind == Kind::MaxPool && is_int8(drawn);
  chain.add(std::move(layer), keeps_codes ? kCodes : written(drawn));
  return std::move(chain).returned(draw);
}

DrawnProgram program_of_rows(Draw& draw, const DrawnOperation& drawn) {
  const std::int64_t width = draw.channels(16, 1024);
  Chain chain = begun({draw.size(1, 768), width}, drawn);
  Operation layer{.kind = operation_kind(drawn.name)};
  if (layer.kind == Kind::LayerNorm) {
    layer.weight = chain.constant(at::full({width}, 1.0), Dtype::F32);
    layer.bias = chain.constant(at::zeros({width}), Dtype::F32);
  }
  chain.add(std::move(layer), written(drawn));
  return std::move(chain).returned(draw);
}

/// Channels change places, as between groups.
DrawnProgram program_of_shuffle(Draw& draw, const DrawnOperation& drawn) {
  Shape sizes = image_shape(draw);
  sizes[1] += sizes[1] % 2;
  Chain chain = begun(sizes, drawn);
  const Value& value = is_int8(drawn) ? kCodes : kFloats;
  // After layers channels lie last.
  if (!draw.once_in(3)) {
    chain.add({.kind = Kind::MaxPool,
               .kernel = {3, 3},
               .stride = {1, 1},
               .padding_begin = {1, 1},
               .padding_end = {1, 1}},
              value);
  }
  chain.add({.kind = Kind::Reshape, .shape = extents({sizes[0], 2, sizes[1] / 2, sizes[2], sizes[3]})},
            value);
  chain.add({.kind = Kind::Permute, .order = {0, 2, 1, 3, 4}}, value);
  chain.add({.kind = Kind::Reshape, .shape = extents(sizes)}, value);
  // Floats that are only rounded or returned are copied by the way.
  if (!is_int8(drawn) && draw.once_in(2)) chain.add({.kind = Kind::Mean, .axes = {2, 3}}, kFloats);
  return std::move(chain).returned(draw);
}

/// Over the rows.
DrawnProgram program_of_mean(Draw& draw, const DrawnOperation& drawn) {
  Chain chain = begun({1, draw.size(2, 512), draw.channels(16, 1024)}, drawn);
  chain.add({.kind = Kind::Mean, .axes = {1}}, written(drawn));
  return std::move(chain).returned(draw);
}

DrawnProgram program_of_channels(Draw& draw, const DrawnOperation& drawn) {
  const Shape sizes = image_shape(draw);
  Chain chain = begun(sizes, drawn);
  Operation layer{.kind = operation_kind(drawn.name)};
  layer.weight = chain.constant(at::full({sizes[1]}, 0.5), Dtype::F32);
  if (layer.kind != Kind::Prelu) layer.bias = chain.constant(at::zeros({sizes[1]}), Dtype::F32);
  if (layer.kind == Kind::ScaleShift) layer.axis = 1;
  chain.add(std::move(layer), written(drawn));
  return std::move(chain).returned(draw);
}

DrawnProgram program_of_resized(Draw& draw, const DrawnOperation& drawn) {
  Shape sizes = image_shape(draw);
  sizes[1] = 1 + sizes[1] / 4;
  Chain chain = begun(sizes, drawn);
  Operation layer{.kind = operation_kind(drawn.name)};
  layer.size = {runtime::Extent(2 * sizes[2]), runtime::Extent(2 * sizes[3])};
  const bool keeps_codes = layer.kind == Kind::ResizeNearest && is_int8(drawn);
  chain.add(std::move(layer), keeps_codes ? kCodes : written(drawn));
  return std::move(chain).returned(draw);
}

DrawnProgram program_of_padded(Draw& draw, const DrawnOperation& drawn) {
  Chain chain = begun(image_shape(draw), drawn);
  chain.add({.kind = Kind::Pad, .padding_begin = {1, 1}, .padding_end = {1, 1}},
            is_int8(drawn) ? kCodes : kFloats);
  return std::move(chain).returned(draw);
}

constexpr std::array kOperations{
    DrawnOperation{"program call", program_of_calls},
    DrawnOperation{"quantize", program_of_conversion, 96},
    DrawnOperation{"int8 convolution", program_of_convolution, 720},
    DrawnOperation{"float convolution", program_of_convolution, 720},
    DrawnOperation{"int8 transposed_convolution", program_of_convolution, 72},
    DrawnOperation{"float transposed_convolution", program_of_convolution, 72},
    DrawnOperation{"int8 linear", program_of_linear, 240},
    DrawnOperation{"float linear", program_of_linear, 240},
    DrawnOperation{"int8 matmul", program_of_product, 96},
    DrawnOperation{"float matmul", program_of_product, 96},
    DrawnOperation{"int8 attention", program_of_attention, 96},
    DrawnOperation{"float attention", program_of_attention, 96},
    DrawnOperation{"int8 lstm", program_of_recurrent, 72},
    DrawnOperation{"float lstm", program_of_recurrent, 72},
    DrawnOperation{"int8 gru", program_of_recurrent, 72},
    DrawnOperation{"float gru", program_of_recurrent, 72},
    DrawnOperation{"int8 add", program_of_binary},
    DrawnOperation{"float add", program_of_binary},
    DrawnOperation{"int8 mul", program_of_binary},
    DrawnOperation{"float mul", program_of_binary},
    DrawnOperation{"int8 mul", program_of_scaled},
    DrawnOperation{"float mul", program_of_scaled},
    DrawnOperation{"int8 concat", program_of_concatenation},
    DrawnOperation{"float concat", program_of_concatenation},
    DrawnOperation{"int8 activation", program_of_activation},
    DrawnOperation{"float activation", program_of_activation},
    DrawnOperation{"int8 max_pool", program_of_pool},
    DrawnOperation{"float max_pool", program_of_pool},
    DrawnOperation{"int8 avg_pool", program_of_pool},
    DrawnOperation{"float avg_pool", program_of_pool},
    DrawnOperation{"int8 global_avg_pool", program_of_pool},
    DrawnOperation{"float global_avg_pool", program_of_pool},
    DrawnOperation{"int8 adaptive_avg_pool", program_of_pool},
    DrawnOperation{"float adaptive_avg_pool", program_of_pool},
    DrawnOperation{"int8 permuted copy", program_of_shuffle},
    DrawnOperation{"float permuted copy", program_of_shuffle},
    DrawnOperation{"int8 mean", program_of_mean},
    DrawnOperation{"float mean", program_of_mean},
    DrawnOperation{"int8 softmax", program_of_rows},
    DrawnOperation{"float softmax", program_of_rows},
    DrawnOperation{"int8 layer_norm", program_of_rows},
    DrawnOperation{"float layer_norm", program_of_rows},
    DrawnOperation{"int8 prelu", program_of_channels},
    DrawnOperation{"float prelu", program_of_channels},
    DrawnOperation{"int8 scale_shift", program_of_channels},
    DrawnOperation{"float scale_shift", program_of_channels},
    DrawnOperation{"int8 resize_nearest", program_of_resized},
    DrawnOperation{"float resize_nearest", program_of_resized},
    DrawnOperation{"int8 resize_bilinear", program_of_resized},
    DrawnOperation{"float resize_bilinear", program_of_resized},
    DrawnOperation{"int8 pad", program_of_padded},
    DrawnOperation{"float pad", program_of_padded},
};

}  // namespace

std::span<const DrawnOperation> drawn_operations() { return kOperations; }

}  // namespace tsq::tuning
