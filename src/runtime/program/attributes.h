#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "runtime/program/checked.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/program.h"

/// The attributes of operations, one row each: how they are spelt, and which numbers they may have.
namespace tsq::runtime {

/// Whole numbers from the first to the last.
struct Whole {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};

/// Finite numbers from the first to the last.
struct Finite {
  double low = std::numeric_limits<double>::lowest();
  double high = std::numeric_limits<double>::max();
};

/// True or false, numbers of any size, and places among the constants, which are checked with what they hold.
struct Anything {};

/// Windows and paddings of kernels are counted in 32 bits.
inline constexpr std::int64_t kLargestWindow = std::numeric_limits<std::int32_t>::max();

/// Calls `visit` with each attribute: its name, its member of Operation, its limits, and the kinds of
/// attribute that allow it.
template <typename Visit>
void for_each_attribute(const Visit& visit) {
  using enum Attribute;
  constexpr Whole kAtLeastOne{1, kLargestWindow};
  constexpr Whole kPlace{-kMostDimensions, kMostDimensions - 1};
  constexpr double kSmallest = std::numeric_limits<float>::min();
  constexpr double kLargest = std::numeric_limits<float>::max();
  visit("weight", &Operation::weight, Anything{}, Weight, OptionalWeight);
  visit("weight_scales", &Operation::weight_scales, Anything{}, Weight, Scales);
  visit("bias", &Operation::bias, Anything{}, Bias);
  visit("recurrent_weight", &Operation::recurrent_weight, Anything{}, Recurrent);
  visit("recurrent_scales", &Operation::recurrent_scales, Anything{}, Recurrent);
  visit("recurrent_bias", &Operation::recurrent_bias, Anything{}, Recurrent);
  visit("kernel", &Operation::kernel, kAtLeastOne, Kernel);
  visit("stride", &Operation::stride, kAtLeastOne, Stride);
  visit("padding_begin", &Operation::padding_begin, Whole{0, kLargestWindow}, Padding);
  visit("padding_end", &Operation::padding_end, Whole{-kLargestWindow, kLargestWindow}, Padding);
  visit("dilation", &Operation::dilation, kAtLeastOne, Dilation);
  visit("groups", &Operation::groups, kAtLeastOne, Groups);
  visit("ceil_mode", &Operation::ceil_mode, Anything{}, CeilMode);
  visit("count_include_pad", &Operation::count_include_pad, Anything{}, CountIncludePad);
  visit("bounded", &Operation::bounded, Anything{}, Bounded);
  visit("alpha", &Operation::alpha, Finite{0, kLargest}, Alpha);
  visit("causal", &Operation::causal, Anything{}, Causal);
  visit("backward", &Operation::backward, Anything{}, Recurrent);
  visit("reads_states", &Operation::reads_states, Anything{}, Recurrent);
  visit("epsilon", &Operation::epsilon, Finite{0, kLargest}, Epsilon);
  visit("axis", &Operation::axis, kPlace, Axis);
  visit("other_axis", &Operation::other_axis, kPlace, OtherAxis);
  visit("end_axis", &Operation::end_axis, kPlace, EndAxis);
  visit("begin", &Operation::begin, Anything{}, Range);
  visit("end", &Operation::end, Anything{}, Range);
  visit("step", &Operation::step, Whole{.low = 1}, Range);
  visit("shape", &Operation::shape, Whole{-1, kMostElements}, TargetShape);
  visit("order", &Operation::order, kPlace, Order);
  visit("size", &Operation::size, kAtLeastOne, Size);
  visit("scale_factors", &Operation::scale_factors, Finite{kSmallest, kLargestWindow}, Size);
  visit("axes", &Operation::axes, kPlace, Axes);
  visit("keep_dims", &Operation::keep_dims, Anything{}, Axes);
  visit("fill", &Operation::fill, Finite{-kLargest, kLargest}, Fill);
  visit("number", &Operation::number, Anything{}, Number);
}

}  // namespace tsq::runtime
