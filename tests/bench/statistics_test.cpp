// What given numbers say: no test of this file measures anything.

#include <gtest/gtest.h>
#include <tsq/bench/statistics.h>

#include <random>

namespace tsq::bench {
namespace statistics_test {

/// `launches` launches of `rounds` rounds around `seconds`; each launch is off by `between`, each round by
/// `within`.
Launches made_up(double seconds, double between, double within, std::size_t launches, std::size_t rounds,
                 unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Launches made(launches);
  for (std::vector<double>& launch : made) {
    const double offset = std::exp(between * normal(random));
    for (std::size_t i = 0; i < rounds; ++i)
      launch.push_back(seconds * offset * std::exp(within * normal(random)));
  }
  return made;
}

TEST(Statistics, AQuantileLiesBetweenItsNeighbours) {
  const std::vector<double> sorted{1, 2, 3, 4, 5};
  EXPECT_DOUBLE_EQ(quantile(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.9), 4.6);
  EXPECT_DOUBLE_EQ(quantile(sorted, 1), 5);
  EXPECT_DOUBLE_EQ(median({4, 1}), 2.5);
}

TEST(Statistics, TheSpreadTellsBestUsualAndWorst) {
  std::vector<double> values(101);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(100 - i);
  const Spread spread = spread_of(values);
  EXPECT_EQ(spread.count, 101U);
  EXPECT_DOUBLE_EQ(spread.min, 0);
  EXPECT_DOUBLE_EQ(spread.median, 50);
  EXPECT_DOUBLE_EQ(spread.mean, 50);
  EXPECT_DOUBLE_EQ(spread.p90, 90);
  EXPECT_DOUBLE_EQ(spread.p95, 95);
  EXPECT_DOUBLE_EQ(spread.p99, 99);
  EXPECT_DOUBLE_EQ(spread.max, 100);
}

TEST(Statistics, OneOutlierDoesNotMoveTheMediansInterval) {
  std::vector<double> values(50, 1.0);
  values.push_back(1000);
  const Interval interval = median_interval(values);
  EXPECT_DOUBLE_EQ(interval.low, 1);
  EXPECT_DOUBLE_EQ(interval.high, 1);
}

TEST(Statistics, APairedRatioDoesNotSeeTheMachinesDrift) {
  // The machine becomes three times as slow; the second model is always twice as fast as the first.
  Launches first(3);
  Launches second(3);
  for (std::size_t launch = 0; launch < 3; ++launch) {
    for (int round = 0; round < 30; ++round) {
      const double speed = 1 + round / 15.0;
      first[launch].push_back(2 * speed);
      second[launch].push_back(speed);
    }
  }
  const Ratio ratio = paired_ratio(first, second);
  EXPECT_NEAR(ratio.value, 2, 1e-9);
  EXPECT_NEAR(ratio.interval->low, 2, 1e-9);
  EXPECT_NEAR(ratio.interval->high, 2, 1e-9);
  EXPECT_TRUE(ratio.is_a_difference());
}

TEST(Statistics, ASlowdownAboveTheNoiseIsADifference) {
  const Launches before = made_up(1.0, 0.005, 0.02, 5, 20, 1);
  const Launches after = made_up(1.1, 0.005, 0.02, 5, 20, 2);
  const Ratio ratio = unpaired_ratio(after, before);
  EXPECT_NEAR(ratio.value, 1.1, 0.02);
  EXPECT_TRUE(ratio.is_a_difference());
  EXPECT_GT(ratio.interval->low, 1.02);
}

/// Of 200 repetitions without any difference, in how many the interval claims one.
int false_claims(double between, std::size_t launches, bool paired) {
  int claims = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Launches first = made_up(1, between, 0.02, launches, 20, 2 * seed);
    const Launches second = made_up(1, between, 0.02, launches, 20, 2 * seed + 1);
    claims +=
        (paired ? paired_ratio(first, second) : unpaired_ratio(first, second)).is_a_difference() ? 1 : 0;
  }
  return claims;
}

TEST(Statistics, EqualModelsSeldomSeemDifferentThoughLaunchesDiffer) {
  // 5 % of 200 are 10; the spread between launches counts, not the many rounds within them.
  EXPECT_LE(false_claims(0.03, 5, true), 16);
  EXPECT_LE(false_claims(0.03, 5, false), 16);
  EXPECT_LE(false_claims(0.03, 3, true), 16);
  EXPECT_LE(false_claims(0, 5, true), 16);
}

TEST(Statistics, FewerThanThreeLaunchesHaveNoInterval) {
  for (const std::size_t launches : {1U, 2U}) {
    const Ratio ratio =
        paired_ratio(made_up(2, 0, 0.02, launches, 20, 1), made_up(1, 0, 0.02, launches, 20, 2));
    EXPECT_NEAR(ratio.value, 2, 0.1);
    EXPECT_FALSE(ratio.interval.has_value());
    EXPECT_FALSE(ratio.is_a_difference());
  }
}

TEST(Statistics, WarmIsWhatNoLongerBecomesFaster) {
  EXPECT_FALSE(is_warm(std::vector<double>{3, 2, 1, 1, 1, 1, 1})) << "too few";
  EXPECT_TRUE(is_warm(std::vector<double>{30, 4, 1, 1, 1, 1, 1, 1}));
  EXPECT_FALSE(is_warm(std::vector<double>{30, 20, 15, 12, 10, 9, 8, 7})) << "still falling";
  EXPECT_TRUE(is_warm(std::vector<double>{30, 2, 2.1, 2, 2.05, 2.2, 1.99, 2.4, 2.01, 1.98}));
}

}  // namespace statistics_test
}  // namespace tsq::bench
