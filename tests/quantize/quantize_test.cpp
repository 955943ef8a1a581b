// tsq::quantize: what the command does, for programs. Latency is not measured here: the same input has the
// same result then.
#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/runner.h>
#include <tsq/tsq.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "outputs/output_power.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"
#include "trial/referee.h"

namespace tsq {
namespace quantize_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using torch::jit::Module;

std::vector<Sample> samples(int count = 8) {
  torch::manual_seed(3);
  std::vector<Sample> result;
  for (int i = 0; i < count; ++i) result.push_back({torch::randn({16, 32})});
  return result;
}

/// first → relu → last.
Module chain() {
  torch::manual_seed(5);
  Module model = testing::user_module("Chain");
  model.register_module("first", testing::linear(32, 64));
  model.register_module("last", testing::linear(64, 32));
  model.define("def forward(self, x):\n  return self.last.forward(torch.relu(self.first.forward(x)))\n");
  model.define("def doubled(self, x, y):\n  return self.last.forward(self.first.forward(x + y))\n");
  model.eval();
  return model;
}

at::Tensor output(const Module& model, const Sample& sample) {
  const c10::InferenceMode no_gradients;
  Module copy = model;
  return copy.forward(sample).toTensor();
}

/// Scores of five classes, one of which is out of the question by far: most of the range is for it alone.
Module tagger(double scale = 400, const std::string& returned = "y") {
  torch::manual_seed(5);
  const at::NoGradGuard no_grad;
  Module model = testing::user_module("Tagger");
  Module last = testing::linear(64, 5);
  const at::Tensor weight = last.attr("weight").toTensor();
  weight.mul_(scale);
  weight.select(0, 0).abs_().mul_(-100);
  model.register_module("first", testing::linear(32, 64));
  model.register_module("last", last);
  model.define(
      "def forward(self, x):\n  y = self.last.forward(torch.relu(self.first.forward(x)))\n  return " +
      returned + "\n");
  model.eval();
  return model;
}
/// What it returns spans more than logits do.
const std::vector<NamedDecisions> kScores{{.output = "output"}};

std::vector<std::string> method_names(const Module& model) {
  std::vector<std::string> names;
  for (const auto& method : model.get_methods()) names.push_back(method.name());
  return names;
}

TEST(Quantize, IsTheStepsWithTheMappingFound) {
  const Module model = chain();
  const std::vector<Sample> data = samples();
  const Quantized quantized = quantize(model, data, {.times = false});
  ASSERT_FALSE(quantized.is_float_model);
  EXPECT_EQ(quantized.samples, data.size());
  EXPECT_EQ(quantized.trial.samples, data.size());
  EXPECT_FALSE(quantized.trial.fault.has_value());
  EXPECT_FALSE(quantized.latency.has_value());

  const BackendConfig backend =
      mode_backend_config(QuantizeMode::Static, Recipe::Best, backend_config("x86"));
  Prepared prepared = prepare(model, quantized.mapping, backend, {.recipe = Recipe::Best});
  calibrate(prepared, data);
  const Lowered lowered = convert(prepared, backend);
  EXPECT_TRUE(at::equal(output(quantized.module(), data[0]), output(lowered, data[0])));
}

TEST(Quantize, AModelThatIsLeftFloatIsTheUsersOwnWhereItsLayersWouldGrow) {
  Module model = chain();
  model.to(at::kHalf);
  std::vector<Sample> data;
  for (const Sample& sample : samples()) data.push_back({sample[0].toTensor().to(at::kHalf)});
  // Fewer bytes than the record that tsq writes: whatever int8 saves, the file grows.
  const Quantized quantized = quantize(model, data, {.times = false, .float_bytes = 1000});
  ASSERT_TRUE(quantized.is_float_model);
  EXPECT_TRUE(at::equal(output(quantized.module(), data[0]), output(model, data[0])));
  EXPECT_EQ(quantized.mapping, QConfigMapping());
  for (const Decision& decision : quantized.report().decisions)
    EXPECT_THAT(decision.reason, HasSubstr("the trial left it float"));
}

TEST(Quantize, TheSameInputHasTheSameResult) {
  const Module model = chain();
  const std::vector<Sample> data = samples();
  const Quantized one = quantize(model, data, {.times = false});
  const Quantized two = quantize(model, data, {.times = false});
  EXPECT_EQ(one.mapping.to_dict(), two.mapping.to_dict());
  EXPECT_EQ(one.report().to_json(), two.report().to_json());
  EXPECT_EQ(one.trial.bytes, two.trial.bytes);
  for (const Sample& sample : data)
    EXPECT_TRUE(at::equal(output(one.module(), sample), output(two.module(), sample)));
}

TEST(Quantize, ThreadsOfFourEnginesMakeWhatOneMakesAlone) {
  const Module model = chain();
  const std::vector<Sample> data = samples();
  const auto made = [&](const std::string& engine) {
    std::ostringstream file;
    quantize(model, data, {.backend = engine, .times = false}).module().save(file);
    return file.str();
  };
  const std::vector<std::string> engines{"x86", "fbgemm", "qnnpack", "onednn"};
  std::vector<std::string> alone;
  for (const std::string& engine : engines) alone.push_back(made(engine));
  std::vector<std::string> together(2 * engines.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < together.size(); ++i)
    threads.emplace_back([&, i] { together[i] = made(engines[i % engines.size()]); });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < together.size(); ++i)
    EXPECT_EQ(together[i], alone[i % engines.size()]) << engines[i % engines.size()];
}

