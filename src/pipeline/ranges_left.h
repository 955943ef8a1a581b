#pragma once

#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <optional>

namespace tsq::detail {

/// How many values lay outside of the ranges that observers had seen before.
struct RangesLeft {
  int64_t values{0};
  int64_t outside{0};

  /// Counts what an observer of one range is about to see. Others count nothing.
  void add(const torch::jit::Module& observer, const at::Tensor& x);
  /// None of no values.
  [[nodiscard]] std::optional<double> share() const;
};

}  // namespace tsq::detail
