#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace tsq::ir {

/// What round_weights has chosen for a layer: a reference's file has it in the place of the products of its
/// inputs, which are larger.
struct LearnedRounding {
  at::Tensor codes{};   ///< of bytes, [groups, rows, columns]
  at::Tensor scales{};  ///< [groups, rows, 1]
  at::Tensor excess{};  ///< [rows], by which the codes' errors raise the layer's outputs
};

/// What conversions of one calibrated model have learned, so that no rounding is learned twice. Threads may
/// use it at once.
class LearnedRoundings {
 public:
  /// `source` is a hash of all that it is learned from; `learn` is called where nobody has learned it.
  template <typename Learn>
  LearnedRounding of(std::uint64_t source, const Learn& learn) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = known_.find(source); found != known_.end()) return found->second;
    }
    LearnedRounding learned = learn();
    const std::lock_guard lock(mutex_);
    return known_.emplace(source, std::move(learned)).first->second;
  }

 private:
  std::mutex mutex_{};
  std::unordered_map<std::uint64_t, LearnedRounding> known_{};
};

}  // namespace tsq::ir
