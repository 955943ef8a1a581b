#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace tsq::detail {

/// The power of one output of a model on each of several samples, by which its error is judged. What the
/// output has in common everywhere tells nothing and is taken off: the mean over the samples, element by
/// element, where they have one shape; the mean over the rows of all samples where they differ in their
/// leading dimension alone, or where there is one sample of several rows; else the mean over all elements.
/// Of n values the n - 1 that are free then count for n. An output that is constant has its plain power.
/// Values that are not finite do not count.
[[nodiscard]] std::vector<double> output_powers(const std::vector<at::Tensor>& of_samples);

/// 10 log10(power / error): infinite without an error.
[[nodiscard]] double decibels(double power, double error);

}  // namespace tsq::detail