TEST(Quantize, TellsOfItsSteps) {
  std::vector<std::string> begun;
  std::vector<std::string> ended;
  QuantizeOptions options;
  options.times = false;
  options.events.on_begin = [&](std::string_view step) { begun.emplace_back(step); };
  options.events.on_end = [&](std::string_view step) { ended.emplace_back(step); };
  (void)quantize(chain(), samples(), options);
  EXPECT_THAT(begun, ElementsAre("prepare", "calibrate", "convert", "unseen"));
  EXPECT_EQ(ended, begun);
}

/// What a caller throws to cancel: nothing that the library knows.
struct Cancelled {
  std::string where{};
};

/// Where quantize with these options was cancelled.
std::string cancelled(const QuantizeOptions& options) {
  try {
    (void)quantize(chain(), samples(), options);
  } catch (const Cancelled& thrown) {
    return thrown.where;
  }
  return "it was not cancelled";
}

TEST(Quantize, WhatACallersFunctionThrowsIsNoFaultOfTheModel) {
  const QuantizeOptions plain{.goal = {.min_sqnr = 1000}, .times = false};
  for (const char* step : {"prepare", "calibrate", "search"}) {
    QuantizeOptions options = plain;
    const auto cancel_in = [step](std::string_view now, std::string where) {
      if (now == step) throw Cancelled{std::move(where)};
    };
    options.events.on_begin = [&](std::string_view now) { cancel_in(now, "on_begin"); };
    EXPECT_EQ(cancelled(options), "on_begin") << step;
    options.events.on_begin = {};
    options.events.on_end = [&](std::string_view now) { cancel_in(now, "on_end"); };
    // A step that failed had its fault first.
    if (step != std::string_view("search")) {
      EXPECT_EQ(cancelled(options), "on_end") << step;
    }
  }
  for (const char* step : {"calibrate", "convert"}) {
    QuantizeOptions options{.times = false};
    options.events.on_progress = [&](std::string_view now, std::size_t done, std::size_t total) {
      if (now == step && 2 * done > total) throw Cancelled{"on_progress"};
    };
    EXPECT_EQ(cancelled(options), "on_progress") << step;
  }
  QuantizeOptions trials = plain;
  trials.events.on_trial = [](const GoalTrial&) { throw Cancelled{"on_trial"}; };
  EXPECT_EQ(cancelled(trials), "on_trial");
  QuantizeOptions ranking = plain;
  ranking.recipe = Recipe::Fx;  // recipe best ranks no layers
  ranking.events.on_ranking = [](std::size_t, std::size_t) { throw Cancelled{"on_ranking"}; };
  ranking.goal = {.min_sqnr = 60};
  EXPECT_EQ(cancelled(ranking), "on_ranking");
  int models = 0;
  QuantizeOptions score{.times = false};
  score.goal.score = [&](const Module&) -> double {
    if (++models == 2) throw Cancelled{"score"};
    return 1;
  };
  EXPECT_EQ(cancelled(score), "score");
}

