// What is inside of a program's call: the values that verify compares.
#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <memory>
#include <set>

#include "support/machine_profiles.h"
#include "support/processor.h"
#include "support/small_models.h"
#include "trial/captured.h"

namespace tsq::detail {
namespace program_values_test {

using ::testing::ElementsAre;
using torch::jit::Module;

/// Two convolutions with a residual sum, a pool and a linear layer.
Module network() {
  Module model = testing::user_module("Net");
  model.register_module("first", testing::conv2d(3, 8, 3));
  model.register_module("second", testing::conv2d(8, 8, 3));
  model.register_module("relu", testing::relu());
  model.register_module("pool", testing::max_pool2d());
  model.register_module("head", testing::linear(8 * 6 * 6, 64));
  model.define(
      "def forward(self, x):\n"
      "  y = self.relu.forward(self.first.forward(x))\n"
      "  y = self.pool.forward(self.relu.forward(self.second.forward(y) + y))\n"
      "  return self.head.forward(torch.flatten(y, 1))\n");
  model.eval();
  return model;
}

/// Of recipe best, by the steps.
Module converted(const Module& model, const std::vector<Sample>& samples, LoweringTarget target) {
  const BackendConfig backend =
      mode_backend_config(QuantizeMode::Static, Recipe::Best, backend_config("x86"));
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend,
                              {.target = target, .machine = testing::slow_in_float(), .decibel_price = 0});
  calibrate(prepared, samples);
  return convert(prepared, backend).module();
}

class InsideAProgram : public ::testing::Test {
 protected:
  InsideAProgram() {
    torch::manual_seed(11);
    model_ = network();
    for (int i = 0; i < 4; ++i) samples_.push_back({torch::randn({2, 3, 12, 12})});
    fused_ = converted(model_, samples_, LoweringTarget::Fused);
    operations_ = capture(fused_, samples_[0]);
  }

  const Captured& of_layer(const std::string& layer, const std::string& kind) {
    const auto found = std::ranges::find_if(
        operations_, [&](const Captured& op) { return op.path == layer && op.kind == kind; });
    EXPECT_NE(found, operations_.end()) << layer;
    return *found;
  }

