// A model that keeps state between calls: both models of a comparison begin as the file does.
#include "torchscript/kept_state.h"

#include <gmock/gmock.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/script.h>
#include <tsq/compare_layers.h>
#include <tsq/quantize.h>
#include <tsq/sensitivity.h>
#include <tsq/trial.h>

#include <cmath>
#include <memory>
#include <string>

#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace kept_state_test {

using ::testing::ElementsAre;
using torch::jit::Module;
using torchscript::keeps_state;
using torchscript::KeptState;

/// Reads what was before in each way in which a module can keep it: a tensor that is assigned, one that is
/// written into through a view, a parameter, a list and a number.
Module stream() {
  torch::manual_seed(7);
  Module model = testing::user_module("Stream");
  model.register_module("first", testing::linear(32, 64));
  model.register_module("last", testing::linear(64, 32));
  model.register_buffer("mean", torch::zeros({32}));
  model.register_buffer("past", torch::zeros({4, 32}));
  model.register_parameter("gain", torch::ones({32}), false);
  model.register_attribute("seen", c10::ListType::ofTensors(), c10::List<at::Tensor>());
  model.register_attribute("calls", c10::IntType::get(), int64_t{0});
  model.define(R"(
def forward(self, x):
  self.calls = self.calls + 1
  self.mean = self.mean + (x.mean(0) - self.mean) / float(self.calls)
  self.past[1:].copy_(self.past[:-1].clone())
  self.past[0].copy_(x[0])
  self.gain.mul_(1.05)
  self.seen.append(x[:1])
  y = (x - self.mean + self.past.mean(0) + self.seen[0]) * self.gain
  return self.last.forward(torch.relu(self.first.forward(y)))
)");
  model.eval();
  return model;
}

std::vector<Sample> pieces(int count = 12) {
  torch::manual_seed(3);
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) samples.push_back({torch::randn({16, 32}) + 0.5 * i});
  return samples;
}

at::Tensor called(Module& model, const Sample& sample) {
  const at::NoGradGuard no_grad;
  return model.forward(sample).toTensor();
}

/// What a stream holds that calls change, as numbers.
std::vector<double> state_of(const Module& model) {
  return {model.attr("mean").toTensor().sum().item<double>(),
          model.attr("past").toTensor().sum().item<double>(),
          model.attr("gain").toTensor().sum().item<double>(),
          static_cast<double>(model.attr("seen").toListRef().size()),
          static_cast<double>(model.attr("calls").toInt())};
}

const std::vector<double> kNew{0, 0, 32, 0, 0};

TEST(KeptState, CallsChangeCopiesOfIt) {
  Module model = stream();
  const at::Tensor mean = model.attr("mean").toTensor();
  const Sample sample = pieces(1).front();
  {
    const KeptState state(model);
    EXPECT_TRUE(state.is_read());
    const at::Tensor first = called(model, sample);
    EXPECT_FALSE(at::equal(called(model, sample), first));
    EXPECT_NE(state_of(model), kNew);
    state.begin();
    EXPECT_EQ(state_of(model), kNew);
    EXPECT_TRUE(at::equal(called(model, sample), first));
  }
  EXPECT_EQ(state_of(model), kNew);
  EXPECT_TRUE(model.attr("mean").toTensor().is_same(mean));
}

TEST(KeptState, IsOfMethodsAsked) {
  Module model = testing::user_module("Counter");
  model.register_attribute("calls", c10::IntType::get(), int64_t{0});
  model.define("def forward(self, x):\n  return x + float(self.calls)\n");
  model.define("def count(self, x):\n  self.calls = self.calls + 1\n  return x\n");
  EXPECT_FALSE(keeps_state(model));
  EXPECT_TRUE(keeps_state(model, "count"));
  EXPECT_TRUE(KeptState(model, {"forward", "count"}).is_read());
}

TEST(KeptState, ThatOfModulesApartIsLeftToThem) {
  Module model = stream();
  Module outer = testing::user_module("Outer");
  outer.register_module("inner", model);
  outer.define("def forward(self, x):\n  return self.inner.forward(x)\n");
  const std::vector<Module> apart{model};
  {
    const KeptState state(outer, {"forward"}, apart);
    EXPECT_FALSE(state.is_read());
    called(outer, pieces(1).front());
  }
  EXPECT_EQ(model.attr("calls").toInt(), 1);
}