TEST(Quantize, ExceptionsOfTheLibrarysOwnTypesPassAsWell) {
  // A fault of a model would be of this type, and the search for it would leave layers float.
  QuantizeOptions options{.times = false};
  options.events.on_progress = [](std::string_view step, std::size_t, std::size_t) {
    if (step == "convert") throw Error(ErrorCode::Internal, "pressed");
  };
  try {
    (void)quantize(chain(), samples(), options);
    ADD_FAILURE() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Internal);
    EXPECT_STREQ(error.what(), "pressed");
  }
}

TEST(Quantize, AModelOfATableOfOnesOwnRunsWithTheEngineThatTheTableNames) {
  const BackendConfig own =
      BackendConfig("mine").set_backend_pattern_configs(backend_config("onednn").configs());
  try {
    (void)quantize(chain(), samples(), {.backend_config = own, .times = false});
    ADD_FAILURE() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.problem(), "the table 'mine' names no engine");
  }
  const Quantized quantized = quantize(chain(), samples(),
                                       {.backend_config = BackendConfig(own).set_engine("onednn"),
                                        .machine = testing::slow_in_float(),
                                        .times = false});
  EXPECT_EQ(quantized.mapping, best_qconfig_mapping("onednn"));
  const std::string file = (std::filesystem::temp_directory_path() / "tsq-own-table.pt").string();
  save(quantized.module(), file);
  EXPECT_EQ(read_metadata(file)["engine"], "onednn");
  const at::QEngine before = engine_in_use();
  set_engine(at::QEngine::FBGEMM);
  EXPECT_EQ(Runner(file).engine(), at::QEngine::ONEDNN);
  set_engine(before);
  std::filesystem::remove(file);
}

TEST(Quantize, ARemarkIsASentenceWithItsRemedy) {
  const Quantized poor =
      quantize(tagger(), samples(),
               {.recipe = Recipe::Fx, .decisions = kScores, .times = false, .float_bytes = 1 << 30});
  ASSERT_EQ(poor.warnings.size(), 1U);
  EXPECT_THAT(to_string(poor.warnings[0]),
              HasSubstr("% of the rows of output in which float decides clearly int8 has a "
                        "tie: --min-agreement 0.99 (goal.min_agreement) leaves"));
  EXPECT_EQ(to_string(Remark{.kind = RemarkKind::Slower, .figure = 0.5, .remedy = "deploy the float model"}),
            "slower than float, 0.50 of its speed: deploy the float model");
  for (int kind = 0; kind <= static_cast<int>(RemarkKind::FewSamples); ++kind) {
    const std::string sentence =
        to_string(Remark{.kind = static_cast<RemarkKind>(kind), .figure = 0.5, .text = "output"});
    EXPECT_GT(sentence.size(), 15U) << kind;
    EXPECT_NE(sentence.back(), '.') << sentence;
  }
}

TEST(Quantize, TheResultAsJsonHasWhatWasFound) {
  const Quantized quantized = quantize(chain(), samples(), {.times = false, .float_bytes = 100});
  const nlohmann::json json = quantized.to_json();
  EXPECT_EQ(json["trial"], quantized.trial.to_json());
  EXPECT_EQ(json["notes"][0], to_string(quantized.notes.at(0)));
  EXPECT_EQ(json["is_float_model"], true);
  EXPECT_EQ(json["samples"], 8);
  EXPECT_EQ(json["left_float"].size(), quantized.left_float.size());
  EXPECT_TRUE(json["latency"].is_null());
  EXPECT_TRUE(json["goal"].is_null());
}

/// Heavy tails: a further sample leaves the ranges of a few.
std::vector<Sample> with_heavy_tails(int count, uint64_t seed) {
  torch::manual_seed(seed);
  std::vector<Sample> result;
  for (int i = 0; i < count; ++i) result.push_back({torch::randn({16, 32}).pow(5)});
  return result;
}

