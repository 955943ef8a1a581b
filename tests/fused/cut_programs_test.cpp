// The cut of the reference graph into fused programs: which operators are in one, what stays, and that the
// result is the reference's.
#include <gmock/gmock.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "support/machine_profiles.h"
#include "support/small_models.h"

namespace tsq {
namespace cut_programs_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using torch::jit::Module;

struct Fused {
  Module reference{};
  Module module{};
  Report report{};
};

/// By the four steps, for the fused target.
Fused fused(const Module& model, const std::vector<Sample>& samples, Recipe recipe = Recipe::Best) {
  const BackendConfig backend = mode_backend_config(QuantizeMode::Static, recipe, backend_config("x86"));
  const QConfigMapping mapping = mode_qconfig_mapping(QuantizeMode::Static, recipe, "x86");
  Prepared prepared = prepare(model, mapping, backend,
                              {.recipe = recipe,
                               .target = LoweringTarget::Fused,
                               .machine = testing::slow_in_float(),
                               .decibel_price = 0});
  calibrate(prepared, samples);
  const Reference reference = convert_to_reference(prepared, backend);
  const Lowered lowered = lower(reference, backend);
  return {reference.module(), lowered.module(), lowered.report()};
}

at::Tensor output(const Module& model, const Sample& sample) {
  const c10::InferenceMode no_gradients;
  Module copy = model;
  return copy.forward(sample).toTensor();
}

std::vector<Sample> samples_of(const std::vector<std::int64_t>& sizes) {
  torch::manual_seed(7);
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn(sizes)});
  return samples;
}

std::vector<Sample> images() { return samples_of({2, 3, 12, 12}); }

/// The kinds of operators that forward calls, but for constants and attributes.
std::vector<std::string> operators_of(const Module& model) {
  std::vector<std::string> kinds;
  for (const auto* node : model.get_method("forward").graph()->nodes()) {
    const std::string kind = node->kind().toQualString();
    if (kind.starts_with("aten::") || kind.starts_with("quantized::") || kind.starts_with("tsq::"))
      kinds.push_back(kind);
  }
  return kinds;
}

/// How far two tensors are apart, in steps of a scale that fits their range.
double steps_between(const at::Tensor& a, const at::Tensor& b) {
  const double step = (b.max() - b.min()).item<double>() / 255;
  return (a - b).abs().max().item<double>() / step;
}

TEST(CutPrograms, AWholeNetworkIsOneProgram) {
  torch::manual_seed(1);
  Module model = testing::user_module("Net");
  model.register_module("conv", testing::conv2d(3, 8, 3));
  model.register_module("relu", testing::relu());
  model.register_module("pool", testing::max_pool2d());
  model.register_module("head", testing::linear(8 * 6 * 6, 10));
  model.define(
      "def forward(self, x):\n"
      "  y = self.pool.forward(self.relu.forward(self.conv.forward(x)))\n"
      "  return self.head.forward(y.view(y.size(0), -1))\n");
  model.eval();
  const auto samples = images();
  const Fused result = fused(model, samples);
  EXPECT_THAT(operators_of(result.module), ElementsAre("tsq::run"));
  EXPECT_LT(steps_between(output(result.module, samples[0]), output(result.reference, samples[0])), 1.0);
  // Another batch, and the sizes with it.
  const Sample other{torch::randn({5, 3, 12, 12})};
  EXPECT_LT(steps_between(output(result.module, other), output(result.reference, other)), 1.0);
}

TEST(CutPrograms, RecipeFxHasProgramsToo) {
  torch::manual_seed(2);
  Module model = testing::conv_bn_relu();
  model.eval();
  const auto samples = samples_of({2, 3, 8, 8});
  const Fused result = fused(model, samples, Recipe::Fx);
  EXPECT_THAT(operators_of(result.module), ElementsAre("tsq::run"));
  EXPECT_LE(steps_between(output(result.module, samples[0]), output(result.reference, samples[0])), 1.0);
}

