#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/kernels/kernel_work.h"

/// The time model: which features of its work the time of a kernel is a sum of.
namespace tsq::kernels {

/// A number of the work that time is proportional to.
struct Feature {
  std::string_view name;
  double (*value)(const KernelWork& work);
};

/// A kind of kernel, whose coefficients are found together.
struct TimeRow {
  std::string_view kernel;   ///< that is measured: others take as long
  std::string_view variant;  ///< "grouped"; empty: what no other variant is for
  std::span<const Feature> features;
  bool is_of_engine{true};  ///< whether each engine has its own
  bool is_channels_last{false};
};

/// The rows of a kernel and its work, the most special first; a profile may lack those before the last.
/// Kernels that no table names go over values. `kernel` outlives the rows.
[[nodiscard]] std::vector<TimeRow> time_rows(std::string_view kernel, const KernelWork& work);
/// How a profile names a row: "x86 quantized::conv2d grouped".
[[nodiscard]] std::string name_of(const TimeRow& row, std::string_view engine);
[[nodiscard]] std::vector<double> feature_values(const TimeRow& row, const KernelWork& work);

}  // namespace tsq::kernels
