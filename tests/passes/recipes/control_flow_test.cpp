#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/custom_class.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <sstream>

#include "ir/analysis.h"
#include "support/lowered.h"
#include "support/small_models.h"

namespace tsq {
namespace control_flow_test {

using torch::jit::Module;

Module two_layers(const std::string& name) {
  torch::manual_seed(5);
  Module model = testing::user_module(name);
  model.register_module("first", testing::linear(8, 8));
  model.register_module("second", testing::linear(8, 8));
  return model;
}

std::vector<Sample> rows(std::initializer_list<int64_t> counts) {
  torch::manual_seed(6);
  std::vector<Sample> samples;
  for (const int64_t count : counts) samples.push_back({torch::randn({count, 8})});
  return samples;
}

Module quantized(const Module& model, const std::vector<Sample>& samples) {
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, samples);
  return convert(prepared, backend);
}

std::size_t count(const Module& module, const std::string& kind) {
  const auto graph = module.get_method("forward").graph();
  const auto nodes = ir::nodes_in_order(*graph);
  return static_cast<std::size_t>(std::count_if(
      nodes.begin(), nodes.end(), [&](const ir::Node* node) { return node->kind().toQualString() == kind; }));
}

std::size_t packed_attributes(const Module& module) {
  std::size_t found = 0;
  for (const auto& attribute : module.named_attributes(/*recurse=*/false))
    found += attribute.name.find("packed_params") != std::string::npos ? 1 : 0;
  return found;
}

Module reloaded(const Module& module) {
  std::stringstream file;
  module.save(file);
  return torch::jit::load(file);
}

TEST(ControlFlow, AValueOfTheWayNotTakenIsNotTouched) {
  for (const char* body : {// break and continue
                           "  y = self.first.forward(x)\n"
                           "  for i in range(6):\n"
                           "    if i == 2:\n"
                           "      continue\n"
                           "    if i == 4:\n"
                           "      break\n"
                           "    y = torch.relu(self.second.forward(y))\n"
                           "  return self.first.forward(y)\n",
                           // return out of a loop
                           "  for i in range(4):\n"
                           "    x = self.second.forward(torch.relu(self.first.forward(x)))\n"
                           "    if bool(x.mean() > 0.0):\n"
                           "      return self.first.forward(x)\n"
                           "  return x\n",
                           // both
                           "  i = 0\n"
                           "  y = self.first.forward(x)\n"
                           "  while True:\n"
                           "    y = torch.tanh(self.second.forward(y))\n"
                           "    i = i + 1\n"
                           "    if i > 3:\n"
                           "      return self.first.forward(y)\n"
                           "    if bool(y.sum() > 1.0):\n"
                           "      break\n"
                           "  return self.first.forward(torch.relu(y))\n",
                           // returns out of branches in branches
                           "  assert bool(x.sum() < 1000.0)\n"
                           "  y = self.first.forward(x)\n"
                           "  if bool(x.sum() > 0):\n"
                           "    y = torch.relu(self.second.forward(y))\n"
                           "    if bool(y.sum() > 3.0):\n"
                           "      return self.first.forward(y)\n"
                           "  else:\n"
                           "    return self.first.forward(torch.relu(y))\n"
                           "  return self.first.forward(self.second.forward(y))\n"}) {
    Module model = two_layers("Ways");
    model.define(std::string("def forward(self, x):\n") + body);
    model.eval();
    const std::vector<Sample> samples = rows({1, 2, 3, 5, 8, 4});
    for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
      for (const bool dynamic : {false, true}) {
        const QConfigMapping mapping = dynamic                  ? dynamic_qconfig_mapping()
                                       : recipe == Recipe::Best ? best_qconfig_mapping("x86")
                                                                : default_qconfig_mapping("x86");
        const BackendConfig backend = backend_config("x86");
        Prepared prepared = prepare(model, mapping, backend, {.recipe = recipe});
        calibrate(prepared, samples);
        Module lowered = reloaded(convert(prepared, backend));
        EXPECT_EQ(count(lowered, "aten::linear"), 0U) << body;
        for (const Sample& sample : samples) EXPECT_NO_THROW(lowered.forward(sample)) << body;
      }
    }
  }
}