TEST(Quantize, WhatCalibrationHadFoundBeforeTheLastQuarterIsJudgedByIt) {
  const Module model = chain();
  std::vector<std::string> begun;
  QuantizeOptions options;
  options.recipe = Recipe::Fx;
  options.times = false;
  options.events.on_begin = [&](std::string_view step) { begun.emplace_back(step); };
  std::vector<Sample> data = with_heavy_tails(8, 3);
  data.back()[0] = 10 * data.back()[0].toTensor();
  const Quantized quantized = quantize(model, data, options);
  ASSERT_TRUE(quantized.unseen.has_value());
  EXPECT_THAT(begun, ElementsAre("prepare", "calibrate", "convert", "unseen"));
  EXPECT_GT(quantized.unseen->outside.value(), 0);
  EXPECT_LT(quantized.unseen->outside.value(), 0.5);
  EXPECT_EQ(quantized.unseen->calibrated_db, quantized.trial.sample_db);

  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = options.recipe});
  const std::span<const Sample> all(data);
  calibrate(prepared, all.first(6));
  const detail::Referee referee(model, at::QEngine::X86, {data.begin() + 6, data.end()},
                                {data.begin(), data.begin() + 6});
  const Trial by_hand = referee.judge(convert(prepared, backend).module());
  EXPECT_EQ(quantized.unseen->samples, 2U);
  EXPECT_EQ(quantized.unseen->sqnr_db, by_hand.sqnr_db);
  EXPECT_EQ(quantized.unseen->sample_db, by_hand.sample_db);
}

TEST(Quantize, SamplesWithoutRangesHoldNoneBack) {
  const Quantized quantized = quantize(chain(), samples(), {.mode = QuantizeMode::Dynamic, .times = false});
  EXPECT_FALSE(quantized.unseen.has_value());
}

TEST(Quantize, TheBoundIncludesThatFurtherSamplesLeaveTheRanges) {
  const Module model = chain();
  std::size_t above = 0;
  std::size_t above_that_of_calibration = 0;
  std::size_t all = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Quantized quantized =
        quantize(model, with_heavy_tails(8, 2 * seed), {.times = false, .float_bytes = 1 << 30});
    const double bound = quantized.unseen.value().expected_db().value();
    const double of_calibration = quantized.trial.expected_db().value();
    const Trial further =
        try_model(model, quantized.module(), backend_config("x86"), with_heavy_tails(40, 2 * seed + 1));
    for (const double db : further.sample_db) {
      ++all;
      above += db > bound ? 1 : 0;
      above_that_of_calibration += db > of_calibration ? 1 : 0;
    }
  }
  EXPECT_GT(above, above_that_of_calibration);
  EXPECT_GT(static_cast<double>(above), 0.85 * static_cast<double>(all));
}

TEST(Quantize, HoldsSamplesBackForAGoal) {
  const Quantized quantized = quantize(chain(), samples(), {.goal = {.min_sqnr = 5}, .times = false});
  EXPECT_EQ(quantized.held_back, 2U);
  EXPECT_EQ(quantized.samples, 6U);
  ASSERT_TRUE(quantized.goal.has_value());
  EXPECT_TRUE(quantized.goal->search.reached);
  ASSERT_TRUE(quantized.unseen.has_value());
  EXPECT_EQ(quantized.unseen->samples, 8U);
  ASSERT_EQ(quantized.notes.size(), 1U);
  EXPECT_EQ(quantized.notes[0].kind, RemarkKind::FewSamples);
  EXPECT_EQ(quantized.notes[0].figure, 8);
}

/// Adds up what it was called with.
Module sums_up() {
  torch::manual_seed(5);
  Module model = testing::user_module("SumsUp");
  model.register_module("first", testing::linear(32, 64));
  model.register_module("last", testing::linear(64, 32));
  model.register_buffer("sum", torch::zeros({16, 32}));
  model.define(R"(
def forward(self, x):
  self.sum = 0.9 * self.sum + x
  return self.last.forward(torch.relu(self.first.forward(self.sum)))
)");
  model.eval();
  return model;
}

/// The SQNR of a trial by hand: both models begin as they are.
double sqnr_in_order(const Module& exact, const Module& got, std::span<const Sample> data) {
  Module one = exact.deepcopy();
  Module other = got.deepcopy();
  std::vector<at::Tensor> wanted;
  double error = 0;
  for (const Sample& sample : data) {
    wanted.push_back(output(one, sample));
    error += (wanted.back() - output(other, sample)).to(at::kDouble).square().sum().item<double>();
  }
  const std::vector<double> powers = detail::output_powers(wanted);
  return detail::decibels(std::accumulate(powers.begin(), powers.end(), 0.0), error);
}

