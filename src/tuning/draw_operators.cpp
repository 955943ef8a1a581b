#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <array>

#include "tuning/draw.h"

namespace tsq::tuning {
namespace {

using Sizes = std::vector<std::int64_t>;
using Values = std::vector<c10::IValue>;

/// Sizes of an image, a signal or rows, of 500 to a million values.
Sizes drawn_sizes(Draw& draw) {
  const std::int64_t values = draw.size(5e2, 1e6);
  const bool is_image_of_channels = draw.once_in(8);
  const std::int64_t channels =
      is_image_of_channels ? draw.image_channels() : std::min(draw.channels(4, 1024), values);
  const auto positions = std::max<std::int64_t>(1, values / channels);
  if (!is_image_of_channels && draw.once_in(3)) return {positions, channels};
  const std::int64_t height = draw.height(positions);
  return {1, channels, height, std::max<std::int64_t>(1, positions / height)};
}

at::Tensor drawn_float(Draw& draw) {
  const Sizes sizes = drawn_sizes(draw);
  return random_float(sizes, draw.once_in(2));
}
at::Tensor drawn_codes(Draw& draw) { return random_codes(drawn_sizes(draw)); }

bool is_of_codes(const DrawnKernel& kernel) { return kernel.name.starts_with("quantized::"); }

KernelCall call_of(const DrawnKernel& kernel, Values arguments) {
  return {.name = std::string(kernel.name), .arguments = std::move(arguments)};
}

KernelCall unary(Draw& draw, const DrawnKernel& kernel) { return call_of(kernel, {drawn_float(draw)}); }

KernelCall of_codes(Draw& draw, const DrawnKernel& kernel) {
  return call_of(kernel, {drawn_codes(draw), kScale, kZeroPoint});
}
KernelCall of_codes_alone(Draw& draw, const DrawnKernel& kernel) {
  return call_of(kernel, {drawn_codes(draw)});
}
KernelCall quantize_call(Draw& draw, const DrawnKernel& kernel) {
  return call_of(kernel, {drawn_float(draw), kScale, kZeroPoint, static_cast<std::int64_t>(at::kQUInt8)});
}

KernelCall binary(Draw& draw, const DrawnKernel& kernel) {
  const Sizes sizes = drawn_sizes(draw);
  const bool contiguous = draw.once_in(2);
  Values arguments{random_float(sizes, contiguous), random_float(sizes, contiguous)};
  if (kernel.name.starts_with("aten::add") || kernel.name.starts_with("aten::sub")) arguments.emplace_back(1);
  return call_of(kernel, std::move(arguments));
}
KernelCall with_number(Draw& draw, const DrawnKernel& kernel) {
  Values arguments{drawn_float(draw), 1.5};
  if (kernel.name.starts_with("aten::add") || kernel.name.starts_with("aten::sub")) arguments.emplace_back(1);
  return call_of(kernel, std::move(arguments));
}
/// With a number for each channel.
KernelCall with_channels(Draw& draw, const DrawnKernel& kernel) {
  const at::Tensor x = drawn_float(draw);
  Values arguments{x, at::randn(x.dim() == 2 ? Sizes{x.size(1)} : Sizes{x.size(1), 1, 1})};
  if (kernel.name.starts_with("aten::add") || kernel.name.starts_with("aten::sub")) arguments.emplace_back(1);
  return call_of(kernel, std::move(arguments));
}
KernelCall binary_of_codes(Draw& draw, const DrawnKernel& kernel) {
  const Sizes sizes = drawn_sizes(draw);
  return call_of(kernel, {random_codes(sizes), random_codes(sizes), kScale, kZeroPoint});
}
/// With a code for each channel.
KernelCall channels_of_codes(Draw& draw, const DrawnKernel& kernel) {
  const at::Tensor x = drawn_codes(draw);
  const at::Tensor channels = quantize(at::rand(x.dim() == 2 ? Sizes{x.size(1)} : Sizes{x.size(1), 1, 1}));
  return call_of(kernel, {x, channels, kScale, kZeroPoint});
}
KernelCall gelu(Draw& draw, const DrawnKernel& kernel) {
  return call_of(kernel, {drawn_float(draw), "none"});
}
KernelCall with_slope(Draw& draw, const DrawnKernel& kernel) {
  return call_of(kernel, {drawn_float(draw), 0.1});
}
KernelCall between_bounds(Draw& draw, const DrawnKernel& kernel) {
  return call_of(kernel, {drawn_float(draw), -1.0, 1.0});
}
KernelCall elu(Draw& draw, const DrawnKernel& kernel) {
  if (is_of_codes(kernel)) return call_of(kernel, {drawn_codes(draw), kScale, kZeroPoint, 1, 1, 1});
  return call_of(kernel, {drawn_float(draw), 1, 1, 1});
}
KernelCall leaky_of_codes(Draw& draw, const DrawnKernel& kernel) {
  return call_of(kernel, {drawn_codes(draw), 0.1, false, kScale, kZeroPoint});
}
KernelCall prelu(Draw& draw, const DrawnKernel& kernel) {
  if (!is_of_codes(kernel)) {
    const at::Tensor x = drawn_float(draw);
    return call_of(kernel, {x, at::full({x.size(1)}, 0.25)});
  }
  const at::Tensor x = drawn_codes(draw);
  return call_of(kernel, {x, quantize(at::full({x.size(1)}, 0.25)), kScale, kZeroPoint});
}

KernelCall cat(Draw& draw, const DrawnKernel& kernel) {
  const Sizes sizes = drawn_sizes(draw);
  const bool contiguous = draw.once_in(2);
  c10::List<at::Tensor> parts;
  for (std::int64_t i = draw.between(2, 3); i > 0; --i)
    parts.push_back(kernel.of_engine ? random_codes(sizes) : random_float(sizes, contiguous));
  if (!is_of_codes(kernel)) return call_of(kernel, {parts, std::int64_t{1}});
  return call_of(kernel, {parts, std::int64_t{1}, kScale, kZeroPoint});
}

KernelCall softmax(Draw& draw, const DrawnKernel& kernel) {
  const Sizes sizes{draw.size(1, 2048), draw.size(4, 512)};
  if (is_of_codes(kernel))
    return call_of(kernel, {random_codes(sizes), std::int64_t{-1}, 1.0 / 256, std::int64_t{0}});
  return call_of(kernel, {at::randn(sizes), std::int64_t{-1}, c10::IValue()});
}

KernelCall layer_norm(Draw& draw, const DrawnKernel& kernel) {
  const std::int64_t width = draw.channels(16, 1024);
  const Sizes sizes{draw.size(1, 1024), width};
  const Values rest{Sizes{width}, at::ones({width}), at::zeros({width}), 1e-5};
  Values arguments{is_of_codes(kernel) ? random_codes(sizes) : at::randn(sizes)};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  if (is_of_codes(kernel)) {
    arguments.insert(arguments.end(), {kScale, kZeroPoint});
  } else {
    arguments.emplace_back(false);
  }
  return call_of(kernel, std::move(arguments));
}

Sizes drawn_image(Draw& draw) {
  while (true) {
    const auto [height, width] = draw.image(4, 128);
    const Sizes sizes{draw.one_of<std::int64_t>({1, 1, 4}), draw.channels(4, 1024), height, width};
    if (sizes[0] * sizes[1] * sizes[2] * sizes[3] <= 1'000'000) return sizes;
  }
}

KernelCall group_norm(Draw& draw, const DrawnKernel& kernel) {
  Sizes sizes = drawn_image(draw);
  const std::int64_t groups = draw.one_of<std::int64_t>({1, 4, 8});
  sizes[1] = (sizes[1] + groups - 1) / groups * groups;
  return call_of(kernel, {random_float(sizes, draw.once_in(2)), groups, at::ones({sizes[1]}),
                          at::zeros({sizes[1]}), 1e-5, false});
}

KernelCall batch_norm(Draw& draw, const DrawnKernel& kernel) {
  const at::Tensor x = random_float(drawn_image(draw), draw.once_in(2));
  const std::int64_t channels = x.size(1);
  const at::Tensor ones = at::ones({channels});
  const at::Tensor zeros = at::zeros({channels});
  if (is_of_codes(kernel))
    return call_of(kernel, {quantize(x), ones, zeros, zeros, ones, 1e-5, kScale, kZeroPoint});
  return call_of(kernel, {x, ones, zeros, zeros, ones, false, 0.1, 1e-5, false});
}

at::Tensor image_for(Draw& draw, const DrawnKernel& kernel) {
  const Sizes sizes = drawn_image(draw);
  return kernel.of_engine ? random_codes(sizes) : random_float(sizes, draw.once_in(2));
}

KernelCall max_pool(Draw& draw, const DrawnKernel& kernel) {
  const std::int64_t window = draw.one_of<std::int64_t>({2, 2, 3, 3});
  return call_of(kernel, {image_for(draw, kernel), Sizes{window, window}, Sizes{2, 2},
                          Sizes{window / 3, window / 3}, Sizes{1, 1}, false});
}
KernelCall average_pool(Draw& draw, const DrawnKernel& kernel) {
  const std::int64_t window = draw.one_of<std::int64_t>({2, 2, 3, 3});
  return call_of(kernel, {image_for(draw, kernel), Sizes{window, window}, Sizes{2, 2},
                          Sizes{window / 3, window / 3}, false, true, c10::IValue()});
}
KernelCall adaptive_pool(Draw& draw, const DrawnKernel& kernel) {
  const std::int64_t size = draw.one_of<std::int64_t>({1, 1, 1, 4});
  return call_of(kernel, {image_for(draw, kernel), Sizes{size, size}});
}
KernelCall mean(Draw& draw, const DrawnKernel& kernel) {
  return call_of(kernel, {image_for(draw, kernel), Sizes{2, 3}, draw.once_in(2), c10::IValue()});
}

KernelCall pad(Draw& draw, const DrawnKernel& kernel) {
  const Sizes sides{1, draw.between(0, 2), 1, draw.between(0, 2)};
  return call_of(kernel, {random_float(drawn_image(draw), draw.once_in(2)), sides, 0.0});
}

KernelCall upsample(Draw& draw, const DrawnKernel& kernel) {
  const at::Tensor image = image_for(draw, kernel);
  const at::Tensor x =
      image.numel() > 250'000 ? image.narrow(1, 0, 1 + image.size(1) / 4).contiguous() : image;
  Values arguments{x, Sizes{2 * x.size(2), 2 * x.size(3)}};
  if (kernel.name.find("bilinear") != std::string_view::npos) arguments.emplace_back(false);
  arguments.insert(arguments.end(), {c10::IValue(), c10::IValue()});
  return call_of(kernel, std::move(arguments));
}

KernelCall transposed_copy(Draw& draw, const DrawnKernel& kernel) {
  const at::Tensor x = at::randn({draw.size(1, 16), draw.size(2, 256), draw.size(8, 256)}).transpose(1, 2);
  return call_of(kernel, {x, static_cast<std::int64_t>(at::MemoryFormat::Contiguous)});
}
KernelCall copy(Draw& draw, const DrawnKernel& kernel) {
  return call_of(kernel, {drawn_float(draw), c10::IValue()});
}

KernelCall embedding(Draw& draw, const DrawnKernel& kernel) {
  const at::Tensor rows = at::randint(0, 4096, {draw.size(1, 2048)}, at::kLong);
  // What is read comes first where it is written before each call; the table may be large.
  return call_of(kernel, {at::randn({4096, draw.channels(8, 768)}), rows, std::int64_t{-1}, false, false});
}

KernelCall view(Draw& draw, const DrawnKernel& kernel) {
  const at::Tensor x = drawn_float(draw);
  return call_of(kernel, {x, std::int64_t{0}, std::int64_t{0}, x.size(0), std::int64_t{1}});
}

constexpr std::array kOperators{
    DrawnKernel{"aten::quantize_per_tensor", false, quantize_call},
    DrawnKernel{"aten::dequantize.self", true, of_codes_alone},
    DrawnKernel{"aten::int_repr", true, of_codes_alone},
    DrawnKernel{"aten::relu", true, of_codes_alone},
    DrawnKernel{"aten::sigmoid", true, of_codes_alone},
    DrawnKernel{"aten::tanh", true, of_codes_alone},
    DrawnKernel{"aten::hardsigmoid", true, of_codes_alone},
    DrawnKernel{"aten::max_pool2d", true, max_pool},
    DrawnKernel{"aten::avg_pool2d", true, average_pool},
    DrawnKernel{"aten::adaptive_avg_pool2d", true, adaptive_pool},
    DrawnKernel{"aten::mean.dim", true, mean},
    DrawnKernel{"aten::cat", true, cat},
    DrawnKernel{"aten::upsample_nearest2d", true, upsample},
    DrawnKernel{"aten::upsample_bilinear2d", true, upsample},
    DrawnKernel{"quantized::add", true, binary_of_codes},
    DrawnKernel{"quantized::mul", true, binary_of_codes},
    DrawnKernel{"quantized::add", true, channels_of_codes},
    DrawnKernel{"quantized::mul", true, channels_of_codes},
    DrawnKernel{"quantized::cat", true, cat},
    DrawnKernel{"quantized::elu", true, elu},
    DrawnKernel{"quantized::leaky_relu", true, leaky_of_codes},
    DrawnKernel{"quantized::hardswish", true, of_codes},
    DrawnKernel{"quantized::prelu", true, prelu},
    DrawnKernel{"quantized::layer_norm", true, layer_norm},
    DrawnKernel{"quantized::softmax", true, softmax},
    DrawnKernel{"quantized::batch_norm2d", true, batch_norm},
    DrawnKernel{"aten::relu", false, unary},
    DrawnKernel{"aten::sigmoid", false, unary},
    DrawnKernel{"aten::tanh", false, unary},
    DrawnKernel{"aten::silu", false, unary},
    DrawnKernel{"aten::hardswish", false, unary},
    DrawnKernel{"aten::hardsigmoid", false, unary},
    DrawnKernel{"aten::mish", false, unary},
    DrawnKernel{"aten::exp", false, unary},
    DrawnKernel{"aten::sqrt", false, unary},
    DrawnKernel{"aten::gelu", false, gelu},
    DrawnKernel{"aten::leaky_relu", false, with_slope},
    DrawnKernel{"aten::elu", false, elu},
    DrawnKernel{"aten::hardtanh", false, between_bounds},
    DrawnKernel{"aten::prelu", false, prelu},
    DrawnKernel{"aten::add.Tensor", false, binary},
    DrawnKernel{"aten::sub.Tensor", false, binary},
    DrawnKernel{"aten::mul.Tensor", false, binary},
    DrawnKernel{"aten::div.Tensor", false, binary},
    DrawnKernel{"aten::add.Scalar", false, with_number},
    DrawnKernel{"aten::mul.Scalar", false, with_number},
    DrawnKernel{"aten::add.Tensor", false, with_channels},
    DrawnKernel{"aten::mul.Tensor", false, with_channels},
    DrawnKernel{"aten::softmax.int", false, softmax},
    DrawnKernel{"aten::layer_norm", false, layer_norm},
    DrawnKernel{"aten::group_norm", false, group_norm},
    DrawnKernel{"aten::batch_norm", false, batch_norm},
    DrawnKernel{"aten::max_pool2d", false, max_pool},
    DrawnKernel{"aten::avg_pool2d", false, average_pool},
    DrawnKernel{"aten::adaptive_avg_pool2d", false, adaptive_pool},
    DrawnKernel{"aten::mean.dim", false, mean},
    DrawnKernel{"aten::cat", false, cat},
    DrawnKernel{"aten::constant_pad_nd", false, pad},
    DrawnKernel{"aten::upsample_nearest2d", false, upsample},
    DrawnKernel{"aten::upsample_bilinear2d", false, upsample},
    DrawnKernel{"aten::clone", false, copy},
    DrawnKernel{"aten::contiguous", false, transposed_copy},
    DrawnKernel{"aten::embedding", false, embedding},
    DrawnKernel{"aten::slice.Tensor", false, view},
};

}  // namespace

std::span<const DrawnKernel> drawn_operators() { return kOperators; }

}  // namespace tsq::tuning
