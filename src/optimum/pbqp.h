#pragma once

#include <cstddef>
#include <vector>

/// Partitioned Boolean quadratic problems (PBQP; Eckstein 2003, as in register allocation): each variable
/// takes one of its labels, a label costs, and so does a pair of labels of two variables that an edge joins.
namespace tsq::optimum {

/// Costs may be negative, or infinite for what must not be. All are in one unit.
struct Problem {
  /// What the pairs of labels of two variables cost: [label of a · labels of b + label of b].
  struct Edge {
    std::size_t a{};
    std::size_t b{};
    std::vector<double> costs{};
  };
  std::vector<std::vector<double>> costs{};  ///< of each variable each label
  std::vector<Edge> edges{};                 ///< of two different variables; there may be several of a pair
};

struct Solution {
  std::vector<std::size_t> labels{};  ///< of each variable
  double cost{0};                     ///< infinite: nothing was found that may be
  double lower_bound{0};              ///< no choice of labels costs less
  [[nodiscard]] bool is_optimal() const noexcept { return cost <= lower_bound; }
};

struct SolveOptions {
  /// Numbers in a table: of a graph that is cut apart by few variables none is larger, and the solution is
  /// optimal. With smaller ones it has a lower bound.
  std::size_t most_entries{std::size_t{1} << 18};
};

/// The cost of a choice of labels.
[[nodiscard]] double cost_of(const Problem& problem, const std::vector<std::size_t>& labels);

/// Takes variables out one by one, those with the fewest neighbours first (degrees 0, 1 and 2 are the known
/// reductions); a table keeps for its neighbours what is best then (bucket elimination, Dechter 1999). Where
/// a table would be too large, it is split, which gives a lower bound (mini-buckets), and the labels found
/// are improved one by one. Linear in the variables of graphs without such a place. Throws
/// std::invalid_argument for edges that do not fit.
[[nodiscard]] Solution solve(const Problem& problem, const SolveOptions& options = {});

}  // namespace tsq::optimum
