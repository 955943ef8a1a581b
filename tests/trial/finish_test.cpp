// The loop around the finished model. Nothing here looks at a clock.
#include "trial/finish.h"

#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/error.h>

#include <limits>

#include "support/small_models.h"

namespace tsq {
namespace {

using detail::ChangeCause;
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

/// first → bad → last. The range of what `bad` returns is more than the largest float: no scale of it is
/// finite.
Module model_with_a_layer_that_overflows() {
  torch::manual_seed(5);
  const at::NoGradGuard no_grad;
  Module model = testing::user_module("Overflow");
  Module bad = testing::linear(8, 2);
  bad.attr("weight").toTensor().zero_();
  bad.attr("bias").toTensor().copy_(torch::tensor({3e38F, -3e38F}));
  Module last = testing::linear(2, 4);
  last.attr("weight").toTensor().mul_(1e-38F);
  model.register_module("first", testing::linear(6, 8));
  model.register_module("bad", bad);
  model.register_module("last", last);
  model.define(
      "def forward(self, x):\n  return self.last.forward(self.bad.forward(self.first.forward(x)))\n");
  model.eval();
  return model;
}

Module good_model() {
  torch::manual_seed(5);
  Module model = testing::user_module("Good");
  model.register_module("first", testing::linear(6, 8));
  model.register_module("last", testing::linear(8, 4));
  model.define("def forward(self, x):\n  return self.last.forward(self.first.forward(x))\n");
  model.eval();
  return model;
}

Finished finished(const Module& model, bool leaves_what_does_not_pay = false, uint64_t bytes = 0,
                  bool force = false) {
  const BackendConfig backend = backend_config("x86");
  const std::vector<Sample> data = samples();
  const FinishTask task{.model = model,
                        .model_bytes = bytes,
                        .backend = backend,
                        .mapping = default_qconfig_mapping(),
                        .calibrated =
                            [&](const QConfigMapping& mapping) {
                              Prepared prepared = prepare(model, mapping, backend);
                              calibrate(prepared, data);
                              return prepared;
                            },
                        .samples = data,
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
  const Finished done = finished(good_model());
  EXPECT_TRUE(done.module.has_value());
  EXPECT_TRUE(done.changes.empty());
  EXPECT_FALSE(done.trial.fault.has_value());
  EXPECT_EQ(done.trial.samples, 4U);
  EXPECT_GT(done.trial.sqnr_db.value(), 20);
  EXPECT_EQ(done.mapping, default_qconfig_mapping());
}

TEST(Finish, ALayerThatFailsStaysFloatAndTheOthersDoNot) {
  const Module model = model_with_a_layer_that_overflows();
  const Finished done = finished(model);
  ASSERT_TRUE(done.module.has_value());
  EXPECT_FALSE(done.trial.fault.has_value());
  ASSERT_EQ(done.changes.size(), 1U);
  EXPECT_EQ(done.changes[0].cause, ChangeCause::Fault);
  EXPECT_THAT(names(done.changes[0].layers), ElementsAre("bad"));
  EXPECT_FALSE(done.changes[0].text.empty());
  for (const Decision& decision : done.report.decisions)
    EXPECT_EQ(decision.quantized, decision.layer != "bad");
}

TEST(Finish, TheMappingGivesTheSameModelAgain) {
  const Module model = model_with_a_layer_that_overflows();
  const Finished done = finished(model);
  Prepared prepared = prepare(model, done.mapping, backend_config("x86"));
  calibrate(prepared, samples());
  Module again = convert(prepared, backend_config("x86"));
  const Sample sample = samples().front();
  EXPECT_TRUE(
      torch::equal(again.forward(sample).toTensor(), Module(*done.module).forward(sample).toTensor()));
}

TEST(Finish, ForceWritesWhatFails) {
  const Finished done = finished(model_with_a_layer_that_overflows(), false, 0, /*force=*/true);
  EXPECT_TRUE(done.module.has_value());
  ASSERT_TRUE(done.trial.fault.has_value());
  EXPECT_EQ(done.trial.fault->kind, FaultKind::NotFinite);
  EXPECT_TRUE(done.changes.empty());
}

TEST(Finish, WhatIsLargerThanFloatStaysFloat) {
  const Finished done = finished(good_model(), /*leaves_what_does_not_pay=*/true, /*bytes=*/100);
  EXPECT_FALSE(done.module.has_value()) << "the user's own model takes the place of one without int8";
  ASSERT_EQ(done.changes.size(), 1U);
  EXPECT_EQ(done.changes[0].cause, ChangeCause::Larger);
  EXPECT_FALSE(done.trial.fault.has_value());
  EXPECT_TRUE(finished(good_model(), false, 100).module.has_value()) << "only where that is asked for";
}

}  // namespace
}  // namespace tsq
