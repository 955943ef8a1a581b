// Operators that programs have besides layers: recurrent layers, tables, truth values.
#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "support/machine_profiles.h"
#include "support/processor.h"
#include "support/small_models.h"

namespace tsq {
namespace inside_programs_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using torch::jit::Module;

/// By the four steps, for the fused target.
Module fused(const Module& model, const std::vector<Sample>& samples) {
  const BackendConfig backend =
      mode_backend_config(QuantizeMode::Static, Recipe::Best, backend_config("x86"));
  const QConfigMapping mapping = mode_qconfig_mapping(QuantizeMode::Static, Recipe::Best, "x86");
  Prepared prepared =
      prepare(model, mapping, backend,
              {.target = LoweringTarget::Fused, .machine = testing::slow_in_float(), .decibel_price = 0});
  calibrate(prepared, samples);
  return convert(prepared, backend).module();
}

at::Tensor output_of(const Module& model, const Sample& sample) {
  const c10::InferenceMode no_gradients;
  Module copy = model;
  return copy.forward(sample).toTensor();
}

/// Decibels of an output beside the float model's.
double sqnr(const Module& model, const Module& quantized, const Sample& sample) {
  const at::Tensor expected = output_of(model, sample);
  const at::Tensor noise = output_of(quantized, sample) - expected;
  return 20 * std::log10(expected.norm().item<double>() / noise.norm().item<double>());
}

/// The operators of ATen and of programs that forward calls.
std::vector<std::string> operators_of(const Module& model) {
  std::vector<std::string> kinds;
  for (const auto* node : model.get_method("forward").graph()->nodes()) {
    const std::string kind = node->kind().toQualString();
    if (kind.starts_with("aten::") || kind.starts_with("quantized::") || kind.starts_with("tsq::"))
      kinds.push_back(kind);
  }
  return kinds;
}

constexpr std::int64_t kFeatures = 12;
constexpr std::int64_t kHidden = 20;

/// Registers the weights of a recurrent layer; their names, as a list.
std::string register_weights(Module& model, std::int64_t gates, std::int64_t layers,
                             std::int64_t directions) {
  std::string list;
  for (std::int64_t i = 0; i < layers * directions; ++i) {
    const std::int64_t read = i < directions ? kFeatures : kHidden * directions;
    const std::vector<std::vector<std::int64_t>> shapes{
        {gates * kHidden, read}, {gates * kHidden, kHidden}, {gates * kHidden}, {gates * kHidden}};
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      const std::string name = "p" + std::to_string(i) + "_" + std::to_string(k);
      model.register_parameter(name, torch::randn(shapes[k]) / std::sqrt(kHidden), false);
      list += (list.empty() ? "self." : ", self.") + name;
    }
  }
  return list;
}

TEST(InsidePrograms, AnLstmReadsItsInputUnrounded) {
  torch::manual_seed(12);
  Module model = testing::user_module("Net");
  model.register_module("head", testing::linear(2 * kHidden, 6));
  const std::string weights = register_weights(model, 4, 2, 2);
  model.define(
      "def forward(self, x, h, c):\n"
      "  y, hn, cn = torch.lstm(x, [h, c], [" +
      weights +
      "], True, 2, 0.0, False, True, True)\n"
      "  return self.head.forward(y) + cn.sum()\n");
  model.eval();
  std::vector<Sample> samples;
  // As in a spectrum, some numbers are much larger than others.
  const at::Tensor sizes = torch::exp(torch::randn({kFeatures}) * 2);
  for (int i = 0; i < 4; ++i) {
    samples.push_back({torch::randn({3, 7, kFeatures}) * sizes, torch::randn({4, 3, kHidden}),
                       torch::randn({4, 3, kHidden})});
  }
  const Module result = fused(model, samples);
  EXPECT_THAT(operators_of(result), ElementsAre("tsq::run"));
  EXPECT_GT(sqnr(model, result, samples[0]), 35);
}

/// A GRU of `x`, with the first states `h` that forward is given or makes; returns `result`.
Module with_gru(const std::string& beginning, const std::string& result) {
  Module model = testing::user_module("Net");
  model.register_module("first", testing::linear(kFeatures, kFeatures));
  model.register_module("head", testing::linear(kHidden, 6));
  const std::string weights = register_weights(model, 3, 1, 1);
  model.define(beginning + "  y, hn = torch.gru(x, h, [" + weights +
               "], True, 1, 0.0, False, False, False)\n  return " + result + "\n");
  model.eval();
  return model;
}

TEST(InsidePrograms, AGruHandsOutItsStates) {
  torch::manual_seed(13);
  const Module model =
      with_gru("def forward(self, x, h):\n", "torch.cat([self.head.forward(y), hn[:, :, :6]], 0)");
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i)
    samples.push_back({torch::randn({7, 3, kFeatures}), torch::randn({1, 3, kHidden})});
  const Module result = fused(model, samples);
  EXPECT_THAT(operators_of(result), ElementsAre("tsq::run"));
  EXPECT_GT(sqnr(model, result, samples[0]), 35);
}

