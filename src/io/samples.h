#pragma once

#include <tsq/quantize.h>

#include <cstddef>
#include <span>
#include <vector>

namespace tsq::detail {

/// With tensors of its own: a model may write into what it is called with.
Sample copy_of(const Sample& sample);

/// A share of the samples, evenly spread: all when there are not more than `most`.
std::vector<Sample> spread(std::span<const Sample> samples, std::size_t most);

/// Copies of some of the samples that a model has seen, evenly spread over all of them: 16 to 32 once there
/// are so many, and not more than 128 MB of them while there are two.
class KeptSamples {
 public:
  void add(const Sample& sample);
  [[nodiscard]] std::span<const Sample> samples() const noexcept { return samples_; }

 private:
  void keep_every_other();

  std::vector<Sample> samples_{};
  std::size_t seen_{0};
  std::size_t step_{1};  ///< one in this many is kept
};

}  // namespace tsq::detail
