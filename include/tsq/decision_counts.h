#pragma once

#include <tsq/decisions.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tsq {

namespace detail {
class OutputDecisions;
}

/// Counts the decisions of two versions of a model over many samples. The graph of the first tells which
/// outputs are scores, or the user; where these say nothing, the first one's numbers do. Copies count
/// together.
class DecisionCounts {
 public:
  explicit DecisionCounts(const torch::jit::Module& first, std::vector<NamedDecisions> named = {});

  /// One sample's tensors at one place of the results, "output[1]". Throws Error(BadConfig) for a dimension
  /// that a named output does not have.
  void add(const std::string& place, const at::Tensor& wanted, const at::Tensor& got);
  [[nodiscard]] JudgedDecisions of(const std::string& place) const;
  /// Throws Error(BadConfig) where the user has named an output that none of `places` is.
  void check_names(std::span<const std::string> places) const;

 private:
  std::shared_ptr<detail::OutputDecisions> outputs_;
};

}  // namespace tsq