/// A stream in pieces: the states of one call are the first of the next, and where they are kept divides
/// nothing.
TEST(InsidePrograms, StatesThatTheModelKeepsGoOnFromCallToCall) {
  torch::manual_seed(14);
  Module model = testing::user_module("Stream");
  model.register_module("first", testing::linear(kFeatures, kFeatures));
  model.register_module("head", testing::linear(kHidden, 6));
  model.register_buffer("states", torch::zeros({1, 3, kHidden}));
  model.register_buffer("factor", torch::ones({1}));
  const std::string weights = register_weights(model, 3, 1, 1);
  model.define(
      "def forward(self, x):\n"
      "  factor = self.factor + 1.0\n"
      "  self.factor = factor\n"
      "  y, h = torch.gru(self.first.forward(x) * factor, self.states, [" +
      weights +
      "], True, 1, 0.0, False, False, False)\n"
      "  self.states = h\n"
      "  return self.head.forward(y)\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 6; ++i) samples.push_back({torch::randn({2, 3, kFeatures})});
  const Module result = fused(model.clone(), samples);
  EXPECT_EQ(std::ranges::count(operators_of(result), "tsq::run"), 1);
  EXPECT_THAT(operators_of(result), Not(Contains("aten::linear")));
  Module exact = model.clone();
  Module streamed = result.clone();
  for (const Sample& sample : samples) EXPECT_GT(sqnr(exact, streamed, sample), 25);
}

/// As traces have it: zeros, in the shape of a value that the program makes.
TEST(InsidePrograms, AGruThatBeginsWithZerosNeedsNoSize) {
  torch::manual_seed(15);
  const Module model =
      with_gru("def forward(self, x):\n  x = self.first.forward(x)\n  h = torch.zeros([1, x.size(1), " +
                   std::to_string(kHidden) + "])\n",
               "self.head.forward(y)");
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({7, 3, kFeatures})});
  const Module result = fused(model, samples);
  EXPECT_THAT(operators_of(result), ElementsAre("tsq::run"));
  EXPECT_GT(sqnr(model, result, samples[0]), 30);
}

/// What a model computes of places alone, angles and a causal mask, is given to the program.
TEST(InsidePrograms, RotatedQueriesAndACausalMaskDivideNoProgram) {
  torch::manual_seed(16);
  Module model = testing::user_module("Net");
  model.register_parameter("table", torch::randn({50, 32}), false);
  model.register_buffer("steps", torch::rand({8}));
  model.register_module("first", testing::linear(32, 96));
  model.register_module("last", testing::linear(32, 32));
  model.define(R"(
def turned(self, x, cos, sin):
  half = x.shape[-1] // 2
  return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

def forward(self, words):
  length = words.shape[1]
  angles = torch.outer(torch.arange(length).to(6), self.steps)
  angles = torch.cat([angles, angles], -1)
  cos, sin = torch.cos(angles)[None, None], torch.sin(angles)[None, None]
  mask = torch.triu(torch.full([length, length], -1e9), 1)
  y = torch.embedding(self.table, words)
  b, t, _ = y.shape
  q, k, v = self.first.forward(y).view([b, t, 3, 2, 16]).permute([2, 0, 3, 1, 4]).unbind(0)
  q, k = self.turned(q, cos, sin), self.turned(k, cos, sin)
  y = torch.matmul(torch.softmax(torch.matmul(q, k.transpose(2, 3)) / 4 + mask, -1), v)
  return self.last.forward(y.transpose(1, 2).reshape([b, t, 32])) + self.table[:y.shape[2]]
)");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randint(50, {2, 9})});
  const Module result = fused(model, samples);
  EXPECT_EQ(std::ranges::count(operators_of(result), "tsq::run"), 1);
  EXPECT_GT(sqnr(model, result, samples[0]), 30);
}

/// A transformer's beginning: a table, a mask of truth values, and attention.
TEST(InsidePrograms, ATableAndAMaskOfTruthValuesBeginAProgram) {
  torch::manual_seed(14);
  Module model = testing::user_module("Net");
  model.register_parameter("table", torch::randn({50, 16}), false);
  model.register_module("first", testing::linear(16, 48));
  model.register_module("last", testing::linear(16, 16));
  model.define(
      "def forward(self, words, padded):\n"
      "  q, k, v = self.first.forward(torch.embedding(self.table, words)).chunk(3, -1)\n"
      "  mask = torch.logical_not(padded).unsqueeze(1)\n"
      "  y = self.last.forward(torch.scaled_dot_product_attention(q, k, v, mask))\n"
      "  return y.masked_fill(padded.unsqueeze(-1), 0.5)\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) {
    at::Tensor padded = torch::rand({2, 9}) < 0.4;
    padded.select(1, 0).fill_(false);
    samples.push_back({torch::randint(50, {2, 9}), padded});
  }
  const Module result = fused(model, samples);
  EXPECT_THAT(operators_of(result), ElementsAre("tsq::run"));
  EXPECT_GT(sqnr(model, result, samples[0]), testing::has_vnni() ? 30 : 20) << "weights have 7 bits without";
  const Sample of_ints{samples[0][0].toTensor().to(torch::kInt), samples[0][1]};
  EXPECT_TRUE(at::equal(output_of(result, of_ints), output_of(result, samples[0])));
}