TEST(Quantize, AModelThatKeepsStateIsTriedOnAllSamplesInOrder) {
  const Module model = sums_up();
  const std::vector<Sample> data = samples(24);
  const Quantized quantized = quantize(model, data, {.times = false, .float_bytes = 1 << 30});
  ASSERT_FALSE(quantized.is_float_model);
  EXPECT_EQ(quantized.trial.samples, data.size());
  EXPECT_NEAR(quantized.trial.sqnr_db.value(), sqnr_in_order(model, quantized.module(), data), 0.01);
  EXPECT_EQ(model.attr("sum").toTensor().abs().max().item<float>(), 0);
  EXPECT_EQ(quantized.module().attr("sum").toTensor().abs().max().item<float>(), 0);
}

TEST(Quantize, AGoalForAModelThatKeepsStateIsJudgedOnAQuarterInOrder) {
  const Module model = sums_up();
  const std::vector<Sample> data = samples(64);
  const Quantized quantized =
      quantize(model, data, {.goal = {.min_sqnr = 20}, .times = false, .float_bytes = 1 << 30});
  EXPECT_EQ(quantized.held_back, 16U);
  EXPECT_TRUE(quantized.goal->search.kept.empty());
  const std::span<const Sample> second_quarter = std::span(data).subspan(16, 16);
  EXPECT_NEAR(quantized.trial.sqnr_db.value(), sqnr_in_order(model, quantized.module(), second_quarter),
              0.01);
}

TEST(Quantize, AScoreLeavesNoStateInWhatItScores) {
  const Module model = sums_up();
  const auto score = [](const Module& scored) {
    EXPECT_EQ(scored.attr("sum").toTensor().abs().max().item<float>(), 0);
    (void)output(scored, samples(1).front());
    return 1.0;
  };
  const Quantized quantized =
      quantize(model, samples(), {.goal = {.score = score}, .times = false, .float_bytes = 1 << 30});
  EXPECT_EQ(model.attr("sum").toTensor().abs().max().item<float>(), 0);
  EXPECT_EQ(quantized.module().attr("sum").toTensor().abs().max().item<float>(), 0);
}

TEST(Quantize, AGoalThatNoModelReachesIsAnError) {
  std::size_t calls = 0;
  // The float model comes first.
  const auto score = [&calls](const Module&) { return calls++ == 0 ? 1.0 : 0.25; };
  try {
    (void)quantize(chain(), samples(), {.goal = {.score = score}, .times = false});
    FAIL() << "the goal was reached";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadConfig);
    EXPECT_THAT(error.problem(), HasSubstr("no model reaches the goal, score of at least 0.99"));
    EXPECT_THAT(error.problem(), HasSubstr("has 0.25"));
  }
}

TEST(Quantize, TwoGoalsAreAnError) {
  try {
    (void)quantize(chain(), samples(), {.goal = {.min_sqnr = 20, .min_agreement = 0.9}});
    FAIL() << "both were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadConfig);
    EXPECT_THAT(error.problem(), HasSubstr("min_sqnr and min_agreement are two goals"));
  }
}

std::vector<RemarkKind> kinds(const std::vector<Remark>& remarks) {
  std::vector<RemarkKind> result;
  for (const Remark& remark : remarks) result.push_back(remark.kind);
  return result;
}

/// A size of the float file by which int8 pays.
constexpr uint64_t kLargeFile = 1 << 30;

TEST(Quantize, LostDecisionsAreToldThoughTheWholeIsRight) {
  const Quantized quantized =
      quantize(tagger(), samples(),
               {.recipe = Recipe::Fx, .decisions = kScores, .times = false, .float_bytes = kLargeFile});
  EXPECT_GT(quantized.trial.sqnr_db.value(), 25);
  ASSERT_THAT(kinds(quantized.warnings), ElementsAre(RemarkKind::TiedDecisions));
  EXPECT_GT(quantized.warnings[0].figure, 0.5);
  EXPECT_EQ(quantized.warnings[0].text, "output");
}

