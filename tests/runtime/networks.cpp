#include "runtime/networks.h"

namespace tsq::runtime::test {
namespace {

const Value kSigned{.dtype = Dtype::U8, .scale = 0.04, .zero_point = 128};
const Value kPositive{.dtype = Dtype::U8, .scale = 0.03, .zero_point = 0};

struct Window {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
};

/// Writes layers with weights at random.
class Layers {
 public:
  explicit Layers(unsigned seed) : random_(seed) {}

  int image() { return rounded(writer_.input(float_value()), kSigned); }
  int add(const Operation& operation, const Value& value) { return writer_.add(operation, value); }
  int rounded(int input, const Value& value) {
    return add({.kind = Kind::Convert, .inputs = {input}}, value);
  }
  int sum(int left, int right) { return add({.kind = Kind::Add, .inputs = {left, right}}, float_value()); }
  int function(int input, const PostOp& post_op) {
    return add({.kind = Kind::Activation, .inputs = {input}, .post_ops = {post_op}}, float_value());
  }

  int convolution(int input, std::int64_t from, std::int64_t to, Window window = {}) {
    const auto padding = window.size == window.stride ? 0 : window.size / 2;  // patches have none
    Operation operation{.kind = Kind::Convolution,
                        .inputs = {input},
                        .stride = {window.stride, window.stride},
                        .padding_begin = {padding, padding},
                        .padding_end = {padding, padding},
                        .groups = window.groups};
    add_weights(random_, writer_, operation, {to, from / window.groups, window.size, window.size}, to);
    return add(operation, float_value());
  }

  int relu_of_convolution(int input, std::int64_t from, std::int64_t to, Window window = {}) {
    return rounded(function(convolution(input, from, to, window), {.kind = PostOpKind::Relu}), kPositive);
  }

  int linear(int input, std::int64_t from, std::int64_t to) {
    Operation operation{.kind = Kind::Linear, .inputs = {input}};
    add_weights(random_, writer_, operation, {to, from}, to);
    return add(operation, float_value());
  }

  int layer_norm(int input) { return add({.kind = Kind::LayerNorm, .inputs = {input}}, kSigned); }

  int constant(const Shape& sizes) {
    return writer_.constant_value(float_value(), random_tensor(random_, Dtype::F32, sizes));
  }

  /// The network, which ends in a classifier of `width` numbers for each image.
  Model classified(int input, std::int64_t width) {
    writer_.returns({linear(input, width, 10)});
    return writer_.model;
  }

  int pooled(int input) {
    const int mean = add({.kind = Kind::GlobalAvgPool, .inputs = {input}}, kSigned);
    return add({.kind = Kind::Flatten, .inputs = {mean}, .axis = 1}, kSigned);
  }