/// TorchScript's operator returns where it has found the largest values, too.
TEST(InsidePrograms, ThePlacesThatAPoolFindsAreLeftOut) {
  torch::manual_seed(18);
  Module model = testing::user_module("Net");
  model.register_module("first", testing::linear(16, 16));
  model.define(
      "def forward(self, x):\n"
      "  y, places = torch.adaptive_max_pool1d(self.first.forward(x), 4)\n"
      "  return y\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({2, 3, 16})});
  const Module result = fused(model, samples);
  EXPECT_THAT(operators_of(result), ElementsAre("tsq::run"));
  EXPECT_GT(sqnr(model, result, samples[0]), 30);
}

/// A program would return the view as memory of its own, and the tensor stay as it was.
TEST(InsidePrograms, AViewThatIsWrittenStaysOneOfItsTensor) {
  torch::manual_seed(19);
  Module model = testing::user_module("Net");
  model.register_module("first", testing::linear(16, 16));
  model.define(
      "def forward(self, x):\n"
      "  out = torch.zeros_like(x)\n"
      "  for i in range(x.size(0)):\n"
      "    out[i] = self.first.forward(out)[i] + x[i]\n"
      "  return self.first.forward(out)\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({5, 16})});
  EXPECT_GT(sqnr(model, fused(model, samples), samples[0]), 25);
}

TEST(InsidePrograms, TruthValuesLeaveAsTruthValues) {
  torch::manual_seed(15);
  Module model = testing::user_module("Net");
  model.register_module("first", testing::linear(16, 16));
  model.define(
      "def forward(self, x):\n"
      "  y = self.first.forward(x)\n"
      "  return torch.nonzero(torch.logical_and(y > 0, y <= 100)).sum()\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({3, 16})});
  const Module result = fused(model, samples);
  EXPECT_THAT(operators_of(result), Not(Contains("aten::gt")));
  const at::Tensor expected = output_of(model, samples[0]);
  EXPECT_NEAR(output_of(result, samples[0]).item<double>(), expected.item<double>(),
              0.1 * expected.item<double>());
}

/// Only the last layer's result leaves the program: the rank of the ReLU's is that of the input.
TEST(InsidePrograms, ReadersOfShapesReadThemOfTheFirstTensorThatHasThem) {
  torch::manual_seed(16);
  Module model = testing::user_module("Net");
  model.register_module("first", testing::linear(16, 16));
  model.register_module("last", testing::linear(16, 8));
  model.define(
      "def forward(self, x):\n"
      "  y = torch.relu(self.first.forward(x))\n"
      "  assert y.dim() == 2\n"
      "  return torch.cumsum(self.last.forward(y), y.dim() - 1)\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({3, 16})});
  const Module result = fused(model, samples);
  std::size_t returned = 0;
  for (const auto* node : result.get_method("forward").graph()->nodes()) {
    if (node->kind() == c10::prim::ListUnpack) returned += node->outputs().size();
  }
  EXPECT_EQ(returned, 1U);
  EXPECT_THROW(output_of(result, {torch::randn({2, 3, 16})}), std::exception);
}

TEST(InsidePrograms, LayersWhoseWeightsAndBiasesAreCastAreInside) {
  for (const at::ScalarType dtype : {at::kHalf, at::kDouble}) {
    for (const std::string cast : {".to(x.dtype)", ".type_as(x)", ".to(x.device, x.dtype)"}) {
      torch::manual_seed(18);
      Module model = testing::user_module("Net");
      const auto add = [&](const char* name, at::IntArrayRef sizes) {
        model.register_parameter(name, (torch::randn(sizes) / 8).to(dtype), /*is_buffer=*/false);
      };
      add("c", {8, 3, 3, 3});
      add("d", {8});
      add("w", {64, 800});
      add("b", {64});
      model.define("def forward(self, x):\n  y = torch.relu(torch.conv2d(x, self.c" + cast + ", self.d" +
                   cast + "))\n  return torch.linear(y.flatten(1), self.w" + cast + ", self.b" + cast +
                   ")\n");
      model.eval();
      std::vector<Sample> samples;
      for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({2, 3, 12, 12})});
      const Module result = fused(model, samples);
      const auto operators = operators_of(result);
      EXPECT_EQ(std::ranges::count(operators, "tsq::run"), 1) << dtype << cast;
      for (const char* other : {"aten::conv2d", "aten::linear", "aten::to", "aten::type_as"})
        EXPECT_THAT(operators, Not(Contains(other))) << dtype << cast;
      std::ostringstream file;
      result.save(file);
      EXPECT_LT(file.str().size(), 2U * 64 * 800) << dtype << cast << ": a weight is in the file beside int8";
      EXPECT_GT(sqnr(model, result, samples[0]), 25) << dtype << cast;
    }
  }
}

}  // namespace inside_programs_test
}  // namespace tsq