  Module model_{};
  Module fused_{};
  std::vector<Sample> samples_{};
  std::vector<Captured> operations_{};
};

at::Tensor numbers(const at::Tensor& tensor) { return tensor.is_quantized() ? tensor.dequantize() : tensor; }

TEST_F(InsideAProgram, OperationsStandWithWhatFollowsThemInTheOrderOfTheRun) {
  std::vector<std::string> kinds;
  for (const Captured& op : operations_) kinds.push_back(op.kind);
  EXPECT_THAT(
      kinds, ElementsAre("tsq::convolution", "tsq::convolution", "tsq::add", "tsq::max_pool", "tsq::linear"));
  EXPECT_TRUE(of_layer("first", "tsq::convolution").output.is_quantized())
      << "after its ReLU and its rounding";
  EXPECT_GE(of_layer("first", "tsq::convolution").output.dequantize().min().item<float>(), 0);
}

TEST_F(InsideAProgram, TheLastValueIsWhatTheModelReturns) {
  const c10::InferenceMode no_gradients;
  EXPECT_TRUE(at::equal(operations_.back().output, fused_.forward(samples_[0]).toTensor()));
}

TEST_F(InsideAProgram, ValuesAreNearThoseOfTheFloatModel) {
  const at::Tensor wanted = at::relu(model_.attr("first").toModule().forward(samples_[0]).toTensor());
  const Captured& first = of_layer("first", "tsq::convolution");
  const int steps = testing::has_vnni() ? 3 : 4;  // weights have 7 bits without
  EXPECT_LT((numbers(first.output) - wanted).abs().max().item<double>(), steps * first.output.q_scale());
}

TEST_F(InsideAProgram, AnOperationIsComputedOnOtherValues) {
  for (const Captured& op : operations_) {
    ASSERT_TRUE(op.compute) << op.kind;
    EXPECT_TRUE(at::equal(numbers(op.compute({op.input})), numbers(op.output))) << op.kind;
  }
  const Captured& head = of_layer("head", "tsq::linear");
  const at::Tensor zeros = at::zeros_like(numbers(head.input));
  const at::Tensor other = head.input.is_quantized()
                               ? at::quantize_per_tensor(zeros, head.input.q_scale(),
                                                         head.input.q_zero_point(), head.input.scalar_type())
                               : zeros;
  const at::Tensor wanted =
      at::linear(numbers(head.input).flatten(1).to(at::kDouble), head.weight).to(at::kFloat);
  EXPECT_TRUE(at::allclose(head.output - head.compute({other}), wanted, 1e-4, 1e-4)) << "all but the bias";
}

TEST_F(InsideAProgram, WeightsAreThoseOfTheLayers) {
  for (const std::string layer : {"first", "second"}) {
    const at::Tensor exact = model_.attr(layer).toModule().attr("weight").toTensor();
    const at::Tensor weight = of_layer(layer, "tsq::convolution").weight;
    ASSERT_EQ(weight.sizes(), exact.sizes());
    EXPECT_LT((weight - exact).abs().max().item<double>(),
              exact.abs().max().item<double>() / (testing::has_vnni() ? 60 : 30));
  }
}

TEST_F(InsideAProgram, OperationsKnowWhatTheyRead) {
  const auto place_of = [&](const Captured& op) {
    return static_cast<std::size_t>(&op - operations_.data());
  };
  const Captured& first = of_layer("first", "tsq::convolution");
  const Captured& second = of_layer("second", "tsq::convolution");
  ASSERT_FALSE(first.reads.empty());
  EXPECT_EQ(first.reads[0].kind, Source::Kind::Argument);
  EXPECT_EQ(second.reads.at(0).kind, Source::Kind::Operator);
  EXPECT_EQ(second.reads.at(0).index, place_of(first));
  const auto sum = std::ranges::find(operations_, "tsq::add", &Captured::kind);
  ASSERT_NE(sum, operations_.end());
  std::vector<std::size_t> makers;
  for (const Source& source : sum->reads) makers.push_back(source.index);
  EXPECT_THAT(makers, ::testing::UnorderedElementsAre(place_of(first), place_of(second)));
}

TEST_F(InsideAProgram, TheComparisonHasRowsOfItsLayers) {
  const ComparedLayers compared = compare_layers(model_, fused_, samples_);
  for (const std::string layer : {"first", "second", "head"}) {
    const auto row = std::ranges::find(compared.rows, layer, &LayerComparison::layer);
    ASSERT_NE(row, compared.rows.end()) << layer;
    EXPECT_GT(row->sqnr_db, 20) << layer;
    EXPECT_GT(row->alone_sqnr_db.value_or(0), 25) << layer;
    EXPECT_GT(row->weight_sqnr_db.value_or(0), 25) << layer;
  }
  EXPECT_GT(compared.rows.front().codes_used.value_or(0), 50);
}

/// Residual blocks whose one ReLU is called twice, once within the kernel of a convolution.
Module with_a_relu_called_twice() {
  Module block = testing::user_module("Block");
  block.register_module("conv1", testing::conv2d(8, 8, 3));
  block.register_module("conv2", testing::conv2d(8, 8, 3));
  block.register_module("act", testing::relu());
  block.define(
      "def forward(self, x):\n"
      "  return self.act.forward(self.conv2.forward(self.act.forward(self.conv1.forward(x))) + x)\n");
  Module model = testing::user_module("Net");
  model.register_module("stem", testing::conv2d(3, 8, 3));
  model.register_module("block", block);
  model.register_module("head", testing::linear(8, 64));
  model.define(
      "def forward(self, x):\n"
      "  y = self.block.forward(self.stem.forward(x))\n"
      "  return self.head.forward(y.mean([2, 3]))\n");
  model.eval();
  return model;
}

TEST(ComparedRows, OfStockAndFusedFilesHaveTheSameNamesAndNoneIsWorseThanItsRounding) {
  torch::manual_seed(12);
  const Module model = with_a_relu_called_twice();
  std::vector<Sample> samples;
  for (int i = 0; i < 8; ++i) samples.push_back({torch::randn({2, 3, 12, 12})});
  std::vector<std::set<std::string>> layers;
  for (const LoweringTarget target : {LoweringTarget::Stock, LoweringTarget::Fused}) {
    const ComparedLayers compared = compare_layers(model, converted(model, samples, target), samples);
    std::set<std::string>& names = layers.emplace_back();
    for (const LayerComparison& row : compared.rows) {
      names.insert(row.layer);
      EXPECT_GT(row.sqnr_db, 25) << row.layer << " " << row.kernel;
      EXPECT_LT(row.outside.value_or(0), 0.01) << row.layer << " " << row.kernel;
      EXPECT_GT(row.alone_sqnr_db.value_or(99), 30) << row.layer << " " << row.kernel;
    }
  }
  EXPECT_THAT(layers[1], ::testing::IsSupersetOf({"stem", "block.conv1", "block.conv2", "block"}));
  for (const std::string layer : {"stem", "block.conv1", "block.conv2", "block"})
    EXPECT_TRUE(layers[0].contains(layer)) << layer;
}

TEST(ComparedRows, OfAProgramThatLooksWordsUpAreThoseOfItsLayers) {
  torch::manual_seed(13);
  Module model = testing::user_module("Words");
  model.register_parameter("table", torch::randn({50, 32}), false);
  model.register_module("first", testing::linear(32, 64));
  model.register_module("head", testing::linear(64, 32));
  model.define(
      "def forward(self, words):\n"
      "  return self.head.forward(torch.relu(self.first.forward(torch.embedding(self.table, words))))\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randint(50, {2, 9}, at::kLong)});
  const BackendConfig backend =
      mode_backend_config(QuantizeMode::Static, Recipe::Best, backend_config("x86"));
  Prepared prepared =
      prepare(model, best_qconfig_mapping("x86"), backend,
              {.target = LoweringTarget::Fused, .machine = testing::slow_in_float(), .decibel_price = 0});
  calibrate(prepared, samples);
  const ComparedLayers compared = compare_layers(model, convert(prepared, backend).module(), samples);
  for (const std::string layer : {"first", "head"}) {
    const auto row = std::ranges::find(compared.rows, layer, &LayerComparison::layer);
    ASSERT_NE(row, compared.rows.end()) << layer;
    EXPECT_GT(row->sqnr_db, 20) << layer;
  }
}

TEST(ComparedRows, HaveTheSameNamesAfterAModelHasRun) {
  torch::manual_seed(12);
  Module model = with_a_relu_called_twice();
  const std::vector<Sample> samples{{torch::randn({2, 3, 12, 12})}};
  const auto layers = [&] {
    std::vector<std::string> names;
    for (const LayerComparison& row : compare_layers(model, model, samples).rows) names.push_back(row.layer);
    return names;
  };
  const std::vector<std::string> before = layers();
  EXPECT_THAT(before, ::testing::Contains("block.act").Times(2));
  for (int run = 0; run < 4; ++run) model.forward(samples[0]);
  EXPECT_EQ(layers(), before);
}

TEST(ComparedRows, OfAProgramThatReadsAMaskAreThoseOfItsLayers) {
  torch::manual_seed(14);
  Module model = testing::user_module("Masked");
  for (const char* name : {"query", "key", "value", "out"})
    model.register_module(name, testing::linear(32, 32));
  model.define(
      "def forward(self, x, mask):\n"
      "  scores = torch.matmul(self.query.forward(x), self.key.forward(x).transpose(-1, -2)) / 6.0\n"
      "  scores = torch.masked_fill(scores, mask, -10000.0)\n"
      "  return self.out.forward(torch.matmul(torch.softmax(scores, -1), self.value.forward(x)))\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({2, 9, 32}), torch::rand({2, 9, 9}) > 0.7});
  const ComparedLayers compared =
      compare_layers(model, converted(model, samples, LoweringTarget::Fused), samples);
  for (const std::string layer : {"query", "key", "value", "out"}) {
    const auto row = std::ranges::find(compared.rows, layer, &LayerComparison::layer);
    ASSERT_NE(row, compared.rows.end()) << layer;
    EXPECT_GT(row->sqnr_db, 20) << layer;
  }
}

constexpr int64_t kHidden = 10;
constexpr int64_t kFeatures = 2 * kHidden;

struct RecurrentForm {
  bool is_lstm{false};
  int64_t layers{1};
  bool both_ways{false};
  bool batch_first{false};
  bool takes_states{false};
};

/// Registers the weights of a recurrent layer; their names, as a list.
std::string register_weights(Module& layer, const RecurrentForm& form) {
  const int64_t directions = form.both_ways ? 2 : 1;
  const int64_t rows = (form.is_lstm ? 4 : 3) * kHidden;
  std::string names;
  for (int64_t i = 0; i < form.layers * directions; ++i) {
    const int64_t read = i < directions ? kFeatures : kHidden * directions;
    const std::vector<std::vector<int64_t>> shapes{{rows, read}, {rows, kHidden}, {rows}, {rows}};
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      const std::string name = "p" + std::to_string(i) + "_" + std::to_string(k);
      layer.register_parameter(name, torch::randn(shapes[k]) / 3, false);
      names += (names.empty() ? "self." : ", self.") + name;
    }
  }
  return '[' + names + ']';
}

/// A recurrent layer under the name that PyTorch's class has. It returns all steps and the last states.
Module recurrent(const RecurrentForm& form) {
  Module layer(std::string("__torch__.torch.nn.modules.rnn.") + (form.is_lstm ? "LSTM" : "GRU"),
               std::make_shared<torch::jit::CompilationUnit>(), /*shouldMangle=*/true);
  layer.register_attribute("training", c10::BoolType::get(), false);
  const auto flag = [](bool value) { return std::string(value ? "True" : "False"); };
  const std::string options = register_weights(layer, form) + ", True, " + std::to_string(form.layers) +
                              ", 0.0, False, " + flag(form.both_ways) + ", " + flag(form.batch_first) + ")\n";
  const int64_t states = form.layers * (form.both_ways ? 2 : 1);
  const std::string zeros = "  z = torch.zeros([" + std::to_string(states) + ", x.size(" +
                            (form.batch_first ? "0" : "1") + "), " + std::to_string(kHidden) + "])\n";
  layer.define((form.takes_states ? "def forward(self, x, z):\n" : "def forward(self, x):\n" + zeros) +
               (form.is_lstm ? "  y, h, c = torch.lstm(x, [z, z], " : "  y, h = torch.gru(x, z, ") + options +
               "  return y, h\n");
  return layer;
}

/// A layer `g`, and `head` after what forward makes of its steps `y` and its states `h`.
Module after_recurrent(const RecurrentForm& form, const std::string& forward, int64_t features) {
  torch::manual_seed(21);
  Module model = testing::user_module("Net");
  model.register_module("g", recurrent(form));
  model.register_module("head", testing::linear(features, 6));
  model.define(forward);
  model.eval();
  return model;
}

std::vector<Sample> steps_of_samples() {
  torch::manual_seed(22);
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({5, 7, kFeatures})});
  return samples;
}

