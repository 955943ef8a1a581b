// Which of the models that a search for a goal has seen it takes.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/sensitivity.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>

#include "support/small_models.h"

namespace tsq {
namespace goal_search_test {

using torch::jit::Module;

/// Eight linear layers of one size.
Module equal_layers() {
  torch::manual_seed(3);
  Module model = testing::user_module("Equal");
  std::string body = "def forward(self, x):\n";
  for (int i = 0; i < 8; ++i) {
    const std::string name = "l" + std::to_string(i);
    model.register_module(name, testing::linear(16, 16));
    body += "  x = torch.relu(self." + name + ".forward(x))\n";
  }
  model.define(body + "  return x\n");
  model.eval();
  return model;
}

/// A score that depends on which layers are float, in no order that a search could know; more of them are
/// a little better.
double scattered(const Module& model, std::size_t seed) {
  std::string layers;
  for (const torch::jit::Node* node : model.get_method("forward").graph()->nodes()) {
    const std::string kind = node->kind().toQualString();
    if (kind.find("linear") != std::string::npos) layers += kind.starts_with("aten") ? 'f' : 'q';
  }
  const auto in_float = std::ranges::count(layers, 'f');
  if (in_float == std::ssize(layers)) return 100;
  const std::size_t hash = std::hash<std::string>()(layers + std::to_string(seed));
  return 8 + 0.4 * static_cast<double>(hash % 10) + 0.3 * static_cast<double>(in_float);
}

TEST(Goal, NoModelThatTheSearchHasSeenIsBetterThanTheOneTaken) {
  torch::manual_seed(7);
  std::vector<Sample> data;
  for (int i = 0; i < 4; ++i) data.push_back({torch::randn({4, 16})});
  const BackendConfig backend = backend_config("x86");
  Prepared prepared =
      prepare(equal_layers(), default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, data);
  for (std::size_t seed = 0; seed < 12; ++seed) {
    std::size_t confirmed = 0;
    GoalOptions options;
    options.confirm = [&](const QConfigMapping&) { return confirmed++ == 0 ? 9.5 : 10.0; };
    const AccuracyGoal goal{.measure = "scattered score", .at_least = 10, .score = [&](const Module& model) {
                              return scattered(model, seed);
                            }};
    const GoalSearch found = reach_goal(prepared, backend, goal, data, options);
    ASSERT_TRUE(found.reached) << seed;
    std::vector<GoalTrial> seen;
    std::ranges::copy_if(found.trials, std::back_inserter(seen),
                         [](const GoalTrial& trial) { return !trial.what.ends_with("made anew"); });
    const auto anew = std::ranges::find_if(
        found.trials, [](const GoalTrial& trial) { return trial.what.ends_with("made anew"); });
    ASSERT_NE(anew, found.trials.end());
    // Of equal layers, the model with the fewest in float that holds is the one that was made anew first.
    double refused = 0;
    for (auto trial = found.trials.begin(); trial != anew; ++trial) {
      if (trial->reached && trial->float_layers == anew->float_layers) refused = trial->score;
    }
    for (const GoalTrial& trial : seen) {
      const bool holds_now = trial.score >= refused + 0.5;
      EXPECT_TRUE(!holds_now || trial.float_layers >= found.kept.size()) << seed << ' ' << trial.what;
      const bool held_before = trial.score >= 10 && trial.at_least == 10;
      EXPECT_TRUE(!held_before || trial.float_layers >= anew->float_layers) << seed << ' ' << trial.what;
    }
  }
}

}  // namespace goal_search_test
}  // namespace tsq
