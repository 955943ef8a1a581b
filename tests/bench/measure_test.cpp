// Who takes turns, and how often: workers here answer with given numbers and run nothing.

#include <gmock/gmock.h>
#include <tsq/bench/measure.h>
#include <tsq/error.h>

#include <map>
#include <nlohmann/json.hpp>

namespace tsq::bench {
namespace measure_test {

using nlohmann::json;
using ::testing::ElementsAre;

/// Workers that take given times, and what they were asked.
struct Stage {
  std::map<std::string, double> seconds{};  ///< of a call, by path
  std::string refused{};                    ///< the form that cannot be loaded
  int workers{0};
  std::vector<std::string> turns{};  ///< paths, in order; warm-up not counted
  std::vector<std::size_t> samples{};

  Ask worker() {
    ++workers;
    auto loaded = std::make_shared<std::vector<std::string>>();
    return [this, loaded](const json& request) { return answer(*loaded, request); };
  }

  json answer(std::vector<std::string>& loaded, const json& request) {
    if (request["do"] == "load") {
      if (request["entry"]["form"] == refused)
        return {{"error", {{"code", ErrorCode::BadModel}, {"problem", "no"}, {"remedy", ""}}}};
      loaded.push_back(request["entry"]["path"]);
      return {{"bytes", 10}, {"engine", "x86"}, {"rows", 2.0}, {"load_seconds", 0.5}, {"first_seconds", 0.7}};
    }
    if (request["do"] == "end") return {{"peak_memory", 1000 + workers}};
    const std::string& path = loaded.at(request["entry"]);
    const std::size_t calls = request["calls"];
    if (calls > 1) {
      turns.push_back(path);
      samples.push_back(request["sample"]);
    }
    return {{"seconds", std::vector<double>(calls, seconds.at(path))},
            {"wall", static_cast<double>(calls) * seconds.at(path)}};
  }
};

Entry entry_of(const std::string& path) { return {.setting = {.path = path}}; }

Result run(Stage& stage, const std::vector<Entry>& entries, const Plan& plan) {
  return measure(
      entries, "data.pt", plan, [&] { return stage.worker(); }, [](std::size_t, std::size_t) {});
}

TEST(Measure, EachRoundBeginsWithAnotherEntryAndHasOneSample) {
  Stage stage{.seconds = {{"a", 0.001}, {"b", 0.002}}};
  run(stage, {entry_of("a"), entry_of("b")}, {.launches = 1, .rounds = 3});
  EXPECT_THAT(stage.turns, ElementsAre("a", "b", "b", "a", "a", "b"));
  EXPECT_THAT(stage.samples, ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST(Measure, EachLaunchHasAFreshProcessForEachEntry) {
  Stage stage{.seconds = {{"a", 0.001}, {"b", 0.002}}};
  const Result result = run(stage, {entry_of("a"), entry_of("b")}, {.launches = 3, .rounds = 2});
  EXPECT_EQ(stage.workers, 6);
  EXPECT_EQ(result.entries[0].rounds.size(), 3U);
  EXPECT_EQ(result.entries[0].load_seconds.size(), 3U);
  EXPECT_EQ(result.entries[1].peak_memory, 1006U);
}

TEST(Measure, TogetherThereIsOneProcessALaunch) {
  Stage stage{.seconds = {{"a", 0.001}, {"b", 0.002}}};
  run(stage, {entry_of("a"), entry_of("b")}, {.launches = 2, .rounds = 2, .together = true});
  EXPECT_EQ(stage.workers, 2);
}

TEST(Measure, TurnsOfFastModelsHaveMoreCalls) {
  Stage stage{.seconds = {{"fast", 0.0001}, {"slow", 0.002}}};
  const Result result = run(stage, {entry_of("fast"), entry_of("slow")}, {.launches = 1, .rounds = 2});
  EXPECT_EQ(result.entries[0].latency.count, 200U);
  EXPECT_EQ(result.entries[1].latency.count, 10U);
  EXPECT_NEAR(speed_ratio(result.entries[1], result.entries[0]).value, 20, 1e-9);
  EXPECT_NEAR(result.entries[1].throughput(), 1000, 1e-9) << "two rows a call";
}

TEST(Measure, TheDurationIsSharedByLaunchesAndSpentOnCalls) {
  Stage stage{.seconds = {{"a", 0.001}}};
  const Result result = run(stage, {entry_of("a")}, {.launches = 2, .seconds = 2.2});
  // A turn takes 11 ms with the call that is not timed; a launch has 1.1 s.
  EXPECT_EQ(result.entries[0].rounds[0].size(), 100U);
}

TEST(Measure, AnOptionalEntryThatCannotRunIsLeftOut) {
  Stage stage{.seconds = {{"a", 0.001}}, .refused = "optimized"};
  Entry optimized = entry_of("a");
  optimized.setting.form = Form::Optimized;
  optimized.is_optional = true;
  const Result result = run(stage, {optimized, entry_of("a")}, {.launches = 2, .rounds = 2});
  ASSERT_EQ(result.entries.size(), 1U);
  EXPECT_FALSE(result.entries[0].entry.is_optional);
  optimized.is_optional = false;
  EXPECT_THROW(run(stage, {optimized}, {.launches = 1, .rounds = 2}), Error);
}

TEST(Measure, AFloatFileIsProfiledOnceFrozenWhereThatRuns) {
  Entry optimized = entry_of("a");
  optimized.setting.form = Form::Optimized;
  optimized.is_optional = true;
  const auto forms = [&](const std::string& refused) {
    const auto worker = [&](const json& request) -> json {
      if (request["do"] == "load" && request["entry"]["form"] == refused)
        return {{"error", {{"code", ErrorCode::BadModel}, {"problem", "no"}, {"remedy", ""}}}};
      return {{"seconds", 1.0}, {"operators", json::array()}};
    };
    std::vector<std::optional<Form>> chosen;
    for (const ProfiledEntry& one : profile(
             {optimized, entry_of("a")}, "data.pt", 1, [&] { return Ask(worker); },
             [](std::size_t, std::size_t) {}))
      chosen.push_back(one.entry.setting.form);
    return chosen;
  };
  EXPECT_EQ(forms("none"), std::vector<std::optional<Form>>{Form::Frozen});
  EXPECT_EQ(forms("frozen"), std::vector<std::optional<Form>>{entry_of("a").setting.form});
}

TEST(Measure, SeveralCallersAtOnceAreJudgedByWhatTheyFinish) {
  // Four callers, 10 ms each, finish a call every 4 ms.
  const auto worker = [](const json& request) -> json {
    if (request["do"] == "load")
      return {{"bytes", 10}, {"engine", "x86"}, {"rows", 1.0}, {"load_seconds", 0.5}, {"first_seconds", 0.7}};
    if (request["do"] == "end") return {{"peak_memory", nullptr}};
    const std::size_t calls = request["calls"].get<std::size_t>() * 4;
    return {{"seconds", std::vector<double>(calls, 0.010)}, {"wall", 0.004 * static_cast<double>(calls)}};
  };
  Entry entry = entry_of("a");
  entry.concurrency = 4;
  const Result result = measure(
      {entry}, "data.pt", {.launches = 1, .rounds = 3}, [&] { return Ask(worker); },
      [](std::size_t, std::size_t) {});
  EXPECT_NEAR(result.entries[0].throughput(), 250, 1e-9);
  EXPECT_NEAR(result.entries[0].latency.median, 0.010, 1e-12);
}

}  // namespace measure_test
}  // namespace tsq::bench