TEST(Quantize, WhatIsReturnedKeepsItsDecisionsOnEveryEngine) {
  for (const char* engine : {"x86", "fbgemm", "onednn", "qnnpack"}) {
    const Quantized quantized = quantize(tagger(), samples(),
                                         {.backend = engine,
                                          .machine = testing::slow_in_float(),
                                          .decisions = kScores,
                                          .times = false,
                                          .float_bytes = kLargeFile});
    ASSERT_FALSE(quantized.is_float_model);
    const Decisions& decisions = quantized.trial.outputs.at(0).decisions.clear;
    EXPECT_GT(decisions.rows, 64U) << engine;
    EXPECT_EQ(decisions.tied, 0U) << engine;
    EXPECT_GT(decisions.agreed, decisions.rows * 9 / 10) << engine;
    EXPECT_THAT(quantized.warnings, IsEmpty()) << engine;
  }
}

/// Sequences of eight, of which the last rows are padding.
TEST(Quantize, LostDecisionsOfSequencesAreToldAndAGoalMendsThem) {
  const Module model = tagger(0.4,
                              "torch.where(torch.arange(8).unsqueeze(-1) < 5, torch.softmax(y.reshape(2, 8, "
                              "5), -1), 0.2 * torch.ones(5))");
  const Quantized lost =
      quantize(model, samples(), {.recipe = Recipe::Fx, .times = false, .float_bytes = kLargeFile});
  const JudgedDecisions& before = lost.trial.outputs.at(0).decisions;
  EXPECT_EQ(before.by, ScoresBy::Softmax);
  EXPECT_EQ(before.dim, 2);
  EXPECT_EQ(before.all.rows, 8U * 2 * 5);
  EXPECT_LT(before.all.share(), 0.95);
  EXPECT_THAT(kinds(lost.warnings), ::testing::AnyOf(::testing::Contains(RemarkKind::OtherDecisions),
                                                     ::testing::Contains(RemarkKind::TiedDecisions)));
  const Quantized mended = quantize(model, samples(),
                                    {.recipe = Recipe::Fx,
                                     .goal = {.min_agreement = 0.99},
                                     .judged_by = samples(),
                                     .times = false,
                                     .float_bytes = kLargeFile});
  EXPECT_GE(mended.trial.outputs.at(0).decisions.all.share(), 0.99);
  EXPECT_THAT(kinds(mended.warnings), ::testing::Not(::testing::Contains(RemarkKind::OtherDecisions)));
  ASSERT_FALSE(mended.goal->search.kept.empty());
  const std::string& node = mended.goal->search.kept.front().nodes.front();
  const auto& decisions = mended.report().decisions;
  const auto left = std::ranges::find(decisions, node, &Decision::node);
  ASSERT_NE(left, decisions.end());
  EXPECT_EQ(left->reason, "the goal's search left it float: in int8 it costs accuracy");
}

/// Returns the places of its largest scores.
Module labeller() {
  torch::manual_seed(5);
  Module model = testing::user_module("Labeller");
  model.register_module("first", testing::linear(32, 64));
  model.register_module("last", testing::linear(64, 8));
  model.define(
      "def forward(self, x):\n"
      "  return torch.argmax(self.last.forward(torch.relu(self.first.forward(x))), -1)\n");
  model.eval();
  return model;
}

TEST(Quantize, LabelsAreJudgedAsDecisions) {
  const auto made = [](const QuantizeGoal& goal) {
    return quantize(labeller(), samples(), {.goal = goal, .times = false, .float_bytes = kLargeFile});
  };
  const Quantized quantized = made({});
  EXPECT_FALSE(quantized.trial.sqnr_db.has_value());
  const JudgedDecisions& labels = quantized.trial.outputs.at(0).decisions;
  EXPECT_EQ(labels.by, ScoresBy::Labels);
  EXPECT_EQ(labels.all.rows, samples().size() * 16);
  EXPECT_LT(labels.all.agreed, labels.all.rows);
  const Quantized all_agree = made({.min_agreement = 1});
  EXPECT_EQ(all_agree.goal->search.score, 1);
  try {
    (void)made({.min_sqnr = 20});
    FAIL() << "an SQNR of labels was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.problem(), HasSubstr("no output holds floating-point numbers"));
    EXPECT_THAT(error.remedy(), HasSubstr("--min-agreement"));
  }
}