TEST(ControlFlow, BothBranchesAreQuantizedAndWhatTheyGiveStaysQuantized) {
  Module model = two_layers("Branches");
  model.register_module("third", testing::linear(8, 8));
  model.define(
      "def forward(self, x):\n  if x.size(0) > 1:\n    y = self.first.forward(x)\n  else:\n    y = "
      "self.second.forward(x)\n  return self.third.forward(y)\n");
  const Module result = quantized(model, rows({4, 1}));
  EXPECT_EQ(count(result, "quantized::linear"), 3);
  EXPECT_EQ(count(result, "aten::quantize_per_tensor"), 1);  // of the input
  EXPECT_EQ(count(result, "aten::dequantize"), 1);           // of the output
}

TEST(ControlFlow, SettingsOfModulesInsideStay) {
  Module inner = testing::user_module("Inner");
  inner.register_module("linear", testing::linear(8, 8));
  inner.register_attribute("version", c10::StringType::get(), std::string("1.2"));
  inner.register_attribute("turns", c10::IntType::get(), 0);
  inner.define("def forward(self, x):\n  self.turns = self.turns + 1\n  return self.linear.forward(x)\n");
  Module model = testing::user_module("Outer");
  model.register_module("inner", inner);
  model.define("def forward(self, x):\n  return self.inner.forward(x)\n");
  const Module result = reloaded(quantized(model, rows({4})));
  ASSERT_TRUE(result.hasattr("inner"));
  const Module remains = result.attr("inner").toModule();
  EXPECT_EQ(remains.attr("version").toStringRef(), "1.2");
  EXPECT_FALSE(remains.hasattr("turns"));   // it would not follow what forward writes
  EXPECT_FALSE(remains.hasattr("linear"));  // the library's modules hold nothing of the user's
}

TEST(ControlFlow, BranchesThatMeetHaveOneRange) {
  Module model = two_layers("OneRange");
  model.define(
      "def forward(self, x):\n  if x.size(0) > 1:\n    y = self.first.forward(x)\n  else:\n    y = "
      "self.second.forward(x)\n  return self.first.forward(y)\n");
  const Module result = quantized(model, rows({4, 1}));
  std::vector<double> scales;
  const auto graph = result.get_method("forward").graph();
  for (ir::Node* node : ir::nodes_in_order(*graph)) {
    if (node->kind() != c10::prim::If) continue;
    for (const torch::jit::Block* branch : node->blocks()) {
      const ir::Node* kernel = branch->outputs()[0]->node();
      ASSERT_STREQ(kernel->kind().toQualString(), "quantized::linear");
      scales.push_back(torch::jit::toIValue(kernel->input(2))->toDouble());
    }
  }
  ASSERT_EQ(scales.size(), 2);
  EXPECT_EQ(scales[0], scales[1]);
}

TEST(ControlFlow, AFixedRangeDoesNotCutWhatBranchesGive) {
  Module model = two_layers("Fixed");
  model.define(
      "def forward(self, x):\n  y = x\n  for i in range(x.size(0) // 32):\n    y = self.first.forward(y)\n   "
      " if i < "
      "1:\n      y = self.second.forward(y)\n    y = torch.sigmoid(y)\n  return y\n");
  const auto samples = rows({64, 64});
  Module result = quantized(model, samples);
  const at::Tensor wanted = model.forward(samples[0]).toTensor();
  const at::Tensor got = result.forward(samples[0]).toTensor();
  EXPECT_LT((wanted - got).norm().item<double>(), 0.03 * wanted.norm().item<double>());
}

