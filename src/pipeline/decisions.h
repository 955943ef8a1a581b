#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/decisions.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "operators/score_graph.h"

namespace tsq::detail {

/// How the numbers of one output are read as scores.
struct ScoreForm {
  ScoresBy by{ScoresBy::Nothing};
  int64_t dim{-1};           ///< along it classes are numbered
  bool each_decides{false};  ///< every number is a decision: that of a sigmoid, or a label
  std::string reason{};      ///< of ScoresBy::Nothing
};

/// Counts the decisions of one output over many samples.
class DecisionCounter {
 public:
  explicit DecisionCounter(ScoreForm form) : form_(std::move(form)) {}

  /// One sample's numbers, of one shape.
  void add(const at::Tensor& wanted, const at::Tensor& got);
  [[nodiscard]] JudgedDecisions result() const;

 private:
  struct Tally {
    Decisions all{};
    Decisions clear{};
    uint64_t decided{0};  ///< rows in which one class is clear, or stands apart from the others
    uint64_t yes{0};      ///< of a sigmoid
  };
  /// A row that may be padding.
  struct Known {
    Tally tally{};
    uint64_t sequences{0};  ///< that have it
    uint64_t last{0};       ///< the last one of these
  };
  struct Rows;

  /// The rows of a sigmoid and of labels, one number each, and those of classes.
  static Rows answers(const at::Tensor& wanted, const at::Tensor& got);
  static Rows labels(const at::Tensor& wanted, const at::Tensor& got);
  Rows choices(const at::Tensor& wanted, const at::Tensor& got);
  void count_all(const Rows& rows);
  /// In the sequence that was begun last.
  void find_padding(const Rows& rows, std::span<const int64_t> keys);
  [[nodiscard]] std::string doubt(const Tally& counted) const;

  ScoreForm form_;
  Tally whole_{};
  std::unordered_map<int64_t, Known> known_{};
  uint64_t sequences_{0};
  uint64_t equal_rows_{0};  ///< rows of equal numbers
  uint64_t wide_{0};        ///< rows that span more than logits do
  uint64_t numbers_{0};
  uint64_t negative_{0};
  bool are_probabilities_{true};
  bool has_odd_rank_{false};
  int64_t rank_{0};
};

/// The decisions of all outputs of a model. Which outputs are scores is told by its graph and by the user,
/// and, where these say nothing, by the numbers that are right.
class OutputDecisions {
 public:
  explicit OutputDecisions(const torch::jit::Module& model, std::vector<NamedDecisions> named = {});

  /// One sample's tensors at one place of the results, "output[1]". Complex ones are passed over. Throws
  /// Error(BadConfig) for a dimension that the named output does not have.
  void add(const std::string& place, const at::Tensor& wanted, const at::Tensor& got);
  [[nodiscard]] JudgedDecisions of(const std::string& place) const;
  /// Forgets what was counted.
  void clear() { counters_.clear(); }
  /// Throws Error(BadConfig) where the user has named an output that none of `places` is.
  void check_names(std::span<const std::string> places) const;

 private:
  [[nodiscard]] ScoreForm form_of(const std::string& place, const at::Tensor& wanted) const;

  operators::ScoreGraph graph_;
  std::vector<NamedDecisions> named_;
  std::unordered_map<std::string, DecisionCounter> counters_{};
};

}  // namespace tsq::detail