/// The rows of `g` in a fused file.
std::vector<LayerComparison> rows_of_g(const Module& model) {
  const std::vector<Sample> samples = steps_of_samples();
  std::vector<LayerComparison> rows =
      compare_layers(model, converted(model, samples, LoweringTarget::Fused), samples).rows;
  std::erase_if(rows, [](const LayerComparison& row) { return row.layer != "g"; });
  return rows;
}

struct RecurrentCase {
  RecurrentForm form{};
  std::string read{};  ///< by the head
  int64_t features{};
};

/// Whatever is read of them, in whatever parts the program has them: the float value is all steps, in the
/// order of the model.
TEST(ComparedRows, OfRecurrentLayersAreThoseOfTheirSteps) {
  const std::vector<RecurrentCase> cases{
      {{.both_ways = true, .batch_first = true}, "y", 2 * kHidden},
      {{.layers = 2, .both_ways = true, .batch_first = true}, "y", 2 * kHidden},
      {{.is_lstm = true, .both_ways = true, .batch_first = true}, "y", 2 * kHidden},
      {{.is_lstm = true, .layers = 2, .both_ways = true}, "y", 2 * kHidden},
      {{.layers = 2}, "y", kHidden},
      {{.is_lstm = true, .batch_first = true}, "y", kHidden},
      {{.is_lstm = true, .batch_first = true}, "h[-1]", kHidden},
      {{.layers = 2}, "h[-1]", kHidden},
      {{.is_lstm = true, .layers = 2, .both_ways = true, .batch_first = true},
       "torch.cat([h[-2], h[-1]], 1)",
       2 * kHidden}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [form, read, features] = cases[i];
    const std::vector<LayerComparison> rows =
        rows_of_g(after_recurrent(form,
                                  "def forward(self, x):\n  y, h = self.g.forward(x)\n"
                                  "  return self.head.forward(torch.tanh(" +
                                      read + "))\n",
                                  features));
    ASSERT_EQ(rows.size(), 1U) << "case " << i;
    EXPECT_EQ(rows[0].kernel, form.is_lstm ? "tsq::lstm" : "tsq::gru") << "case " << i;
    EXPECT_EQ(rows[0].float_operator, form.is_lstm ? "aten::lstm" : "aten::gru") << "case " << i;
    EXPECT_GT(rows[0].sqnr_db, 30) << "case " << i;
    EXPECT_NEAR(rows[0].alone_sqnr_db.value_or(0), rows[0].sqnr_db, 0.1)
        << "case " << i << ": it reads what the float model reads";
  }
}