TEST(ControlFlow, AValueFromOutsideOfTheBranchKeepsItsRangeThere) {
  Module model = two_layers("GoesRound");
  model.define(
      "def forward(self, x):\n  y = self.first.forward(x)\n  if x.size(0) > 1:\n    y = torch.mul(y, y)\n  "
      "return self.second.forward(y)\n");
  const Module result = quantized(model, rows({4, 1}));
  EXPECT_EQ(count(result, "quantized::mul"), 1);
  EXPECT_EQ(count(result, "aten::quantize_per_tensor"), 2);  // of the input, and on the way round the branch
}

TEST(ControlFlow, ALayerInALoopIsPackedOnce) {
  Module model = two_layers("Loop");
  model.define(
      "def forward(self, x):\n  for i in range(x.size(0)):\n    x = self.first.forward(x) + "
      "self.second.forward(x)\n  return self.first.forward(x)\n");
  const Module result = quantized(model, rows({3, 1}));
  EXPECT_EQ(packed_attributes(result), 2);
  EXPECT_EQ(count(result, "quantized::linear"), 3);
  EXPECT_EQ(count(result, "quantized::linear_prepack"), 0);
  EXPECT_EQ(count(result, "aten::quantize_per_channel"), 0);
}

TEST(ControlFlow, AnObserverInALoopSeesEveryTurn) {
  Module model = two_layers("Growing");
  model.define(
      "def forward(self, x):\n  for i in range(x.size(0)):\n    x = self.first.forward(x)\n  return x\n");
  const BackendConfig backend = backend_config("x86");
  const auto mapping = QConfigMapping().set_global(qconfig("default_qconfig"));
  const auto largest_scale = [&](int64_t turns) {
    Prepared prepared = prepare(model, mapping, backend, {.recipe = Recipe::Fx});
    calibrate(prepared, rows({turns}));
    const Module result = convert(prepared, backend);
    double largest = 0;
    const auto graph = result.get_method("forward").graph();
    for (const ir::Node* node : ir::nodes_in_order(*graph)) {
      if (std::string_view(node->kind().toQualString()) == "quantized::linear")
        largest = torch::jit::toIValue(node->input(2))->toDouble();
    }
    return largest;
  };
  EXPECT_GT(largest_scale(4), 2 * largest_scale(1));
}

TEST(ControlFlow, WeightsWithTwoOwnersArePackedOnce) {
  Module model = two_layers("Tied");
  for (const char* owner : {"first", "second"}) {
    model.attr(owner).toModule().setattr("bias", torch::zeros({8}));
  }
  model.attr("second").toModule().setattr("weight", model.attr("first").toModule().attr("weight"));
  model.attr("second").toModule().setattr("bias", model.attr("first").toModule().attr("bias"));
  model.define("def forward(self, x):\n  return self.second.forward(self.first.forward(x))\n");
  EXPECT_EQ(packed_attributes(quantized(model, rows({4}))), 1);
  EXPECT_EQ(packed_attributes(quantized(reloaded(model), rows({4}))), 1);
}

TEST(ControlFlow, OtherMethodsKeepTheirSignature) {
  Module model = two_layers("Methods");
  model.define("def forward(self, x):\n  return self.second.forward(self.first.forward(x))\n");
  model.define("def scaled(self, x, scale: float = 2.0):\n  return x * scale\n");
  const Module result = reloaded(quantized(model, rows({4})));
  const auto method = result.find_method("scaled");
  ASSERT_TRUE(method.has_value());
  const auto& schema = method->function().getSchema();
  EXPECT_EQ(schema.arguments().at(2).name(), "scale");
  EXPECT_EQ(schema.arguments().at(2).default_value()->toDouble(), 2.0);
  const at::Tensor x = torch::randn({2, 8});
  EXPECT_TRUE(torch::equal((*method)({x}).toTensor(), model.run_method("scaled", x).toTensor()));
}

/// What is left of a tensor when the noise is taken off it, in dB.
double sqnr(const at::Tensor& wanted, const at::Tensor& got) {
  return 10 * std::log10((wanted.square().sum() / (wanted - got).square().sum()).item<double>());
}

