// The loop around the finished model. Nothing here looks at a clock.
#include "trial/finish.h"

#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/error.h>

#include <limits>
#include <sstream>

#include "pipeline/stage.h"
#include "support/small_models.h"

namespace tsq {
namespace finish_test {

using detail::Finished;
using detail::FinishTask;
using ::testing::ElementsAre;
using torch::jit::Module;

std::vector<Sample> samples() {
  torch::manual_seed(3);
  std::vector<Sample> result;
  for (int i = 0; i < 4; ++i) result.push_back({torch::randn({4, 6})});
  return result;
}

/// first → second → `last`.
Module chain(const char* last) {
  torch::manual_seed(5);
  Module model = testing::user_module("Chain");
  model.register_module("first", testing::linear(6, 8));
  model.register_module("second", testing::linear(8, 8));
  model.register_module(last, testing::linear(8, 4));
  model.define(std::string("def forward(self, x):\n  return self.") + last +
               ".forward(self.second.forward(self.first.forward(x)))\n");
  model.eval();
  return model;
}

/// The range that calibration found for what `bad` returns becomes infinite, as that of a broken observer.
void spoil(Prepared& prepared) {
  for (ir::ObserverEntry& observer : detail::stage_of(prepared).model.observers) {
    if (observer.layer == "bad")
      observer.module->attr("max_val").toTensor().fill_(std::numeric_limits<float>::infinity());
  }
}

QConfigMapping mapping() {
  // As in PyTorch's mapping for x86: without VNNI sums of 8 bits overflow.
  const ObserverSpec activation{
      .observer = "MinMaxObserver", .dtype = c10::ScalarType::QUInt8, .reduce_range = true};
  return QConfigMapping().set_global(
      QConfig{.activation = activation, .weight = default_qconfig_mapping().global_qconfig()->weight});
}

Prepared calibrated(const Module& model, const QConfigMapping& mapping) {
  Prepared prepared = prepare(model, mapping, backend_config("x86"), {.recipe = Recipe::Fx});
  calibrate(prepared, samples());
  spoil(prepared);
  return prepared;
}

LatencyComparison comparison(double times_as_fast) {
  return {.ratio = times_as_fast,
          .ratio_low = times_as_fast - 0.01,
          .ratio_high = times_as_fast + 0.01,
          .rounds = 100};
}

/// With times that are always the same; 0: none.
Finished finished(const Module& model, bool leaves_what_does_not_pay = false, uint64_t bytes = 0,
                  bool force = false, double times_as_fast = 0) {
  const BackendConfig backend = backend_config("x86");
  const std::vector<Sample> data = samples();
  const FinishTask task{.model = model,
                        .model_bytes = bytes,
                        .backend = backend,
                        .mapping = mapping(),
                        .calibrated = [&](const QConfigMapping& wanted) { return calibrated(model, wanted); },
                        .samples = data,
                        .times = times_as_fast > 0,
                        .timer = [&](const Sample&, const Module&, const Module&,
                                     const LatencyOptions&) { return comparison(times_as_fast); },
                        .leaves_what_does_not_pay = leaves_what_does_not_pay,
                        .force = force};
  return detail::finish(task);
}

std::vector<std::string> names(const std::vector<QuantizedLayer>& layers) {
  std::vector<std::string> result;
  for (const QuantizedLayer& layer : layers) result.push_back(layer.name);
  return result;
}

TEST(Finish, AModelThatRunsIsLeftAsItIs) {
  const Finished done = finished(chain("good"));
  EXPECT_FALSE(done.is_float_model);
  EXPECT_TRUE(done.left_float.empty());
  EXPECT_FALSE(done.trial.fault.has_value());
  EXPECT_EQ(done.trial.samples, 4U);
  EXPECT_GT(done.trial.sqnr_db.value(), 20);
  EXPECT_EQ(done.mapping, mapping());
}

TEST(Finish, ALayerThatFailsStaysFloatAndTheOthersDoNot) {
  const Module model = chain("bad");
  const Finished done = finished(model);
  ASSERT_FALSE(done.is_float_model);
  EXPECT_FALSE(done.trial.fault.has_value());
  ASSERT_EQ(done.left_float.size(), 1U);
  EXPECT_EQ(done.left_float[0].cause, LeftFloatCause::Fault);
  EXPECT_THAT(names(done.left_float[0].layers), ElementsAre("bad"));
  EXPECT_FALSE(done.left_float[0].text.empty());
  for (const Decision& decision : done.report.decisions)
    EXPECT_EQ(decision.quantized, decision.layer != "bad");
}

TEST(Finish, ThePlanGivesTheSameModelAgain) {
  const Module model = chain("bad");
  const Finished done = finished(model);
  Module again =
      convert(calibrated(model, mapping()), backend_config("x86"), {.plan = done.reference.plan()});
  const Sample sample = samples().front();
  EXPECT_TRUE(torch::equal(again.forward(sample).toTensor(), Module(done.module).forward(sample).toTensor()));
}

TEST(Finish, ForceWritesWhatFails) {
  const Finished done = finished(chain("bad"), false, 0, /*force=*/true);
  EXPECT_FALSE(done.is_float_model);
  ASSERT_TRUE(done.trial.fault.has_value());
  EXPECT_EQ(done.trial.fault->kind, FaultKind::NotFinite);
  EXPECT_TRUE(done.left_float.empty());
}

TEST(Finish, WhatIsLargerThanFloatStaysFloat) {
  const Finished done = finished(chain("good"), /*leaves_what_does_not_pay=*/true, /*bytes=*/100);
  EXPECT_TRUE(done.is_float_model);
  for (const Decision& decision : done.report.decisions)
    EXPECT_THAT(decision.reason, ::testing::HasSubstr("the trial left it float: in int8 the file is larger"));
  ASSERT_EQ(done.left_float.size(), 1U);
  EXPECT_EQ(done.left_float[0].cause, LeftFloatCause::Larger);
  EXPECT_FALSE(done.trial.fault.has_value());
  EXPECT_FALSE(finished(chain("good"), false, 100).is_float_model) << "only where that is asked for";
}

TEST(Finish, WhatIsNeitherFasterNorSmallerStaysFloat) {
  const uint64_t bytes = finished(chain("good")).trial.bytes;
  const auto done = [&](double times_as_fast, double size) {
    const auto float_bytes = static_cast<uint64_t>(static_cast<double>(bytes) / size);
    return finished(chain("good"), /*leaves_what_does_not_pay=*/true, float_bytes, /*force=*/false,
                    times_as_fast);
  };
  const Finished none = done(1.03, 1);
  EXPECT_TRUE(none.is_float_model);
  ASSERT_EQ(none.left_float.size(), 1U);
  EXPECT_EQ(none.left_float[0].cause, LeftFloatCause::NothingGained);
  for (const Decision& decision : none.report.decisions)
    EXPECT_THAT(decision.reason, ::testing::HasSubstr("neither faster nor the file smaller"));
  EXPECT_FALSE(done(1.1, 1).is_float_model) << "faster";
  EXPECT_FALSE(done(1.03, 0.9).is_float_model) << "smaller";
  EXPECT_FALSE(done(0, 1).is_float_model) << "without times nothing is known";
  EXPECT_TRUE(done(0.5, 0.25).is_float_model) << "slower in every part";
}

TEST(Finish, OfTheFirstSampleAndTheLongestTheOneCountsThatGainsLess) {
  const Module model = chain("good");
  const BackendConfig backend = backend_config("x86");
  std::vector<Sample> data = samples();
  data[2] = {torch::randn({64, 6})};
  const auto ratio = [&](double of_short, double of_long) {
    const FinishTask task{
        .model = model,
        .backend = backend,
        .mapping = mapping(),
        .calibrated = [&](const QConfigMapping& wanted) { return calibrated(model, wanted); },
        .samples = data,
        .times = true,
        .timer =
            [&](const Sample& sample, const Module&, const Module&, const LatencyOptions&) {
              return comparison(sample[0].toTensor().size(0) == 64 ? of_long : of_short);
            }};
    return detail::finish(task).latency->ratio;
  };
  EXPECT_EQ(ratio(3, 0.5), 0.5);
  EXPECT_EQ(ratio(0.5, 3), 0.5);
}

/// A layer that shrinks, and one that adds int8 weights to a table that the model also looks rows up in.
Module with_a_table() {
  torch::manual_seed(5);
  Module model = testing::user_module("Table");
  model.register_module("first", testing::linear(6, 64));
  model.register_module("good", testing::linear(64, 64));
  model.register_parameter("table", torch::randn({256, 64}), false);
  model.define(
      "def forward(self, x):\n"
      "  y = torch.linear(self.good.forward(self.first.forward(x)), self.table)\n"
      "  return y, torch.index_select(self.table, 0, torch.argmax(x, 1))\n");
  model.eval();
  return model;
}

TEST(Finish, OnlyWhatMakesAFileLargerStaysFloat) {
  const Module model = with_a_table();
  std::ostringstream file;
  model.save(file);
  const Finished done = finished(model, /*leaves_what_does_not_pay=*/true, file.str().size());
  ASSERT_FALSE(done.is_float_model);
  ASSERT_EQ(done.left_float.size(), 1U);
  EXPECT_EQ(done.left_float[0].cause, LeftFloatCause::Larger);
  EXPECT_LT(done.trial.bytes, file.str().size());
  for (const Decision& decision : done.report.decisions)
    EXPECT_TRUE(decision.layer != "good" || decision.quantized);
}

/// Most of the file is a table of words; two layers follow.
Module words_and_layers() {
  torch::manual_seed(5);
  Module words("__torch__.torch.nn.modules.sparse.Embedding");
  words.register_parameter("weight", torch::randn({2000, 64}), false);
  words.define("def forward(self, x):\n  return torch.embedding(self.weight, x)\n");
  Module model = testing::user_module("Words");
  model.register_module("words", words);
  model.register_module("first", testing::linear(64, 64));
  model.register_module("second", testing::linear(64, 64));
  model.define(
      "def forward(self, x):\n  y = self.words.forward(x).mean(1)\n"
      "  return self.second.forward(torch.relu(self.first.forward(y)))\n");
  model.eval();
  return model;
}

bool has_int8_layers(const Module& model) {
  const auto nodes = model.get_method("forward").graph()->nodes();
  return std::ranges::any_of(nodes, [](const torch::jit::Node* node) {
    return std::string_view(node->kind().toQualString()).starts_with("quantized::linear");
  });
}

TEST(Finish, ATableOfWordsStaysInt8WhereTheLayersAfterItAreSlower) {
  const Module model = words_and_layers();
  std::ostringstream file;
  model.save(file);
  const BackendConfig backend = backend_config("x86");
  const QConfigMapping mapping = best_qconfig_mapping("x86");
  std::vector<Sample> data;
  for (int i = 0; i < 4; ++i) data.push_back({torch::randint(0, 2000, {4, 6})});
  const LoweringOptions lowering;
  FinishTask task{.model = model,
                  .model_bytes = file.str().size(),
                  .backend = backend,
                  .mapping = mapping,
                  .lowering = lowering,
                  .calibrated =
                      [&](const QConfigMapping& wanted) {
                        Prepared prepared = prepare(model, wanted, backend, {.recipe = Recipe::Best});
                        calibrate(prepared, data);
                        return prepared;
                      },
                  .samples = data,
                  .times = true,
                  .timer =
                      [](const Sample&, const Module& one, const Module& other, const LatencyOptions&) {
                        const auto time = [](const Module& each) {
                          return has_int8_layers(each) ? 3.0 : 1.0;
                        };
                        return comparison(time(one) / time(other));
                      },
                  .leaves_what_does_not_pay = true};
  task.effort = Effort::High;  // no stopwatch ends the search
  const Finished done = detail::finish(task);
  ASSERT_FALSE(done.is_float_model);
  EXPECT_FALSE(has_int8_layers(done.module));
  EXPECT_LT(done.trial.bytes, file.str().size() / 2);
  ASSERT_EQ(done.left_float.size(), 1U);
  EXPECT_EQ(done.left_float[0].cause, LeftFloatCause::Slower);
}

}  // namespace finish_test
}  // namespace tsq