TEST(ComparedRows, OfARecurrentLayerThatIsCalledTwiceAreThoseOfItsCalls) {
  for (const bool is_lstm : {false, true}) {
    const std::vector<LayerComparison> rows =
        rows_of_g(after_recurrent({.is_lstm = is_lstm, .both_ways = true, .batch_first = true},
                                  "def forward(self, x):\n"
                                  "  y, h = self.g.forward(x)\n"
                                  "  y, h = self.g.forward(y)\n"
                                  "  return self.head.forward(torch.tanh(y))\n",
                                  2 * kHidden));
    ASSERT_EQ(rows.size(), 2U) << is_lstm;
    for (const LayerComparison& row : rows) {
      EXPECT_EQ(row.float_operator, is_lstm ? "aten::lstm" : "aten::gru");
      EXPECT_GT(row.sqnr_db, 30) << is_lstm;
      EXPECT_GT(row.alone_sqnr_db.value_or(0), 30) << is_lstm;
    }
  }
}

TEST(Captured, ARecurrentLayerOfAProgramIsOneOperationThatReadsItsInputFirst) {
  const Module model = after_recurrent({.both_ways = true, .takes_states = true},
                                       "def forward(self, x, z):\n"
                                       "  y, h = self.g.forward(x, z)\n"
                                       "  return self.head.forward(torch.tanh(y)), h\n",
                                       2 * kHidden);
  std::vector<Sample> samples = steps_of_samples();
  for (Sample& sample : samples) sample.emplace_back(torch::randn({2, 7, kHidden}));
  const std::vector<Captured> operations =
      capture(converted(model, samples, LoweringTarget::Fused), samples[0]);
  const auto is_gru = [](const Captured& op) { return op.kind == "tsq::gru"; };
  ASSERT_EQ(std::ranges::count_if(operations, is_gru), 1);
  const Captured& layer = *std::ranges::find_if(operations, is_gru);
  EXPECT_EQ(layer.path, "g");
  EXPECT_EQ(layer.steps, 2U) << "one for each direction";
  ASSERT_GE(layer.reads.size(), 2U);
  for (const std::size_t place : {0U, 1U}) {
    EXPECT_EQ(layer.reads[place].kind, Source::Kind::Argument);
    EXPECT_EQ(layer.reads[place].index, place);
  }
  EXPECT_EQ(layer.output.sizes(), at::IntArrayRef({5, 7, 2 * kHidden}));
  ASSERT_TRUE(layer.compute);
  const at::Tensor again = layer.compute({layer.inputs[0].toTensor(), layer.inputs[1].toTensor()});
  EXPECT_TRUE(at::equal(numbers(again), numbers(layer.output)));
}

}  // namespace program_values_test
}  // namespace tsq::detail
