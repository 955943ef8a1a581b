#pragma once

#include <tsq/sample.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tsq::detail {

/// With tensors of its own: a model may write into what it is called with.
Sample copy_of(const Sample& sample);

/// A share of the samples, evenly spread: all when there are not more than `most`.
std::vector<Sample> spread(std::span<const Sample> samples, std::size_t most);
/// The same for a model; of one that keeps state, whose samples are a sequence, the first `most`.
std::vector<Sample> some_for(bool keeps_state, std::span<const Sample> samples, std::size_t most);

/// The number of samples that judge what the others have found: the last quarter, at least one; none of one.
std::size_t size_of_last_part(std::size_t samples);

/// The sample with the most elements of tensors, of those the one with the largest sum of whole numbers,
/// which may count steps; of equal ones the first. There is one or more.
const Sample& longest(std::span<const Sample> samples);

/// A number of what a sample holds: its tensors' dtypes, sizes and values, its numbers and strings.
std::uint64_t hash_of(const Sample& sample);

/// Copies of some of the samples that a model has seen: up to 32, and not more than 128 MB of them while
/// there are two. Those with the smallest hashes are kept, in the order of these: a choice as good as any,
/// and the same in whatever order the samples come, and in however many parts. Of equal samples one is kept.
class KeptSamples {
 public:
  void add(const Sample& sample);
  /// The next of a sequence, in place of `add`: the first ones are kept, in their order.
  void add_next(const Sample& sample);
  [[nodiscard]] std::span<const Sample> samples() const noexcept { return samples_; }

 private:
  [[nodiscard]] bool are_too_many() const;

  std::vector<Sample> samples_{};
  std::vector<std::uint64_t> hashes_{};  ///< of each, in ascending order; of a sequence none
  bool is_full_{false};                  ///< of a sequence
};

}  // namespace tsq::detail
