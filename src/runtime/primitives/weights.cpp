#include "runtime/primitives/weights.h"

#include <algorithm>

namespace tsq::runtime {
namespace {

double scale_of_channel(const Constant& scales, std::int64_t channel) {
  return scales.floats()[elements_of(scales.shape) == 1 ? 0 : channel];
}

/// The sum of the weights of each output channel.
std::vector<std::int64_t> channel_sums(const Constant& weight, const WeightLayout& layout) {
  std::vector<std::int64_t> sums(static_cast<std::size_t>(layout.channels), 0);
  const auto* numbers = weight.int8s();
  const auto count = elements_of(weight.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    sums[static_cast<std::size_t>(channel_of(layout, weight.shape, i))] += numbers[i];
  }
  return sums;
}

}  // namespace

WeightLayout weight_layout(const Operation& operation, const Shape& weight) {
  WeightLayout layout;
  layout.transposed = operation.kind == Kind::TransposedConvolution;
  layout.groups = operation.groups;
  layout.channels = layout.transposed ? weight[1] * operation.groups : weight[0];
  for (std::size_t d = 2; d < weight.size(); ++d) layout.kernel_elements *= weight[d];
  layout.channel_size = elements_of(weight) / layout.channels;
  return layout;
}

std::int64_t channel_of(const WeightLayout& layout, const Shape& weight, std::int64_t index) {
  if (!layout.transposed) return index / layout.channel_size;
  const auto per_group = layout.channels / layout.groups;
  const auto input = index / (per_group * layout.kernel_elements);
  const auto group = input / (weight[0] / layout.groups);
  return group * per_group + index / layout.kernel_elements % per_group;
}

std::vector<float> folded_scales(const Compilation& compilation, const View& source,
                                 const Epilogue& epilogue) {
  const auto& scales = compilation.constant(*compilation.operation().weight_scales);
  std::vector<float> folded;
  for (std::int64_t i = 0; i < elements_of(scales.shape); ++i) {
    folded.push_back(static_cast<float>(source.scale * scales.floats()[i] / epilogue.unit));
  }
  return folded;
}

std::vector<float> folded_bias(const Compilation& compilation, const View& source, const Epilogue& epilogue,
                               bool fold_zero_point) {
  const auto& operation = compilation.operation();
  const auto& weight = compilation.constant(*operation.weight);
  const auto layout = weight_layout(operation, weight.shape);
  std::vector<double> bias(static_cast<std::size_t>(layout.channels), epilogue.offset);
  if (operation.bias) {
    const float* numbers = compilation.constant(*operation.bias).floats();
    for (std::size_t c = 0; c < bias.size(); ++c) bias[c] += numbers[c] / epilogue.unit;
  }
  if (fold_zero_point && source.zero_point != 0) {
    const auto sums = channel_sums(weight, layout);
    const auto& scales = compilation.constant(*operation.weight_scales);
    for (std::size_t c = 0; c < bias.size(); ++c) {
      const double scale =
          source.scale * scale_of_channel(scales, static_cast<std::int64_t>(c)) / epilogue.unit;
      bias[c] -= source.zero_point * scale * static_cast<double>(sums[c]);
    }
  }
  if (std::ranges::all_of(bias, [](double number) { return number == 0; })) return {};
  return {bias.begin(), bias.end()};
}

}  // namespace tsq::runtime