TEST(Quantize, ASecondOutputThatIsExactHidesNothing) {
  torch::manual_seed(5);
  Module model = testing::user_module("Two");
  model.register_module("first", testing::linear(32, 64));
  model.define("def forward(self, x):\n  return self.first.forward(x), 1000. * x\n");
  model.eval();
  const Quantized quantized = quantize(model, samples(), {.times = false, .float_bytes = kLargeFile});
  ASSERT_EQ(quantized.trial.outputs.size(), 2U);
  EXPECT_LT(quantized.trial.sqnr_db.value(), 60);
  EXPECT_EQ(quantized.trial.sqnr_db, quantized.trial.outputs[0].sqnr_db);
  EXPECT_GT(quantized.trial.outputs[1].sqnr_db, 100);
}

TEST(Quantize, LittleGainedIsTold) {
  const Quantized large = quantize(chain(), samples(), {.times = false, .float_bytes = kLargeFile});
  EXPECT_THAT(large.warnings, IsEmpty());
  const Quantized same = quantize(chain(), samples(), {.times = false, .float_bytes = large.trial.bytes});
  EXPECT_FALSE(same.is_float_model);
  ASSERT_THAT(kinds(same.warnings), ElementsAre(RemarkKind::LittleGained));
  EXPECT_EQ(same.warnings[0].figure, 1);
}

TEST(Quantize, AResultThatIsAllFloatIsTheModelAsItWas) {
  const Module model = chain();
  constexpr uint64_t kSmallFile = 1000;  // whatever int8 saves, the file grows
  const Quantized quantized = quantize(model, samples(), {.times = false, .float_bytes = kSmallFile});
  ASSERT_TRUE(quantized.is_float_model);
  EXPECT_EQ(quantized.module()._ivalue(), model._ivalue());
  EXPECT_EQ(quantized.trial.bytes, kSmallFile);
  EXPECT_THAT(kinds(quantized.notes), ElementsAre(RemarkKind::FloatPays));
  // The mapping makes the same one again.
  const Quantized again =
      quantize(model, samples(), {.mapping = quantized.mapping, .times = false, .float_bytes = kSmallFile});
  EXPECT_EQ(again.module()._ivalue(), model._ivalue());
}

TEST(Quantize, RecipeFxKeepsWhatFxWritesOfAFloatModelAndTellsOfItsSize) {
  const Quantized quantized =
      quantize(chain(), samples(),
               {.mapping = QConfigMapping(), .recipe = Recipe::Fx, .times = false, .float_bytes = 100});
  EXPECT_TRUE(quantized.is_float_model);
  ASSERT_THAT(kinds(quantized.notes), ElementsAre(RemarkKind::FloatGrew));
  EXPECT_NEAR(quantized.notes[0].figure, static_cast<double>(quantized.trial.bytes) / 100, 1e-9);
  EXPECT_THAT(quantized.notes[0].text, HasSubstr("qconfig_mapping")) << "the record";
}

TEST(Quantize, AModelWithoutAnythingToQuantizeStaysAsItIs) {
  Module model = testing::user_module("Sine");
  model.define("def forward(self, x):\n  return torch.sin(x)\n");
  model.eval();
  const Quantized quantized = quantize(model, samples(), {.times = false});
  EXPECT_TRUE(quantized.is_float_model);
  ASSERT_EQ(quantized.warnings.size(), 1U);
  EXPECT_EQ(quantized.warnings[0].kind, RemarkKind::NothingQuantized);
  EXPECT_THAT(quantized.notes, IsEmpty());
}

TEST(Quantize, AnotherMethodCanBeQuantized) {
  std::vector<Sample> data = samples();
  for (Sample& sample : data) sample.emplace_back(torch::ones({16, 32}));
  const Quantized quantized = quantize(chain(), data, {.method = "doubled", .times = false});
  EXPECT_THAT(method_names(quantized.module()), UnorderedElementsAre("forward", "doubled"));
  EXPECT_EQ(quantized.trial.samples, data.size());
  EXPECT_GT(quantized.trial.sqnr_db.value(), 20);
}

TEST(Quantize, ModeAndRecipeChooseTheMapping) {
  const Quantized dynamic =
      quantize(chain(), {}, {.mode = QuantizeMode::Dynamic, .recipe = Recipe::Fx, .times = false});
  EXPECT_FALSE(dynamic.is_float_model);
  EXPECT_EQ(dynamic.mapping.to_dict(), dynamic_qconfig_mapping().to_dict());
}

}  // namespace quantize_test
}  // namespace tsq
