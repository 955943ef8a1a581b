// What is told of given numbers, and what an old result says of a new one.

#include <gmock/gmock.h>
#include <tsq/bench/result.h>
#include <tsq/error.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace tsq::bench {
namespace result_test {

using ::testing::HasSubstr;

/// Five launches of twenty rounds around `seconds`, 1 % up and down, with nothing by chance.
Measured measured(const std::string& name, double seconds, double rows = 1) {
  Measured entry{.entry = {.setting = {.path = name}}, .engine = "x86", .bytes = 1000, .rows = rows};
  std::vector<double> calls;
  for (int launch = 0; launch < 5; ++launch) {
    entry.rounds.emplace_back();
    for (int round = 0; round < 20; ++round) {
      entry.rounds.back().push_back(seconds * (1 + 0.01 * ((round * 7 + launch) % 3 - 1)));
      calls.push_back(entry.rounds.back().back());
    }
    entry.load_seconds.push_back(0.1);
    entry.first_seconds.push_back(0.2);
  }
  entry.latency = spread_of(calls);
  return entry;
}

Result result_of(std::vector<Measured> entries) { return {.entries = std::move(entries)}; }

TEST(Results, ThroughputAndRatioCountRows) {
  const Measured one = measured("float.pt", 0.010);
  const Measured sixteen = measured("int8.pt", 0.040, 16);
  EXPECT_NEAR(sixteen.throughput(), 400, 1e-9);
  EXPECT_NEAR(speed_ratio(one, sixteen).value, 4, 0.05);
}

TEST(Results, JsonKeepsWhatACompareNeeds) {
  const Result result = result_of({measured("float.pt", 0.010), measured("int8.pt", 0.005)});
  const Result read = result_from(to_json(result), "old.json");
  ASSERT_EQ(read.entries.size(), 2U);
  EXPECT_EQ(to_json(read)["models"], to_json(result)["models"]);
  EXPECT_NEAR(to_json(result)["models"][1]["ratio"]["value"].get<double>(), 2, 0.05);
}

TEST(Results, AFileOfSomethingElseIsRefusedByName) {
  try {
    result_from({{"models", {{{"path", "m.pt"}}}}}, "old.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'old.json' is no result of 'tsq bench'"));
  }
}

/// What reading a result says after `change` has changed its models.
std::string refusal_of(const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json result = to_json(result_of({measured("float.pt", 0.010), measured("int8.pt", 0.005)}));
  change(result["models"]);
  try {
    result_from(result, "old.json");
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Results, TimesThatAreNoneAreRefused) {
  using nlohmann::json;
  EXPECT_EQ(refusal_of([](json&) {}), "");
  for (const json& rounds : {json::array(), json{json::array()}, json{{0.1, 0.0}}, json{{-1.0}}}) {
    EXPECT_THAT(refusal_of([&](json& models) { models[1]["rounds"] = rounds; }),
                HasSubstr("models[1] has no rows, or no times of its rounds"));
  }
  EXPECT_THAT(refusal_of([](json& models) { models[0]["rows"] = 0; }), HasSubstr("models[0] has no rows"));
  EXPECT_THAT(refusal_of([](json& models) { models[0]["rounds"].erase(0); }),
              HasSubstr("models[1] has other rounds than the model that it is compared with"));
}

TEST(Results, CsvHasALineForEachModel) {
  const std::string csv = csv_of(result_of({measured("a,b.pt", 0.010), measured("c.pt", 0.005)}));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_THAT(csv, HasSubstr("\n\"a,b.pt\",x86,"));
}

TEST(Results, ASlowedModelIsARegression) {
  const Result before = result_of({measured("float.pt", 0.010), measured("int8.pt", 0.005)});
  const Result after = result_of({measured("float.pt", 0.010), measured("int8.pt", 0.0055)});
  const Comparison comparison = compare(before, after, 0.02);
  EXPECT_FALSE(comparison.changes[0].is_regression);
  EXPECT_TRUE(comparison.changes[1].is_regression);
  EXPECT_NEAR(comparison.changes[1].time.value, 1.1, 0.005);
  EXPECT_TRUE(comparison.has_regressions());
}

TEST(Results, ASlowerMachineIsNoRegression) {
  const Result before = result_of({measured("float.pt", 0.010), measured("int8.pt", 0.005)});
  const Result after = result_of({measured("float.pt", 0.013), measured("int8.pt", 0.0065)});
  const Comparison comparison = compare(before, after, 0.02);
  EXPECT_FALSE(comparison.has_regressions());
  EXPECT_TRUE(comparison.changes[1].is_relative);
  EXPECT_NEAR(comparison.changes[0].time.value, 1.3, 0.005) << "but it is told";
}

TEST(Results, WithoutABaselineTimeItselfIsCompared) {
  const Result before = result_of({measured("int8.pt", 0.005)});
  EXPECT_TRUE(compare(before, result_of({measured("int8.pt", 0.006)}), 0.02).has_regressions());
  EXPECT_FALSE(compare(before, result_of({measured("int8.pt", 0.006)}), 0.3).has_regressions());
  EXPECT_FALSE(compare(before, result_of({measured("int8.pt", 0.004)}), 0.02).has_regressions());
  EXPECT_FALSE(compare(before, before, 0).has_regressions());
}

TEST(Results, AChangedBaselineIsNoReference) {
  Result before = result_of({measured("a.pt", 0.010), measured("b.pt", 0.010)});
  Result after = result_of({measured("a.pt", 0.020), measured("b.pt", 0.010)});
  after.entries[0].bytes = 2000;
  const Comparison comparison = compare(before, after, 0.02);
  EXPECT_TRUE(comparison.changes[0].is_regression);
  EXPECT_FALSE(comparison.changes[1].is_regression);
}

TEST(Results, StrangersAreNamedAndNotCompared) {
  const Result before = result_of({measured("old.pt", 0.005)});
  const Comparison more =
      compare(before, result_of({measured("old.pt", 0.005), measured("more.pt", 0.005)}), 0.02);
  ASSERT_EQ(more.notes.size(), 1U);
  EXPECT_THAT(more.notes[0], HasSubstr("only in the new result: 'more.pt'"));
  try {
    compare(before, result_of({measured("new.pt", 0.006)}), 0.02);
    FAIL() << "files of other names were compared";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("it has 'old.pt', not 'new.pt'"));
  }
}

TEST(Results, FewerThanThreeLaunchesCallNothingARegression) {
  Result before = result_of({measured("a.pt", 0.005)});
  Result after = result_of({measured("a.pt", 0.010)});
  for (Result* result : {&before, &after}) result->entries[0].rounds.resize(2);
  const Comparison comparison = compare(before, after, 0.02);
  EXPECT_FALSE(comparison.has_regressions());
  ASSERT_EQ(comparison.notes.size(), 1U);
  EXPECT_THAT(comparison.notes[0], HasSubstr("too few launches"));
  EXPECT_TRUE(to_json(after)["models"][0]["ratio"]["interval"].is_null());
}

}  // namespace result_test
}  // namespace tsq::bench
