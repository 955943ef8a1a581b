#pragma once

#include <ATen/core/Tensor.h>
#include <tsq/compare_layers.h>

namespace tsq::detail {

/// Counts values as they come, without knowing their range before: 2,048 bins around zero, which become twice
/// as wide where a value lies outside.
class ValueCounts {
 public:
  /// Values that are not finite do not count.
  void add(const at::Tensor& values);
  /// 64 bins from the least to the greatest value; none where there were no values.
  [[nodiscard]] std::optional<ValueHistogram> histogram() const;

 private:
  void widen();

  at::Tensor counts_{};  ///< double: of bins from -reach_ to reach_
  double reach_{0};
  double low_{0};
  double high_{0};
};

}  // namespace tsq::detail