bool has_float_weights(const Module& module) {
  for (const auto& attribute : module.named_attributes()) {
    if (!attribute.value.isTensor()) continue;  // packed
    const at::Tensor& tensor = attribute.value.toTensor();
    if (tensor.is_floating_point() && tensor.dim() > 1) return true;
  }
  return false;
}

TEST(ControlFlow, MethodsRunInInt8WhatForwardRunsByItsRanges) {
  Module model = two_layers("Encodes");
  model.define(
      "def encode(self, x):\n"
      "  y = torch.relu(self.first.forward(x * 2.0)) + 1.0\n"
      "  for i in range(2):\n    y = torch.cat([y, y])\n"
      "  return y\n"
      "def decode(self, y):\n  return self.second.forward(y)\n"
      "def forward(self, x):\n"
      "  return self.decode(torch.relu(self.encode(torch.relu(x)) - 1.0))\n"
      "def embed(self, x):\n  return self.encode(torch.relu(x)).mean(0)\n");
  model.eval();
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    const BackendConfig backend = backend_config("x86");
    Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = recipe});
    calibrate(prepared, rows({4, 4, 4}));
    Module result = reloaded(convert(prepared, backend));
    EXPECT_FALSE(has_float_weights(result)) << result.dump_to_str(true, true, true);
    const at::Tensor input = torch::relu(rows({3}).front()[0].toTensor());
    const at::Tensor code = torch::relu(model.run_method("encode", input).toTensor() - 1.0);
    for (const std::string method : {"forward", "encode", "decode", "embed"}) {
      const at::Tensor x = method == "decode" ? code : input;
      const at::Tensor wanted = model.run_method(method, x).toTensor();
      EXPECT_GT(sqnr(wanted, result.run_method(method, x).toTensor()), 28) << method;
    }
  }
}

TEST(ControlFlow, MethodsThatRunTheSameLayersAnotherWayFindTheirRangesWhenTheyRun) {
  Module model = two_layers("OtherWay");
  model.define(
      "def forward(self, x):\n  return self.second.forward(torch.relu(self.first.forward(x)))\n"
      "def raw(self, x):\n  return self.second.forward(self.first.forward(x))\n"
      "def tail(self, x):\n  return self.second.forward(x * 40.0)\n");
  model.eval();
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend);
  calibrate(prepared, rows({4, 4, 4}));
  Report report;
  Module result = reloaded(testing::lowered(convert_to_reference(prepared, backend), backend, &report));
  EXPECT_FALSE(has_float_weights(result)) << result.dump_to_str(true, true, true);
  const at::Tensor x = rows({3}).front()[0].toTensor();
  for (const std::string method : {"forward", "raw", "tail"}) {
    EXPECT_GT(sqnr(model.run_method(method, x).toTensor(), result.run_method(method, x).toTensor()), 28)
        << method;
  }
  const auto names = [&](const std::string& method) {
    return std::ranges::count_if(report.decisions, [&](const Decision& decision) {
      return std::ranges::any_of(decision.notes, [&](const std::string& note) {
        return note.find("method '" + method + "'") != std::string::npos;
      });
    });
  };
  EXPECT_EQ(names("raw"), 2);
  EXPECT_EQ(names("tail"), 1);
}

TEST(ControlFlow, WhatForwardDoesNotRunStaysFloatInMethodsAndIsNamed) {
  Module model = two_layers("Decodes");
  model.define(
      "def forward(self, x):\n  return self.first.forward(x)\n"
      "def decode(self, y):\n  return torch.relu(self.second.forward(self.first.forward(y)))\n");
  model.eval();
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, rows({4, 4, 4}));
  Report report;
  Module result = reloaded(testing::lowered(convert_to_reference(prepared, backend), backend, &report));
  EXPECT_TRUE(has_float_weights(result));
  const auto second = std::ranges::find(report.decisions, "second", &Decision::layer);
  ASSERT_NE(second, report.decisions.end());
  EXPECT_FALSE(second->quantized);
  EXPECT_NE(second->reason.find("method 'decode'"), std::string::npos) << second->reason;
  EXPECT_NE(second->remedy.find("--method"), std::string::npos) << second->remedy;
  EXPECT_TRUE(report.unobserved_layers.empty());
  const at::Tensor x = rows({3}).front()[0].toTensor();
  EXPECT_GT(sqnr(model.run_method("decode", x).toTensor(), result.run_method("decode", x).toTensor()), 28);
}