TEST(KeptState, WhatNoLaterCallReadsIsNone) {
  Module model = testing::user_module("Remembers");
  model.register_module("first", testing::linear(32, 64));
  model.register_buffer("table", torch::ones({64}));
  model.register_attribute("last", c10::TensorType::get(), torch::zeros({1}));
  model.define(R"(
def forward(self, x):
  y = torch.relu_(self.first.forward(x))
  self.last = y
  parts = [y.add_(self.table[:64])]
  parts.append(y)
  return torch.cat(parts, 1)
)");
  EXPECT_FALSE(keeps_state(model));
  EXPECT_TRUE(keeps_state(stream()));
}

/// Finds F.batch_norm, called batch_norm, and what TorchScript has.
class NormResolver : public torch::jit::Resolver {
 public:
  explicit NormResolver(torch::jit::CompilationUnit& unit)
      : function_(unit.define(c10::QualifiedName("__torch__.torch.nn.functional"),
                              "def batch_norm(x, running_mean, running_var, training: bool):\n"
                              "  return torch.batch_norm(x, None, None, running_mean, running_var, training, "
                              "0.3, 1e-5, False)\n",
                              torch::jit::nativeResolver(), nullptr)
                      .front()) {}

  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string& name,
                                                         torch::jit::GraphFunction& caller,
                                                         const torch::jit::SourceRange& place) override {
    if (name == "batch_norm") return std::make_shared<torch::jit::FunctionValue>(function_);
    return torch::jit::nativeResolver()->resolveValue(name, caller, place);
  }

 private:
  torch::jit::Function* function_;
};

/// Calls of norms with running statistics, up to the flag that says whether they train, and the rest.
struct Norm {
  std::string call{};
  std::string rest{};
};
const std::vector<Norm> kNorms{
    {"torch.batch_norm(y, None, None, self.mean, self.variance, ", ", 0.3, 1e-5, False)"},
    {"torch.instance_norm(y.t().unsqueeze(0), None, None, self.mean, self.variance, ",
     ", 0.3, 1e-5, False).squeeze(0).t()"},
    {"batch_norm(y, self.mean, self.variance, ", ")"}};

/// Returns what `result` makes of the norm z, of y before it and of the running statistics.
Module normalises(const Norm& norm, const std::string& trains, const std::string& result) {
  torch::manual_seed(7);
  Module model = testing::user_module("Normalises");
  model.register_module("first", testing::linear(32, 64));
  model.register_module("last", testing::linear(64, 32));
  model.register_buffer("mean", torch::zeros({64}));
  model.register_buffer("variance", torch::ones({64}));
  model.register_attribute("adapts", c10::BoolType::get(), false);
  const auto unit = model.type()->compilation_unit();
  const torch::jit::SimpleSelf self(model.type());
  unit->define(*model.type()->name(),
               "def forward(self, x):\n  y = self.first.forward(x)\n  z = " + norm.call + trains + norm.rest +
                   "\n  return self.last.forward(" + result + ")\n",
               std::make_shared<NormResolver>(*unit), &self);
  model.eval();
  return model;
}

constexpr const char* kReadsStatistics =
    "torch.relu(z * 0.2 + (y - self.mean) / torch.sqrt(self.variance + 0.01))";

TEST(KeptState, RunningStatisticsAreSomeWhereANormUpdatesThem) {
  for (const Norm& norm : kNorms) {
    Module model = normalises(norm, "True", kReadsStatistics);
    EXPECT_TRUE(keeps_state(model)) << norm.call;
    {
      const KeptState state(model);
      called(model, pieces(1).front());
      EXPECT_NE(model.attr("mean").toTensor().abs().sum().item<double>(), 0) << norm.call;
    }
    EXPECT_EQ(model.attr("mean").toTensor().abs().sum().item<double>(), 0) << norm.call;
    EXPECT_FALSE(keeps_state(normalises(norm, "False", kReadsStatistics))) << norm.call;
    EXPECT_FALSE(keeps_state(normalises(norm, "True", "z"))) << "a norm that trains reads none of them";
  }
}

TEST(KeptState, TheModuleSaysWhetherANormUpdatesItsStatistics) {
  for (const Norm& norm : kNorms) {
    Module model = normalises(norm, "self.adapts", kReadsStatistics);
    EXPECT_FALSE(keeps_state(model)) << norm.call;
    model.setattr("adapts", true);
    EXPECT_TRUE(keeps_state(model)) << norm.call;
    model.setattr("adapts", false);
    model.define("def adapt(self):\n  self.adapts = True\n");
    EXPECT_TRUE(keeps_state(model)) << norm.call << " may train after a call of adapt";
  }
}

