#include "optimum/pbqp.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

namespace tsq::optimum {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Costs of the labels of some variables, the last one's label counting fastest.
struct Table {
  std::vector<std::size_t> variables{};  ///< ascending
  std::vector<double> costs{};
};

class Elimination {
 public:
  Elimination(const Problem& problem, const SolveOptions& options)
      : problem_(problem),
        most_entries_(options.most_entries),
        of_variable_(problem.costs.size()),
        labels_(problem.costs.size()) {
    for (std::size_t v = 0; v < problem.costs.size(); ++v) {
      if (problem.costs[v].empty()) throw std::invalid_argument("a variable has no labels");
      add({.variables = {v}, .costs = problem.costs[v]});
    }
    for (const Problem::Edge& edge : problem.edges) add(table_of(edge));
    for (std::size_t v = 0; v < problem.costs.size(); ++v) queue_.emplace(of_variable_[v].size(), v);
    is_queued_ = true;
  }

  Solution run() {
    while (!queue_.empty()) eliminate(queue_.begin()->second);
    for (std::size_t i = order_.size(); i-- > 0;) choose_label(order_[i], buckets_[i]);
    if (!is_exact_) improve();
    const double cost = cost_of(problem_, labels_);
    return {.labels = labels_, .cost = cost, .lower_bound = is_exact_ ? cost : lower_bound_};
  }

 private:
  [[nodiscard]] std::size_t labels_of(std::size_t variable) const { return problem_.costs[variable].size(); }

  [[nodiscard]] Table table_of(const Problem::Edge& edge) const {
    if (edge.a == edge.b || std::max(edge.a, edge.b) >= problem_.costs.size() ||
        edge.costs.size() != labels_of(edge.a) * labels_of(edge.b))
      throw std::invalid_argument("an edge does not fit its variables");
    if (edge.a < edge.b) return {.variables = {edge.a, edge.b}, .costs = edge.costs};
    Table turned{.variables = {edge.b, edge.a}, .costs = std::vector<double>(edge.costs.size())};
    for (std::size_t i = 0; i < labels_of(edge.a); ++i) {
      for (std::size_t j = 0; j < labels_of(edge.b); ++j)
        turned.costs[j * labels_of(edge.a) + i] = edge.costs[i * labels_of(edge.b) + j];
    }
    return turned;
  }

  /// Tables of the same variables become one.
  void add(Table table) {
    const auto [known, is_new] = by_variables_.try_emplace(table.variables, tables_.size());
    if (!is_new) {
      std::vector<double>& costs = tables_[known->second].costs;
      std::ranges::transform(costs, table.costs, costs.begin(), std::plus());
      return;
    }
    for (const std::size_t variable : table.variables) {
      const std::size_t before = of_variable_[variable].size();
      of_variable_[variable].insert(tables_.size());
      if (is_queued_) move_in_queue(variable, before);
    }
    tables_.push_back(std::move(table));
  }

  Table take(std::size_t table) {
    by_variables_.erase(tables_[table].variables);
    for (const std::size_t variable : tables_[table].variables) {
      const std::size_t before = of_variable_[variable].size();
      of_variable_[variable].erase(table);
      move_in_queue(variable, before);
    }
    return std::move(tables_[table]);
  }

  void move_in_queue(std::size_t variable, std::size_t before) {
    if (queue_.erase({before, variable}) > 0) queue_.emplace(of_variable_[variable].size(), variable);
  }

  /// Calls `use` for all labels of `variables`, in the order of a table of them.
  template <typename Use>
  void for_each_choice(const std::vector<std::size_t>& variables, const Use& use) {
    for (const std::size_t variable : variables) labels_[variable] = 0;
    while (true) {
      use();
      std::size_t i = variables.size();
      while (i > 0 && ++labels_[variables[i - 1]] == labels_of(variables[i - 1])) labels_[variables[--i]] = 0;
      if (i == 0) return;
    }
  }

  [[nodiscard]] double entry(const Table& table) const {
    std::size_t place = 0;
    for (const std::size_t variable : table.variables)
      place = place * labels_of(variable) + labels_[variable];
    return table.costs[place];
  }

  /// Gives a variable the label with which the tables are least, as the others are labelled. Their sum.
  double choose_label(std::size_t variable, const std::vector<Table>& tables) {
    std::size_t best = 0;
    double least = kInfinite;
    for (labels_[variable] = 0; labels_[variable] < labels_of(variable); ++labels_[variable]) {
      const double sum = sum_of(tables);
      if (sum < least) best = labels_[variable];
      least = std::min(least, sum);
    }
    labels_[variable] = best;
    return least;
  }