TEST(ControlFlow, MethodsThatCallForwardCallTheQuantizedOneAndNeedNoFloatWeights) {
  Module model = two_layers("Generates");
  model.define(
      "def forward(self, x, scale: float = 1.0):\n"
      "  return self.second.forward(torch.relu(self.first.forward(x))) * scale\n");
  model.define("def twice(self, x):\n  return self.forward(self.forward(x), 0.5)\n");
  model.define(
      "def generate(self, x, n: int):\n"
      "  l = [x]\n  for i in range(n):\n    l.append(self.twice(l[-1]))\n  return torch.cat(l)\n");
  model.eval();
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    const BackendConfig backend = backend_config("x86");
    Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = recipe});
    EXPECT_TRUE(reloaded(prepared.module()).run_method("generate", torch::randn({2, 8}), 2).isTensor());
    calibrate(prepared, rows({4, 4}));
    Module result = reloaded(convert(prepared, backend));
    const at::Tensor x = torch::randn({2, 8});
    const at::Tensor once = result.forward({x}).toTensor();
    const at::Tensor twice = result.forward({once, 0.5}).toTensor();
    EXPECT_TRUE(torch::equal(result.run_method("twice", x).toTensor(), twice));
    EXPECT_TRUE(torch::equal(result.run_method("generate", x, 1).toTensor(), torch::cat({x, twice})));
    EXPECT_FALSE(has_float_weights(result));
  }
}

TEST(ControlFlow, PrivateMethodsThatForwardIsMadeOfAreLeftOut) {
  Module model = two_layers("Private");
  model.define(
      "def _inner(self, x):\n  return self.first.forward(x)\ndef _unused(self, x):\n  return x\n"
      "def forward(self, x):\n  return self.second.forward(self._inner(x))\n");
  const Module result = quantized(model, rows({4}));
  EXPECT_FALSE(result.find_method("_inner").has_value());
  EXPECT_TRUE(result.find_method("_unused").has_value());
}

TEST(ControlFlow, MethodsShareTheStateOfForward) {
  Module model = two_layers("Shared");
  model.register_attribute("count", c10::IntType::get(), int64_t{1});
  model.define(
      "def step(self):\n  self.count = self.count + 1\ndef forward(self, x):\n  return "
      "self.first.forward(x), self.count\n");
  Module result = reloaded(quantized(model, rows({4})));
  result.run_method("step");
  EXPECT_EQ(result.forward({torch::randn({1, 8})}).toTuple()->elements()[1].toInt(), 2);
}

TEST(ControlFlow, ACallOfForwardForItsEffectAloneStays) {
  Module model = two_layers("Effect");
  model.register_attribute("count", c10::IntType::get(), int64_t{1});
  model.define(
      "def forward(self, x):\n  self.count = self.count + 1\n  return self.first.forward(x)\n"
      "def warm(self, x):\n  y = self.forward(x)\n  return self.count\n");
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    const BackendConfig backend = backend_config("x86");
    Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = recipe});
    calibrate(prepared, rows({4}));
    Module result = reloaded(convert(prepared, backend));
    EXPECT_EQ(result.run_method("warm", torch::randn({1, 8})).toInt(), 2);
    EXPECT_EQ(result.attr("count").toInt(), 2);
  }
}

