#pragma once

#include <vector>

#include "runtime/primitives/epilogue.h"

/// Scales, zero points and biases of layers with weights, folded into what a primitive takes.
namespace tsq::runtime {

struct WeightLayout {
  std::int64_t channels = 0;      ///< of the output
  std::int64_t channel_size = 0;  ///< weights of one output channel
  bool transposed = false;  ///< [input, output / groups, kernel] rather than [output, input / groups, kernel]
  std::int64_t groups = 1;
  std::int64_t kernel_elements = 1;
};

WeightLayout weight_layout(const Operation& operation, const Shape& weight);

/// The output channel to which the weight at `index` belongs.
std::int64_t channel_of(const WeightLayout& layout, const Shape& weight, std::int64_t index);

/// One scale, or one for each output channel: source scale times weight scale over the epilogue's unit.
std::vector<float> folded_scales(const Compilation& compilation, const View& source,
                                 const Epilogue& epilogue);

/// One number for each output channel, or none if all would be 0: the bias over the unit, the epilogue's
/// offset, and if `fold_zero_point` what the source's zero point adds to every sum.
std::vector<float> folded_bias(const Compilation& compilation, const View& source, const Epilogue& epilogue,
                               bool fold_zero_point);

}  // namespace tsq::runtime