TEST(CutPrograms, WhatNoProgramHasStaysAroundThem) {
  torch::manual_seed(3);
  Module model = testing::user_module("Around");
  model.register_module("first", testing::linear(16, 32));
  model.register_module("last", testing::linear(32, 8));
  model.define(
      "def forward(self, x):\n"
      "  y = torch.cumsum(torch.relu(self.first.forward(x)), 1)\n"
      "  return self.last.forward(y)\n");
  model.eval();
  const auto samples = samples_of({6, 16});
  const Fused result = fused(model, samples);
  EXPECT_THAT(operators_of(result.module), ElementsAre("tsq::run", "aten::cumsum", "tsq::run"));
  EXPECT_LT(steps_between(output(result.module, samples[0]), output(result.reference, samples[0])), 1.0);
}

TEST(CutPrograms, ShapesThatAreComputedOutsideAreGiven) {
  torch::manual_seed(4);
  Module model = testing::user_module("Given");
  model.register_module("first", testing::linear(16, 32));
  model.define(
      "def forward(self, x, rows: int):\n"
      "  y = torch.relu(self.first.forward(x))\n"
      "  return y.reshape(rows * 2, -1)\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({6, 16}), 3});
  const Fused result = fused(model, samples);
  EXPECT_THAT(operators_of(result.module), Contains("tsq::run"));
  EXPECT_LT(steps_between(output(result.module, samples[0]), output(result.reference, samples[0])), 1.0);
  const Sample other{torch::randn({6, 16}), 1};
  EXPECT_EQ(output(result.module, other).size(0), 2);
}

/// As BERT does: the mask becomes a tensor of the dtype of what it is added to.
TEST(CutPrograms, AMaskOfIntegersThatBecomesFloatsDividesNoProgram) {
  torch::manual_seed(6);
  Module model = testing::user_module("Masked");
  model.register_module("first", testing::linear(16, 32));
  model.register_module("last", testing::linear(32, 8));
  model.define(
      "def forward(self, x, mask):\n"
      "  y = self.first.forward(x)\n"
      "  z = torch.softmax(y + (1.0 - mask.to(y.dtype)) * -10000.0, -1)\n"
      "  return self.last.forward(z)\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({6, 16}), torch::randint(0, 2, {6, 32})});
  const Fused result = fused(model, samples);
  EXPECT_THAT(operators_of(result.module), ElementsAre("aten::to", "tsq::run"));
  EXPECT_LT(steps_between(output(result.module, samples[0]), output(result.reference, samples[0])), 1.0);
}

TEST(CutPrograms, BranchesHaveProgramsOfTheirOwn) {
  torch::manual_seed(5);
  Module model = testing::user_module("Branches");
  model.register_module("first", testing::linear(16, 16));
  model.register_module("left", testing::linear(16, 16));
  model.register_module("right", testing::linear(16, 16));
  model.define(
      "def forward(self, x):\n"
      "  y = torch.relu(self.first.forward(x))\n"
      "  if x.size(0) > 4:\n"
      "    y = torch.relu(self.left.forward(y))\n"
      "  else:\n"
      "    y = torch.relu(self.right.forward(y))\n"
      "  return y\n");
  model.eval();
  torch::manual_seed(6);
  std::vector<Sample> samples;
  for (int i = 0; i < 6; ++i) samples.push_back({torch::randn({i % 2 == 0 ? 3 : 6, 16})});
  const Fused result = fused(model, samples);
  for (const Sample& sample : {samples[0], samples[1]})
    EXPECT_LE(steps_between(output(result.module, sample), output(result.reference, sample)), 1.0);
}

/// Attention as it is mostly written: the last size is what is left, and the divisor is computed from it.
TEST(CutPrograms, SizesOfHeadsThatAreComputedAreThoseThatAreWritten) {
  const auto attention = [](const std::string& width, const std::string& scaled) {
    torch::manual_seed(8);
    Module model = testing::user_module("Attention");
    for (const char* name : {"q", "k", "v", "o"}) model.register_module(name, testing::linear(32, 32));
    const auto heads = [&](const std::string& of) {
      return "  " + of + " = self." + of + ".forward(x).view(b, t, 4, " + width + ").transpose(1, 2)\n";
    };
    model.define(
        "def forward(self, x):\n"
        "  b, t, d = x.shape\n" +
        heads("q") + heads("k") + heads("v") + "  scores = " + scaled +
        "\n"
        "  y = torch.softmax(scores, -1) @ v\n"
        "  return x + self.o.forward(y.transpose(1, 2).reshape(b, t, d))\n");
    model.eval();
    return model;
  };
  const auto samples = samples_of({2, 16, 32});
  const Fused written = fused(attention("8", "q @ k.transpose(-1, -2) / 2.8284271247461903"), samples);
  ASSERT_THAT(operators_of(written.module), ElementsAre("tsq::run"));
  const std::string product = "q @ k.transpose(-1, -2)";
  for (const std::string& scaled : {
           product + " / torch.sqrt(q.shape[-1])",
           product + " / torch.sqrt(q.size(-1))",
           product + " / (q.size(-1) ** 0.5)",
           product + " * (q.size(-1) ** -0.5)",
           product + " * (1 / torch.sqrt(k.size(-1)))",
           product + " / torch.sqrt(torch.tensor(q.size(-1)))",
           product + " / torch.sqrt(torch.tensor(q.size(-1), dtype=6))",
           product + " / torch.tensor(q.size(-1)).to(6).sqrt()",
       }) {
    SCOPED_TRACE(scaled);
    const Fused computed = fused(attention("-1", scaled), samples);
    EXPECT_THAT(operators_of(computed.module), ElementsAre("tsq::run"));
    for (const Sample& sample : {samples[0], Sample{torch::randn({3, 5, 32})}}) {
      EXPECT_LE(steps_between(output(computed.module, sample), output(computed.reference, sample)), 1.0);
      EXPECT_LE(steps_between(output(computed.module, sample), output(written.module, sample)), 4.0);
    }
  }
}

/// A number of the call is none of shapes: each of its values would be another compiled program.
TEST(CutPrograms, NumbersThatAreNotOfShapesStayOutside) {
  torch::manual_seed(8);
  Module model = testing::user_module("Divided");
  model.register_module("first", testing::linear(16, 32));
  model.register_module("last", testing::linear(32, 8));
  model.define(
      "def forward(self, x, steps: int):\n"
      "  y = torch.relu(self.first.forward(x)) / (steps + 1)\n"
      "  return self.last.forward(y)\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({6, 16}), i});
  const Fused result = fused(model, samples);
  EXPECT_THAT(operators_of(result.module), Contains("aten::div"));
  for (const Sample& sample : samples)
    EXPECT_LE(steps_between(output(result.module, sample), output(result.reference, sample)), 1.0);
}

/// A loop whose step reaches programs.
TEST(CutPrograms, TheStepOfALoopMayLeaveItsTensor) {
  torch::manual_seed(9);
  Module model = testing::user_module("Steps");
  model.register_module("first", testing::linear(16, 32));
  model.register_module("last", testing::linear(32, 8));
  model.define(
      "def forward(self, x, steps: int):\n"
      "  y = torch.relu(self.first.forward(x))\n"
      "  s = torch.zeros([x.size(0), 8])\n"
      "  for i in range(steps):\n"
      "    s = s + torch.relu(self.last.forward(y[:, i] + y[:, -1 - i] + y.narrow(1, i, 1).squeeze(1)))\n"
      "  return s\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({2, 40, 16}), 9});
  const Fused result = fused(model, samples);
  const Sample longer{samples[0][0], 40};
  EXPECT_LT(steps_between(output(result.module, longer), output(result.reference, longer)), 40.0);
  const Sample too_long{samples[0][0], 41};
  EXPECT_ANY_THROW(output(model, too_long));
  EXPECT_ANY_THROW(output(result.module, too_long));
}

/// What a list is taken apart into has to be there, and no more.
TEST(CutPrograms, PartsThatPyTorchRefusesAreRefused) {
  for (const std::string parts :
       {"y.split(4, 1)", "y.chunk(2, 1)", "y.unbind(1)", "torch.split(y, [3, 5], 1)"}) {
    SCOPED_TRACE(parts);
    torch::manual_seed(10);
    Module model = testing::user_module("Parts");
    model.register_module("first", testing::linear(6, 6));
    model.register_module("last", testing::linear(6, 6));
    model.define(
        "def forward(self, x):\n"
        "  y = self.first.forward(x)\n"
        "  a, b = " +
        parts +
        "\n"
        "  return self.last.forward(a[:, :1] if a.dim() > 2 else a) + b.mean()\n");
    model.eval();
    const std::int64_t size = parts == "y.unbind(1)" ? 2 : 8;
    const auto samples = samples_of({2, size, 6});
    const Fused result = fused(model, samples);
    for (const std::int64_t other : {std::int64_t{0}, std::int64_t{1}, size - 1, size, size + 1, size + 5}) {
      SCOPED_TRACE(other);
      const Sample sample{torch::randn({2, other, 6})};
      std::optional<std::vector<std::int64_t>> expected;
      try {
        expected = output(model, sample).sizes().vec();
      } catch (const std::exception&) {
      }
      std::optional<std::vector<std::int64_t>> got;
      try {
        got = output(result.module, sample).sizes().vec();
      } catch (const std::exception&) {
      }
      EXPECT_EQ(got, expected);
    }
  }
}

TEST(CutPrograms, ABatchOfNothingHasNoResults) {
  torch::manual_seed(11);
  Module model = testing::user_module("Empty");
  model.register_module("conv", testing::conv2d(3, 8, 3));
  model.register_module("pool", testing::max_pool2d());
  model.register_module("head", testing::linear(8, 10));
  model.define(
      "def forward(self, x, rows):\n"
      "  y = self.pool.forward(torch.relu(self.conv.forward(x)))[rows]\n"
      "  return torch.softmax(self.head.forward(torch.cat([y, y]).mean([2, 3])), 1)\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({4, 3, 12, 12}), torch::arange(4)});
  const Fused result = fused(model, samples);
  EXPECT_THAT(operators_of(result.module), Contains("tsq::run"));
  const at::Tensor none = torch::zeros({0}, at::kLong);
  for (const Sample& sample : {Sample{samples[0][0], none}, Sample{torch::randn({0, 3, 12, 12}), none}})
    EXPECT_EQ(output(result.module, sample).sizes(), (std::vector<std::int64_t>{0, 10}));
}

/// How often a value is rounded to codes.
std::ptrdiff_t roundings_of(const Module& model) {
  const auto graph = model.get_method("forward").graph();
  return std::ranges::count_if(graph->nodes(), [](const auto* node) {
    return node->kind() == c10::Symbol::fromQualString("aten::quantize_per_tensor");
  });
}

TEST(JoinInPrograms, NothingIsRoundedBetweenALayerAndItsSum) {
  torch::manual_seed(11);
  Module model = testing::user_module("Residual");
  model.register_module("first", testing::conv2d(8, 8, 1));
  model.register_module("second", testing::conv2d(8, 8, 1));
  model.define(
      "def forward(self, x):\n"
      "  y = torch.relu(self.first.forward(x))\n"
      "  return torch.relu(y + self.second.forward(y))\n");
  model.eval();
  const auto samples = samples_of({1, 8, 6, 6});
  const Fused result = fused(model, samples);
  // The input, and what both the second layer and the sum read.
  EXPECT_EQ(roundings_of(result.reference), 2);
  EXPECT_LT(steps_between(output(result.module, samples[0]), output(result.reference, samples[0])), 1.0);
}

TEST(JoinInPrograms, WhatOthersReadIsRounded) {
  torch::manual_seed(12);
  Module model = testing::conv_relu_with_skip();
  model.eval();
  const auto samples = samples_of({1, 3, 6, 6});
  const Fused result = fused(model, samples);
  EXPECT_LT(steps_between(output(result.module, samples[0]), output(result.reference, samples[0])), 1.0);
}

TEST(CutPrograms, TheReportNamesProgramsAndWhatEndsThem) {
  torch::manual_seed(3);
  Module model = testing::user_module("Ended");
  model.register_module("first", testing::linear(16, 32));
  model.define("def forward(self, x):\n  return torch.cumsum(torch.relu(self.first.forward(x)), 1)\n");
  model.eval();
  const auto samples = samples_of({6, 16});
  const Fused result = fused(model, samples);
  ASSERT_EQ(result.report.programs.size(), 1U);
  EXPECT_THAT(result.report.programs[0].ended_by, ElementsAre("aten::cumsum"));
  EXPECT_EQ(result.report.programs[0].name, "program");
}

TEST(CutPrograms, AFileOfProgramsIsSavedAndLoaded) {
  torch::manual_seed(8);
  Module model = testing::conv_bn_relu();
  model.eval();
  const auto samples = samples_of({2, 3, 8, 8});
  const Fused result = fused(model, samples);
  std::stringstream file;
  result.module.save(file);
  const Module loaded = torch::jit::load(file);
  EXPECT_TRUE(at::equal(output(loaded, samples[0]), output(result.module, samples[0])));
}

TEST(CutPrograms, AWeightOfSeveralCallsIsHeldOnce) {
  torch::manual_seed(15);
  Module model = testing::user_module("Shared");
  model.register_module("layer", testing::linear(16, 16));
  model.define(
      "def forward(self, x):\n"
      "  return self.layer.forward(torch.relu(self.layer.forward(torch.relu(self.layer.forward(x)))))\n");
  model.eval();
  const Fused result = fused(model, samples_of({6, 16}));
  const c10::IValue program = result.module.attr("program");
  const c10::IValue state = program.type()->expectRef<c10::ClassType>().getMethod("__getstate__")({program});
  const auto constants = state.toTupleRef().elements().at(1).toTensorVector();
  EXPECT_EQ(std::ranges::count_if(constants, [](const at::Tensor& each) { return each.numel() == 16 * 16; }),
            1);
}

TEST(CutPrograms, AModelWithoutInt8LayersHasNone) {
  Module model = testing::user_module("Plain");
  model.define("def forward(self, x):\n  return torch.relu(x) + 1.0\n");
  model.eval();
  const Fused result = fused(model, images());
  EXPECT_THAT(operators_of(result.module), Not(Contains("tsq::run")));
}

/// Attention as people write it by hand, with its products in float.
TEST(CutPrograms, AttentionIsWithin) {
  torch::manual_seed(9);
  Module model = testing::user_module("Attention");
  model.register_module("norm", testing::layer_norm(32));
  model.register_module("qkv", testing::linear(32, 96));
  model.register_module("proj", testing::linear(32, 32));
  model.define(
      "def forward(self, x):\n"
      "  y = self.norm.forward(x)\n"
      "  B, N, D = y.size()\n"
      "  q, k, v = self.qkv.forward(y).reshape(B, N, 3, 4, D // 4).permute(2, 0, 3, 1, "
      "4).unbind(0)\n"
      "  a = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) * (D // 4) ** -0.5, -1)\n"
      "  return x + self.proj.forward(torch.matmul(a, v).transpose(1, 2).reshape(B, N, D))\n");
  model.eval();
  const auto samples = samples_of({2, 7, 32});
  const Fused result = fused(model, samples);
  EXPECT_THAT(operators_of(result.module), ElementsAre("tsq::run"));
  EXPECT_LT(steps_between(output(result.module, samples[0]), output(result.reference, samples[0])), 1.0);
}

/// As attention in windows has it: its positions are looked up in a table.
TEST(CutPrograms, AParameterThatIsLookedUpDividesNoProgram) {
  torch::manual_seed(17);
  Module model = testing::user_module("Looked");
  model.register_module("first", testing::linear(32, 32));
  model.register_module("last", testing::linear(32, 8));
  model.register_parameter("table", torch::randn({5, 32}), /*is_buffer=*/false);
  model.register_buffer("index", torch::tensor({4, 0, 2}));
  model.define(
      "def forward(self, x):\n"
      "  return self.last.forward(self.first.forward(x) + self.table[self.index].sum(0, True))\n");
  model.eval();
  const auto calls = operators_of(fused(model, samples_of({6, 32})).module);
  EXPECT_EQ(std::ranges::count(calls, "tsq::run"), 1);
}

TEST(CutPrograms, PyTorchsAttentionIsOneOperation) {
  torch::manual_seed(13);
  Module model = testing::user_module("Scaled");
  model.register_module("qkv", testing::linear(32, 96));
  model.register_module("proj", testing::linear(32, 32));
  model.define(
      "def forward(self, x, mask):\n"
      "  q, k, v = self.qkv.forward(x).unflatten(-1, (12, 8)).transpose(1, 2).chunk(3, 1)\n"
      "  a = torch.scaled_dot_product_attention(q, k, v, mask)\n"
      "  return self.proj.forward(a.transpose(1, 2).flatten(2))\n");
  model.eval();
  torch::manual_seed(14);
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({2, 7, 32}), torch::randn({1, 1, 1, 7})});
  const Fused result = fused(model, samples);
  EXPECT_LT(steps_between(output(result.module, samples[0]), output(result.reference, samples[0])), 1.0);
}

/// Finds one function by its name, and what TorchScript has.
class FunctionResolver : public torch::jit::Resolver {
 public:
  FunctionResolver(std::string name, torch::jit::Function* function)
      : name_(std::move(name)), function_(function) {}

  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string& name,
                                                         torch::jit::GraphFunction& caller,
                                                         const torch::jit::SourceRange& place) override {
    if (name == name_) return std::make_shared<torch::jit::FunctionValue>(function_);
    return torch::jit::nativeResolver()->resolveValue(name, caller, place);
  }

 private:
  std::string name_;
  torch::jit::Function* function_;
};

/// Two convolutions and, between them, what `between` makes of y with a function of torch.nn.functional.
Module with_function(const std::string& name, const std::string& source, const std::string& between) {
  torch::manual_seed(16);
  Module model = testing::user_module("Functional");
  model.register_module("first", testing::conv2d(3, 8, 1));
  model.register_module("second", testing::conv2d(8, 4, 1));
  const auto unit = model.type()->compilation_unit();
  const c10::QualifiedName package("__torch__.torch.nn.functional");
  auto* function = unit->define(package, source, torch::jit::nativeResolver(), nullptr).front();
  const torch::jit::SimpleSelf self(model.type());
  unit->define(
      *model.type()->name(),
      "def forward(self, x):\n  y = self.first.forward(x)\n  return self.second.forward(" + between + ")\n",
      std::make_shared<FunctionResolver>(name, function), &self);
  model.eval();
  return model;
}

/// As most functions of torch.nn.functional are written.
TEST(CutPrograms, AFunctionThatCouldWriteIntoItsInputButDoesNotIsWithin) {
  const Module model = with_function("silu",
                                     "def silu(x, inplace: bool):\n"
                                     "  if inplace:\n"
                                     "    return torch.silu_(x)\n"
                                     "  return torch.silu(x)\n",
                                     "silu(y, False)");
  EXPECT_THAT(operators_of(fused(model, images()).module), ElementsAre("tsq::run"));
}

TEST(CutPrograms, AFunctionThatAssertsSomethingOfShapesIsWithin) {
  const Module model = with_function("mish",
                                     "def mish(x):\n"
                                     "  assert x.dim() > 0, 'no dimensions'\n"
                                     "  return torch.mish(x)\n",
                                     "mish(y)");
  EXPECT_THAT(operators_of(fused(model, images()).module), ElementsAre("tsq::run"));
}

TEST(CutPrograms, InterpolationToTheSizeOfAnotherImageIsWithin) {
  const std::string source =
      "def interpolate(x, size: Optional[List[int]], scale_factor: Optional[List[float]], mode: str, "
      "align_corners: Optional[bool], recompute: Optional[bool], antialias: bool):\n"
      "  assert x.dim() == 4, 'no image'\n"
      "  if mode == 'nearest':\n"
      "    return torch.upsample_nearest2d(x, size, scale_factor)\n"
      "  return torch.upsample_bilinear2d(x, size, False, scale_factor)\n";
  for (const std::string asked : {"y.size()[2:], None, 'bilinear'", "y.size()[-2:], None, 'bilinear'",
                                  "y.size()[-2:], None, 'nearest'", "None, [2.0, 2.0], 'nearest'"}) {
    const Module model = with_function(
        "interpolate", source, "interpolate(torch.max_pool2d(y, 2), " + asked + ", False, None, False) + y");
    const auto samples = images();
    const Fused result = fused(model, samples);
    EXPECT_THAT(operators_of(result.module), ElementsAre("tsq::run")) << asked;
    EXPECT_LT(steps_between(output(result.module, samples[0]), output(result.reference, samples[0])), 1.0);
  }
}

TEST(CutPrograms, OperatorsAfterALayerAreWithin) {
  for (const std::string result :
       {"torch.glu(y, 1)", "torch.glu(y, -3)", "torch.pixel_shuffle(y, 2)", "torch.max(y, 3)[0]",
        "torch.min(y, 1, True)[0]", "torch.log_softmax(y, 1)"}) {
    torch::manual_seed(18);
    Module model = testing::user_module("After");
    model.register_module("layer", testing::conv2d(3, 8, 1));
    model.define("def forward(self, x):\n  y = self.layer.forward(x)\n  return " + result + "\n");
    model.eval();
    const auto samples = images();
    const Fused made = fused(model, samples);
    EXPECT_THAT(operators_of(made.module), ElementsAre("tsq::run")) << result;
    EXPECT_TRUE(at::allclose(output(made.module, samples[0]), output(made.reference, samples[0]), 1e-3, 2e-2))
        << result;
  }
}

/// As torch.nn.MultiheadAttention takes masks.
TEST(CutPrograms, TheOppositeOfAMaskIsNoTensorOfFloats) {
  torch::manual_seed(7);
  Module model = testing::user_module("Masked");
  model.register_module("first", testing::linear(24, 64));
  model.register_module("last", testing::linear(64, 64));
  model.define(
      "def forward(self, x, mask):\n"
      "  x = self.first.forward(x)\n"
      "  scores = torch.einsum('btd,bsd->bts', [x, x]).masked_fill(mask.unsqueeze(1), -1e9)\n"
      "  x = x + self.last.forward(torch.einsum('bts,bsd->btd', [torch.softmax(scores, -1), x]))\n"
      "  return x * torch.bitwise_not(mask).unsqueeze(-1)\n");
  model.eval();
  const at::Tensor mask = torch::zeros({2, 7}, at::kBool);
  mask.select(1, 6).fill_(true);
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({2, 7, 24}), mask});
  const at::Tensor got = output(fused(model, samples).module, samples[0]);
  EXPECT_LT(steps_between(got, output(model, samples[0])), 8);
}