 private:
  Random random_;
  Writer writer_{};
};

/// Each channel of a function of a layer is multiplied before it is rounded.
int multiplied_channels(Layers& layers, int input, std::int64_t from, std::int64_t to) {
  const int function = layers.function(layers.convolution(input, from, to), {.kind = PostOpKind::Hardswish});
  return layers.rounded(
      layers.add({.kind = Kind::Mul, .inputs = {function, layers.constant({to, 1, 1})}}, float_value()),
      kSigned);
}

/// Expands the channels, filters each, multiplies each by its gate, and narrows them.
int inverted_residual(Layers& layers, int input, std::int64_t channels, bool gated) {
  const auto wide = 4 * channels;
  const int expanded = gated ? multiplied_channels(layers, input, channels, wide)
                             : layers.relu_of_convolution(input, channels, wide);
  int filtered = layers.relu_of_convolution(expanded, wide, wide, {.size = 3, .groups = wide});
  if (gated) {
    const int mean = layers.add({.kind = Kind::GlobalAvgPool, .inputs = {filtered}}, kPositive);
    const int gate = layers.function(layers.convolution(mean, wide, wide), {.kind = PostOpKind::Hardsigmoid});
    filtered =
        layers.rounded(layers.add({.kind = Kind::Mul, .inputs = {filtered, gate}}, float_value()), kPositive);
  }
  return layers.rounded(layers.sum(layers.convolution(filtered, wide, channels), input), kSigned);
}

int bottleneck(Layers& layers, int input, std::int64_t from, std::int64_t to, std::int64_t stride) {
  const auto narrow = to / 4;
  const int first = layers.relu_of_convolution(input, from, narrow);
  const int second = layers.relu_of_convolution(first, narrow, narrow, {.size = 3, .stride = stride});
  const int third = layers.convolution(second, narrow, to);
  const int beside =
      from == to ? input : layers.rounded(layers.convolution(input, from, to, {.stride = stride}), kSigned);
  return layers.rounded(layers.function(layers.sum(third, beside), {.kind = PostOpKind::Relu}), kPositive);
}

/// Two heads of eight numbers for each of 65 tokens: [rows, 2, 65, 8].
int heads(Layers& layers, int input) {
  const int wide = layers.rounded(layers.linear(input, 16, 16), kSigned);
  const int split =
      layers.add({.kind = Kind::Unflatten, .inputs = {wide}, .axis = 2, .shape = {2, 8}}, kSigned);
  return layers.add({.kind = Kind::Transpose, .inputs = {split}, .axis = 1, .other_axis = 2}, kSigned);
}

int attention_block(Layers& layers, int tokens) {
  const int normal = layers.layer_norm(tokens);
  const int query = heads(layers, normal);
  const int key = heads(layers, normal);
  const int attended = layers.add(
      {.kind = Kind::Attention, .inputs = {query, key, heads(layers, normal)}, .alpha = 0}, kSigned);
  const int moved =
      layers.add({.kind = Kind::Transpose, .inputs = {attended}, .axis = 1, .other_axis = 2}, kSigned);
  const int joined = layers.add({.kind = Kind::Flatten, .inputs = {moved}, .axis = 2}, kSigned);
  return layers.sum(layers.linear(joined, 16, 16), tokens);
}

int feed_forward_block(Layers& layers, int tokens) {
  const int wide =
      layers.function(layers.linear(layers.layer_norm(tokens), 16, 64), {.kind = PostOpKind::Gelu});
  return layers.sum(layers.linear(layers.rounded(wide, kSigned), 64, 16), tokens);
}

}  // namespace

Model mobilenet_like() {
  Layers layers(1);
  int value = layers.relu_of_convolution(layers.image(), 3, 16, {.size = 3, .stride = 2});
  for (const bool gated : {false, true, false}) value = inverted_residual(layers, value, 16, gated);
  return layers.classified(layers.pooled(layers.relu_of_convolution(value, 16, 64)), 64);
}

Model resnet_like() {
  Layers layers(2);
  int value = layers.relu_of_convolution(layers.image(), 3, 16, {.size = 7, .stride = 2});
  value = layers.add({.kind = Kind::MaxPool,
                      .inputs = {value},
                      .kernel = {3, 3},
                      .stride = {2, 2},
                      .padding_begin = {1, 1},
                      .padding_end = {1, 1}},
                     kPositive);
  value = bottleneck(layers, value, 16, 64, 1);
  value = bottleneck(layers, value, 64, 64, 1);
  value = bottleneck(layers, value, 64, 128, 2);
  return layers.classified(layers.pooled(value), 128);
}

Model transformer_like() {
  Layers layers(3);
  const int patches = layers.convolution(layers.image(), 3, 16, {.size = 4, .stride = 4});
  const int flat = layers.add({.kind = Kind::Flatten, .inputs = {patches}, .axis = 2}, float_value());
  const int tokens =
      layers.add({.kind = Kind::Transpose, .inputs = {flat}, .axis = 1, .other_axis = 2}, float_value());
  const int first = layers.constant({1, 1, 16});
  const int mean =
      layers.add({.kind = Kind::Mean, .inputs = {tokens}, .axes = {1}, .keep_dims = true}, float_value());
  const int front = layers.sum(mean, first);
  int value = layers.add({.kind = Kind::Concat, .inputs = {front, tokens}, .axis = 1}, float_value());
  value = layers.sum(value, layers.constant({1, 65, 16}));
  for (int block = 0; block < 2; ++block) {
    value = feed_forward_block(layers, attention_block(layers, value));
  }
  const int answer =
      layers.add({.kind = Kind::Slice, .inputs = {layers.layer_norm(value)}, .axis = 1, .end = 1}, kSigned);
  return layers.classified(layers.add({.kind = Kind::Flatten, .inputs = {answer}, .axis = 1}, kSigned), 16);
}

}  // namespace tsq::runtime::test
