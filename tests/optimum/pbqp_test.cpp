// The least cost of labels on graphs.

#include "optimum/pbqp.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <stdexcept>

namespace tsq::optimum {
namespace pbqp_test {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Small whole numbers, so that sums in any order are equal; some pairs must not be.
std::vector<double> random_costs(std::size_t count, std::mt19937& random, bool with_infinite) {
  std::vector<double> costs(count);
  for (double& cost : costs) {
    cost = static_cast<double>(random() % 20) - 5;
    if (with_infinite && random() % 6 == 0) cost = kInfinite;
  }
  return costs;
}

Problem random_problem(std::size_t variables, std::size_t edges, std::mt19937& random) {
  Problem problem;
  for (std::size_t i = 0; i < variables; ++i)
    problem.costs.push_back(random_costs(1 + random() % 3, random, false));
  for (std::size_t i = 0; i < edges; ++i) {
    const std::size_t a = random() % variables;
    const std::size_t b = random() % variables;
    if (a == b) continue;
    problem.edges.push_back(
        {.a = a,
         .b = b,
         .costs = random_costs(problem.costs[a].size() * problem.costs[b].size(), random, true)});
  }
  return problem;
}

double least_of_all(const Problem& problem) {
  std::vector<std::size_t> labels(problem.costs.size());
  double least = kInfinite;
  while (true) {
    least = std::min(least, cost_of(problem, labels));
    std::size_t i = 0;
    while (i < labels.size() && ++labels[i] == problem.costs[i].size()) labels[i++] = 0;
    if (i == labels.size()) return least;
  }
}

TEST(Pbqp, OnSmallGraphsEqualsTryingEverything) {
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    const std::size_t variables = 1 + random() % 9;
    const Problem problem = random_problem(variables, random() % (2 * variables), random);
    const Solution solution = solve(problem);
    EXPECT_EQ(solution.cost, least_of_all(problem));
    EXPECT_EQ(solution.cost, cost_of(problem, solution.labels));
    EXPECT_TRUE(solution.is_optimal());
  }
}

TEST(Pbqp, WithSmallTablesTheBoundIsBelowTheLeast) {
  std::mt19937 random(11);
  std::size_t optimal = 0;
  for (int i = 0; i < 300; ++i) {
    const Problem problem = random_problem(9, 24, random);
    const Solution solution = solve(problem, {.most_entries = 9});
    const double least = least_of_all(problem);
    EXPECT_LE(solution.lower_bound, least);
    EXPECT_GE(solution.cost, least);
    if (!solution.is_optimal()) continue;
    EXPECT_EQ(solution.cost, least);
    ++optimal;
  }
  EXPECT_LT(optimal, 300U);
}

TEST(Pbqp, ChainsAndResidualsAreOptimalHoweverLong) {
  std::mt19937 random(3);
  Problem problem;
  constexpr std::size_t kVariables = 50000;
  for (std::size_t i = 0; i < kVariables; ++i) problem.costs.push_back(random_costs(3, random, false));
  for (std::size_t i = 0; i + 1 < kVariables; ++i)
    problem.edges.push_back({.a = i, .b = i + 1, .costs = random_costs(9, random, false)});
  for (std::size_t i = 0; i + 4 < kVariables; i += 5)
    problem.edges.push_back({.a = i + 4, .b = i, .costs = random_costs(9, random, false)});
  const Solution solution = solve(problem);
  EXPECT_TRUE(solution.is_optimal());
  EXPECT_EQ(solution.cost, cost_of(problem, solution.labels));
}

TEST(Pbqp, AValueThatAllReadIsNoHardCase) {
  std::mt19937 random(5);
  Problem problem;
  problem.costs.push_back(random_costs(3, random, false));
  for (std::size_t i = 1; i < 20000; ++i) {
    problem.costs.push_back(random_costs(2, random, false));
    problem.edges.push_back({.a = 0, .b = i, .costs = random_costs(6, random, false)});
  }
  EXPECT_TRUE(solve(problem).is_optimal());
}

TEST(Pbqp, WhatMustNotBeIsSaid) {
  Problem problem{.costs = {{0, 1}, {0, 1}}, .edges = {{.a = 0, .b = 1, .costs = {kInfinite, 0, 5, 0}}}};
  EXPECT_EQ(solve(problem).cost, 1);
  problem.edges.front().costs.assign(4, kInfinite);
  EXPECT_EQ(solve(problem).cost, kInfinite);
}

TEST(Pbqp, EdgesThatDoNotFitAreRefused) {
  EXPECT_THROW((void)solve({.costs = {{0}, {}}}), std::invalid_argument);
  EXPECT_THROW((void)solve({.costs = {{0}, {0}}, .edges = {{.a = 0, .b = 0, .costs = {0}}}}),
               std::invalid_argument);
  EXPECT_THROW((void)solve({.costs = {{0}, {0}}, .edges = {{.a = 0, .b = 2, .costs = {0}}}}),
               std::invalid_argument);
  EXPECT_THROW((void)solve({.costs = {{0}, {0}}, .edges = {{.a = 0, .b = 1, .costs = {0, 1}}}}),
               std::invalid_argument);
}

}  // namespace pbqp_test
}  // namespace tsq::optimum