TEST(CutPrograms, AMaskOfTruthsOrOfNumbersDividesNoProgram) {
  torch::manual_seed(15);
  Module model = testing::user_module("Masked");
  model.register_module("qkv", testing::linear(32, 96));
  model.register_module("proj", testing::linear(32, 32));
  model.define(
      "def forward(self, x, mask):\n"
      "  q, k, v = self.qkv.forward(x).unflatten(-1, (12, 8)).transpose(1, 2).chunk(3, 1)\n"
      "  if mask.dtype == 11:\n"
      "    bias = torch.zeros_like(mask, dtype=q.dtype).masked_fill(mask, float('-inf'))\n"
      "  else:\n"
      "    bias = mask.to(q.dtype)\n"
      "  a = torch.scaled_dot_product_attention(q, k, v, bias)\n"
      "  return self.proj.forward(a.transpose(1, 2).flatten(2))\n");
  model.eval();
  const at::Tensor left_out = torch::ones({7, 7}, torch::kBool).triu(1);
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({2, 7, 32}), left_out});
  const Fused result = fused(model, samples);
  const auto calls = operators_of(result.module);
  EXPECT_EQ(std::ranges::count(calls, "tsq::run"), 1);
  const Sample numbers{samples[0][0], torch::zeros({7, 7}).masked_fill(left_out, -1e4)};
  for (const Sample& sample : {samples[0], numbers})
    EXPECT_LT(steps_between(output(result.module, sample), output(result.reference, sample)), 1.0);
}

}  // namespace cut_programs_test
}  // namespace tsq