  [[nodiscard]] double sum_of(const std::vector<Table>& tables) const {
    return std::accumulate(tables.begin(), tables.end(), 0.0,
                           [&](double sum, const Table& table) { return sum + entry(table); });
  }

  [[nodiscard]] std::size_t entries_of(const std::set<std::size_t>& variables) const {
    std::size_t entries = 1;
    for (const std::size_t variable : variables) {
      entries *= labels_of(variable);
      if (entries > most_entries_) break;
    }
    return entries;
  }

  /// What is minimised together: all tables of a variable, or parts whose results are not too large.
  struct Part {
    std::vector<Table> tables{};
    std::set<std::size_t> around{};  ///< the other variables
  };
  [[nodiscard]] std::vector<Part> parts_of(std::vector<Table> bucket, std::size_t variable) const {
    std::vector<Part> parts;
    std::ranges::stable_sort(bucket, std::ranges::greater(),
                             [](const Table& each) { return each.costs.size(); });
    for (Table& table : bucket) {
      std::set<std::size_t> own(table.variables.begin(), table.variables.end());
      own.erase(variable);
      const auto fits = [&](const Part& part) {
        std::set<std::size_t> joined = part.around;
        joined.insert(own.begin(), own.end());
        return entries_of(joined) <= most_entries_;
      };
      auto part = std::ranges::find_if(parts, fits);
      if (part == parts.end()) part = parts.insert(parts.end(), Part());
      part->around.merge(own);
      part->tables.push_back(std::move(table));
    }
    return parts;
  }

  void eliminate(std::size_t variable) {
    queue_.erase({of_variable_[variable].size(), variable});
    std::vector<Table> bucket;
    for (const std::size_t table : std::set<std::size_t>(of_variable_[variable]))
      bucket.push_back(take(table));
    order_.push_back(variable);
    buckets_.push_back(bucket);
    const std::vector<Part> parts = parts_of(std::move(bucket), variable);
    is_exact_ = is_exact_ && parts.size() == 1;
    for (const Part& part : parts) {
      Table result{.variables = {part.around.begin(), part.around.end()}};
      for_each_choice(result.variables, [&] { result.costs.push_back(choose_label(variable, part.tables)); });
      if (result.variables.empty())
        lower_bound_ += result.costs.front();
      else
        add(std::move(result));
    }
  }

  /// Takes a better label for one variable after the other, while there is one.
  void improve() {
    std::vector<std::vector<Table>> around(problem_.costs.size());
    for (std::size_t v = 0; v < around.size(); ++v)
      around[v].push_back({.variables = {v}, .costs = problem_.costs[v]});
    for (const Problem::Edge& edge : problem_.edges) {
      around[edge.a].push_back(table_of(edge));
      around[edge.b].push_back(table_of(edge));
    }
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      for (std::size_t v = 0; v < around.size(); ++v) {
        const std::size_t before = labels_[v];
        const double cost = sum_of(around[v]);
        if (choose_label(v, around[v]) < cost)
          has_changed = true;
        else
          labels_[v] = before;
      }
    }
  }

  const Problem& problem_;
  std::size_t most_entries_;
  std::vector<Table> tables_{};
  std::map<std::vector<std::size_t>, std::size_t> by_variables_{};
  std::vector<std::set<std::size_t>> of_variable_;         ///< the tables that it is in
  std::set<std::pair<std::size_t, std::size_t>> queue_{};  ///< variables by the number of these
  bool is_queued_{false};
  std::vector<std::size_t> order_{};           ///< variables that have been taken out
  std::vector<std::vector<Table>> buckets_{};  ///< and what told about each
  std::vector<std::size_t> labels_;
  bool is_exact_{true};
  double lower_bound_{0};
};

}  // namespace

double cost_of(const Problem& problem, const std::vector<std::size_t>& labels) {
  double cost = 0;
  for (std::size_t v = 0; v < labels.size(); ++v) cost += problem.costs[v][labels[v]];
  for (const Problem::Edge& edge : problem.edges)
    cost += edge.costs[labels[edge.a] * problem.costs[edge.b].size() + labels[edge.b]];
  return cost;
}

Solution solve(const Problem& problem, const SolveOptions& options) {
  return Elimination(problem, options).run();
}

}  // namespace tsq::optimum