TEST(State, RunningStatisticsThatANormUpdatesAreThoseOfTheFloatModel) {
  const at::NoGradGuard no_grad;
  const BackendConfig backend = backend_config("x86");
  for (const Norm& norm : kNorms) {
    for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
      const Module model = normalises(norm, "True", kReadsStatistics);
      const QConfigMapping mapping =
          recipe == Recipe::Best ? best_qconfig_mapping("x86") : default_qconfig_mapping("x86");
      Prepared prepared = prepare(model, mapping, backend, {.recipe = recipe});
      calibrate(prepared, pieces());
      Module result = convert(prepared, backend);
      Module wanted = model.deepcopy();
      std::vector<at::Tensor> float_outputs;
      std::vector<at::Tensor> int8_outputs;
      for (const Sample& sample : pieces()) {
        float_outputs.push_back(called(wanted, sample));
        int8_outputs.push_back(called(result, sample));
      }
      EXPECT_GT(testing::sqnr(at::cat(float_outputs), at::cat(int8_outputs)), 15) << norm.call;
    }
  }
}

TEST(State, AModelIsEqualToItself) {
  const Module model = stream();
  const Trial trial = try_model(model, model, backend_config("x86"), pieces());
  EXPECT_FALSE(trial.fault.has_value());
  EXPECT_TRUE(std::isinf(trial.sqnr_db.value())) << trial.sqnr_db.value();
  EXPECT_EQ(state_of(model), kNew);

  for (const LayerComparison& row : compare_layers(model, model, pieces()).rows)
    EXPECT_TRUE(std::isinf(row.sqnr_db)) << row.layer;
  EXPECT_EQ(state_of(model), kNew);
}

/// What observers of one range have seen.
std::vector<double> ranges_in(const Prepared& prepared) {
  std::vector<double> ranges;
  for (const Module& each : prepared.module().modules()) {
    if (!each.hasattr("min_val") || each.attr("min_val").toTensor().numel() != 1) continue;
    for (const char* end : {"min_val", "max_val"}) ranges.push_back(each.attr(end).toTensor().item<double>());
  }
  return ranges;
}

TEST(State, CalibrationLeavesNoneInTheResult) {
  const Module model = stream();
  const BackendConfig backend = backend_config("x86");
  const auto prepared_of = [&] {
    return prepare(model, best_qconfig_mapping("x86"), backend, {.recipe = Recipe::Best});
  };
  Prepared once = prepared_of();
  calibrate(once, pieces());
  EXPECT_EQ(state_of(once.module()), kNew);
  // Each call begins anew: the same data twice have the ranges that they have once.
  Prepared twice = prepared_of();
  calibrate(twice, pieces());
  calibrate(twice, pieces());
  EXPECT_FALSE(ranges_in(once).empty());
  EXPECT_EQ(ranges_in(once), ranges_in(twice));
  EXPECT_EQ(state_of(convert(once, backend)), kNew);
  EXPECT_EQ(state_of(model), kNew);
}

TEST(State, ScoresOfAGoalAreThoseOfTheFirstTime) {
  const Module model = stream();
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend, {.recipe = Recipe::Best});
  calibrate(prepared, pieces());
  const Module int8 = convert(prepared, backend).module();
  for (const AccuracyGoal& goal :
       {sqnr_goal(prepared, pieces(), 20), agreement_goal(prepared, pieces(), 0.9, {{.output = "output"}})}) {
    const double first = goal.score(int8);
    EXPECT_EQ(goal.score(int8), first) << goal.measure;
    EXPECT_EQ(state_of(int8), kNew) << goal.measure;
  }
}

TEST(State, EachTimedCallIsTheFirst) {
  Module once = testing::user_module("Once");
  once.register_attribute("calls", c10::IntType::get(), int64_t{0});
  once.define(
      "def forward(self, x):\n  assert self.calls == 0\n  self.calls = self.calls + 1\n  return x + 1.\n");
  once.eval();
  const LatencyComparison latency =
      compare_latency(once, once, backend_config("x86"), pieces(1).front(), {.seconds = 0.01});
  EXPECT_GT(latency.rounds, 1U);
}

}  // namespace kept_state_test
}  // namespace tsq