TEST(ControlFlow, CalibrationLeavesTheStateOfTheModelAlone) {
  Module model = two_layers("Stateful");
  model.register_attribute("count", c10::IntType::get(), int64_t{0});
  model.register_buffer("total", torch::zeros({8}));
  model.define(
      "def forward(self, x):\n  y = self.first.forward(x)\n  self.count = self.count + 1\n  self.total += "
      "y.sum(0)\n  return self.second.forward(y) * self.count\n");
  const Module result = quantized(model, rows({4, 4}));
  for (const Module& each : {model, result}) {
    EXPECT_EQ(each.attr("count").toInt(), 0);
    EXPECT_TRUE(torch::equal(each.attr("total").toTensor(), torch::zeros({8})));
  }
}

TEST(ControlFlow, WhatUsersReadStays) {
  Module model = two_layers("Read");
  const c10::List<std::string> names({"cat", "dog"});
  model.register_attribute("class_names", c10::ListType::ofStrings(), names);
  model.define("def forward(self, x):\n  return self.second.forward(self.first.forward(x))\n");
  const Module result = reloaded(quantized(model, rows({4})));
  EXPECT_EQ(result.attr("class_names").toListRef().size(), 2);
  EXPECT_FALSE(result.is_training());
}

/// What a host program registers.
struct Gain : torch::CustomClassHolder {
  explicit Gain(double of) : factor(of) {}
  [[nodiscard]] at::Tensor apply(const at::Tensor& x) const { return x * factor; }
  double factor;
};

void register_host_program() {
  static const auto kGain = torch::class_<Gain>("tsq_test", "Gain")
                                .def(torch::init<double>())
                                .def("apply", &Gain::apply)
                                .def_pickle([](const c10::intrusive_ptr<Gain>& gain) { return gain->factor; },
                                            [](double factor) { return c10::make_intrusive<Gain>(factor); });
  static const auto kTwice = torch::RegisterOperators().op(
      "tsq_test::twice(Tensor x) -> Tensor", [](const at::Tensor& x) { return at::Tensor(x * 2); });
}

/// Source that C++ compiles cannot name such an operator.
void rename_operator(const Module& model, const char* from, const char* to) {
  const auto graph = model.get_method("forward").graph();
  for (ir::Node* node : ir::nodes_in_order(*graph)) {
    if (node->kind() != c10::Symbol::fromQualString(from)) continue;
    ir::Node* made = graph->create(c10::Symbol::fromQualString(to), node->inputs(), 1);
    made->insertBefore(node);
    node->output()->replaceAllUsesWith(made->output());
    node->destroy();
  }
}

TEST(ControlFlow, OperatorsAndClassesOfTheHostProgramPassThrough) {
  register_host_program();
  Module model = two_layers("Hosted");
  const c10::IValue gain = c10::make_intrusive<Gain>(3.0);
  model.register_attribute("gain", gain.type(), gain);
  model.define(
      "def forward(self, x):\n  y = torch.neg(self.first.forward(x))\n  return "
      "self.gain.apply(self.second.forward(y))\n");
  rename_operator(model, "aten::neg", "tsq_test::twice");
  Module result = reloaded(quantized(model, rows({4, 4})));
  EXPECT_EQ(count(result, "tsq_test::twice"), 1);
  EXPECT_EQ(count(result, "quantized::linear"), 2);
  const at::Tensor x = rows({4})[0][0].toTensor();
  const at::Tensor wanted = model.forward({x}).toTensor();
  EXPECT_LT((result.forward({x}).toTensor() - wanted).norm().item<double>(),
            0.1 * wanted.norm().item<double>());
}

TEST(ControlFlow, AnEmptyMappingLeavesABatchNormAfterItsConvolution) {
  torch::manual_seed(7);
  Module model = testing::conv_bn_relu();
  const BackendConfig backend = backend_config("x86");
  const Module result = convert(prepare(model, {}, backend, {.recipe = Recipe::Fx}), backend);
  EXPECT_EQ(count(result, "aten::batch_norm"), 1);
  const at::Tensor x = torch::randn({1, 3, 8, 8});
  Module copy = result;
  EXPECT_TRUE(torch::equal(copy.forward({x}).toTensor(), model.forward({x}).toTensor()));
}

}  // namespace control_flow_test
}  // namespace tsq
