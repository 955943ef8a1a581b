#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/compare_layers.h>
#include <tsq/engine_lock.h>
#include <tsq/error.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <sstream>

#include "support/machine_profiles.h"
#include "support/processor.h"
#include "support/small_models.h"

namespace tsq {
namespace compare_layers_test {

using ::testing::ElementsAre;
using ::testing::Field;

constexpr const char* kTwoLayers =
    "def forward(self, x):\n"
    "  return self.relu2.forward(self.second.forward(self.relu1.forward(self.first.forward(x))))\n";

torch::jit::Module two_layers() {
  torch::manual_seed(3);
  torch::jit::Module model = testing::user_module("Two");
  model.register_module("first", testing::linear(32, 48));
  model.register_module("second", testing::linear(48, 16));
  model.register_module("relu1", testing::relu());
  model.register_module("relu2", testing::relu());
  model.define(kTwoLayers);
  model.eval();
  return model;
}

std::vector<Sample> samples_of(double scale) {
  torch::manual_seed(4);
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({scale * torch::randn({8, 32})});
  return samples;
}

torch::jit::Module int8_of(const torch::jit::Module& model, const std::vector<Sample>& samples) {
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, samples);
  return convert(prepared, backend);
}

TEST(CompareLayers, EachLayerIsComparedWithTheFloatValueThatItsKernelEnds) {
  const torch::jit::Module model = two_layers();
  const std::vector<LayerComparison> rows =
      compare_layers(model, int8_of(model, samples_of(1)), samples_of(1)).rows;
  EXPECT_THAT(rows,
              ElementsAre(Field(&LayerComparison::layer, "first"), Field(&LayerComparison::layer, "second")));
  for (const LayerComparison& row : rows) {
    EXPECT_EQ(row.kernel, "quantized::linear_relu");
    EXPECT_EQ(row.float_operator, "aten::relu");
    EXPECT_GT(row.sqnr_db, 25);
    EXPECT_LT(row.sqnr_db, 60);
    EXPECT_GT(row.weight_sqnr_db.value_or(0), 35);
    EXPECT_LT(row.outside.value_or(1), 0.01);
    EXPECT_GT(row.codes_used.value_or(0), 64);
  }
}

/// A layer that is called in a module, whose operators come out of the interpreter's stack.
torch::jit::Module nested() {
  torch::jit::Module block = testing::user_module("Block");
  block.register_module("linear", testing::linear(32, 32));
  block.define("def forward(self, x):\n  return x + torch.softmax(self.linear.forward(x), -1)\n");
  torch::jit::Module model = testing::user_module("Nested");
  model.register_module("block", block);
  model.register_module("last", testing::linear(32, 8));
  model.define(
      "def forward(self, x):\n  y = x * 2.0\n  return self.last.forward(self.block.forward(y)) + 1.0\n");
  model.eval();
  return model;
}

TEST(CompareLayers, AllSamplesCountAlike) {
  const torch::jit::Module model = nested();
  const torch::jit::Module int8 = int8_of(model, samples_of(1));
  const std::vector<Sample> one{samples_of(1).front()};
  const std::vector<Sample> thrice{one.front(), one.front(), one.front()};
  const auto once = compare_layers(model, int8, one).rows;
  const auto again = compare_layers(model, int8, thrice).rows;
  ASSERT_EQ(once.size(), again.size());
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(once[i].layer, again[i].layer);
    EXPECT_NEAR(once[i].sqnr_db, again[i].sqnr_db, 1e-9) << once[i].layer;
    EXPECT_GT(once[i].sqnr_db, 20) << once[i].layer;
  }
}

TEST(CompareLayers, AKernelThatWritesIntoItsAddendHasARow) {
  const EngineHold hold(at::QEngine::ONEDNN);
  torch::manual_seed(5);
  torch::jit::Module model = testing::user_module("Residual");
  model.register_module("first", testing::conv2d(4, 4, 1));
  model.register_module("second", testing::conv2d(4, 4, 1));
  model.define(
      "def forward(self, x):\n"
      "  y = self.first.forward(x)\n"
      "  return torch.relu(self.second.forward(y) + y)\n");
  model.eval();
  const std::vector<Sample> samples{{torch::randn({2, 4, 6, 6})}};
  const BackendConfig backend = backend_config("onednn");
  Prepared prepared = prepare(model, default_qconfig_mapping("onednn"), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, samples);
  const std::vector<LayerComparison> rows = compare_layers(model, convert(prepared, backend), samples).rows;
  const auto row = std::ranges::find(rows, "quantized::conv2d_add", &LayerComparison::kernel);
  ASSERT_NE(row, rows.end());
  EXPECT_EQ(row->layer, "second");
  EXPECT_GT(row->sqnr_db, 10) << "sums of 16 bits saturate on processors without VNNI";
  for (const LayerComparison& each : rows)
    EXPECT_GT(each.alone_sqnr_db.value_or(99), 10) << each.layer << " reads what was there before";
}

TEST(CompareLayers, AnErrorIsBornInTheLayerWhoseWeightIsWrongAndGoesOnFromThere) {
  const torch::jit::Module model = two_layers();
  torch::jit::Module wrong = two_layers();
  // The first channel of `first` is ten times as large as in the model that is right.
  wrong.attr("first").toModule().attr("weight").toTensor()[0].mul_(10);
  const std::vector<LayerComparison> rows =
      compare_layers(model, int8_of(wrong, samples_of(1)), samples_of(1)).rows;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_LT(rows[0].sqnr_db, 10);
  EXPECT_LT(rows[0].alone_sqnr_db.value_or(99), 10);
  EXPECT_LT(rows[1].sqnr_db, 20);
  EXPECT_GT(rows[1].alone_sqnr_db.value_or(0), 25) << "with the right input the second layer is right";
}

/// norm → layer, smoothed; the factors become part of the norm, or a product where `returns_normalized`.
torch::jit::Module smoothable(bool returns_normalized) {
  torch::manual_seed(8);
  torch::jit::Module model = testing::user_module("Smoothed");
  model.register_module("norm", testing::layer_norm(8));
  model.register_module("layer", testing::linear(8, 16));
  model.define(
      std::string("def forward(self, x):\n  y = self.norm.forward(x)\n  return self.layer.forward(y)") +
      (returns_normalized ? ", y\n" : "\n"));
  model.attr("norm").toModule().attr("weight").toTensor().detach().mul_(torch::logspace(-1, 1, 8));
  model.eval();
  return model;
}

LayerComparison row_of_smoothed(const torch::jit::Module& model, const torch::jit::Module& quantized) {
  const EngineHold hold(at::QEngine::ONEDNN);
  torch::manual_seed(9);
  const std::vector<Sample> samples{{torch::randn({64, 8})}};
  const BackendConfig backend = backend_config("onednn");
  Prepared prepared = prepare(quantized, testing::default_mapping_here("onednn"), backend,
                              {.recipe = Recipe::Fx, .smooth_quant = 0.5});
  calibrate(prepared, samples);
  const auto rows = compare_layers(model, convert(prepared, backend), samples).rows;
  return *std::ranges::find(rows, "layer", &LayerComparison::layer);
}

TEST(CompareLayers, ALayerWhoseInputIsScaledIsShownScaledValues) {
  for (const bool returns_normalized : {false, true}) {
    const torch::jit::Module model = smoothable(returns_normalized);
    const LayerComparison layer = row_of_smoothed(model, model);
    EXPECT_GT(layer.alone_sqnr_db.value_or(0), 25) << returns_normalized;
    EXPECT_GT(layer.weight_sqnr_db.value_or(0), 30) << returns_normalized;
  }
}

TEST(CompareLayers, AWeightThatIsWrongByAFactorShowsAlthoughItsInputIsScaled) {
  for (const bool returns_normalized : {false, true}) {
    const torch::jit::Module wrong = smoothable(returns_normalized);
    wrong.attr("layer").toModule().attr("weight").toTensor().detach().mul_(1.3);
    EXPECT_LT(row_of_smoothed(smoothable(returns_normalized), wrong).alone_sqnr_db.value_or(99), 15)
        << returns_normalized;
  }
}

torch::jit::Module embedding(int64_t rows) {
  torch::jit::Module module("__torch__.torch.nn.modules.sparse.Embedding",
                            std::make_shared<torch::jit::CompilationUnit>(), /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), false);
  module.register_parameter("weight", torch::randn({rows, 32}), false);
  module.define("def forward(self, x):\n  return torch.embedding(self.weight, x)\n");
  return module;
}

TEST(CompareLayers, RowsOfEmbeddingsAreNamedAfterThem) {
  torch::manual_seed(14);
  torch::jit::Module model = testing::user_module("Text");
  model.register_module("words", embedding(40));
  model.register_module("places", embedding(12));
  model.register_module("out", testing::linear(32, 32));
  model.define(
      "def forward(self, ids):\n"
      "  y = self.words.forward(ids) + self.places.forward(torch.arange(ids.size(1)))[None]\n"
      "  return self.out.forward(y)\n");
  model.eval();
  const std::vector<Sample> samples{{torch::randint(40, {2, 9}, at::kLong)}};
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend);
  calibrate(prepared, samples);
  std::vector<std::string> layers;
  for (const LayerComparison& row : compare_layers(model, convert(prepared, backend), samples).rows) {
    if (row.float_operator == "aten::embedding") layers.push_back(row.layer);
  }
  EXPECT_THAT(layers, ElementsAre("words", "places"));
}

/// Attention whose scores are divided by 6.
torch::jit::Module attention() {
  torch::manual_seed(12);
  torch::jit::Module model = testing::user_module("Attention");
  for (const char* name : {"query", "key", "value", "out"})
    model.register_module(name, testing::linear(32, 32));
  model.define(
      "def forward(self, x):\n"
      "  scores = torch.matmul(self.query.forward(x), self.key.forward(x).transpose(-1, -2)) / 6.0\n"
      "  return self.out.forward(torch.matmul(torch.softmax(scores, -1), self.value.forward(x)))\n");
  model.eval();
  return model;
}

std::vector<LayerComparison> rows_of_attention(const torch::jit::Module& model,
                                               const torch::jit::Module& quantized) {
  torch::manual_seed(13);
  const std::vector<Sample> samples{{3 * torch::randn({2, 16, 32})}};
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(quantized, default_qconfig_mapping("x86"), backend);
  calibrate(prepared, samples);
  return compare_layers(model, convert(prepared, backend), samples).rows;
}

TEST(CompareLayers, AFactorThatMovesIntoALayerIsNoErrorOfIt) {
  bool is_scaled = false;
  for (const LayerComparison& row : rows_of_attention(attention(), attention())) {
    EXPECT_GT(row.sqnr_db, 20) << row.layer << ' ' << row.kernel;
    EXPECT_GT(row.alone_sqnr_db.value_or(99), 20) << row.layer << ' ' << row.kernel;
    is_scaled = is_scaled || row.is_scaled;
  }
  EXPECT_TRUE(is_scaled);
}

TEST(CompareLayers, AFactorOfOneOfTwoAddendsIsNoErrorOfItsLayer) {
  torch::manual_seed(15);
  torch::jit::Module model = testing::user_module("Half");
  model.register_module("inner", testing::linear(32, 64));
  model.register_module("part", testing::linear(64, 32));
  model.register_module("out", testing::linear(32, 16));
  model.define(
      "def forward(self, x):\n"
      "  y = self.part.forward(torch.silu(self.inner.forward(x))).transpose(1, 2)\n"
      "  return self.out.forward((x.transpose(1, 2) + 0.5 * y).transpose(1, 2))\n");
  model.eval();
  for (const LayerComparison& row : rows_of_attention(model, model)) {
    EXPECT_GT(row.sqnr_db, 20) << row.layer << ' ' << row.kernel;
    EXPECT_GT(row.alone_sqnr_db.value_or(99), 25) << row.layer << ' ' << row.kernel;
    EXPECT_LT(row.outside.value_or(0), 0.005) << row.layer << ' ' << row.kernel;
  }
}

/// A convolution whose kernel takes bytes and returns floats for a PReLU, and a transposed one with a batch
/// norm.
torch::jit::Module of_other_forms() {
  torch::manual_seed(16);
  torch::jit::Module model = testing::user_module("Forms");
  model.register_module("wide", testing::conv2d(3, 64, 1));
  model.register_module("slopes", testing::prelu(64));
  model.register_module("up", testing::conv_transpose2d(64, 64, 3));  // FBGEMM is wrong with 2
  model.register_module("norm", testing::batch_norm2d(64));
  model.define(
      "def forward(self, x):\n"
      "  y = self.slopes.forward(self.wide.forward(x))\n"
      "  return self.norm.forward(self.up.forward(y))\n");
  model.eval();
  return model;
}

TEST(CompareLayers, KernelsThatTakeBytesAndTransposedWeightsAreComparedAsTheyCompute) {
  const torch::jit::Module model = of_other_forms();
  torch::manual_seed(17);
  const std::vector<Sample> samples{{torch::randn({2, 3, 32, 32})}};
  const BackendConfig backend = backend_config("x86");
  Prepared prepared =
      prepare(model, best_qconfig_mapping("x86"), backend, {.machine = testing::slow_in_float()});
  calibrate(prepared, samples);
  Plan plan = convert_to_reference(prepared, backend).plan();
  const auto wide = std::ranges::find(plan.operators, "wide", &PlannedOperator::layer);
  wide->placement = Placement::Int8FloatOut;
  std::ranges::find(plan.values, wide->node, &PlannedValue::value)->is_rounded = false;
  const auto rows = compare_layers(model, convert(prepared, backend, {.plan = plan}), samples).rows;
  const auto deep = std::ranges::find(rows, "onednn::qconv2d_pointwise", &LayerComparison::kernel);
  ASSERT_NE(deep, rows.end());
  EXPECT_GT(deep->alone_sqnr_db.value_or(0), 25);
  const auto up = std::ranges::find(rows, "up", &LayerComparison::layer);
  ASSERT_NE(up, rows.end());
  EXPECT_GT(up->weight_sqnr_db.value_or(0), testing::has_vnni() ? 35 : 30);
}

TEST(CompareLayers, AFactorThatNothingMakesUpForIsAnError) {
  const torch::jit::Module wrong = attention();
  wrong.attr("value").toModule().attr("weight").toTensor().detach().mul_(0.25);
  const auto rows = rows_of_attention(attention(), wrong);
  const auto value = std::ranges::find(rows, "value", &LayerComparison::layer);
  EXPECT_LT(value->sqnr_db, 5);
  EXPECT_FALSE(value->is_scaled);
}

TEST(CompareLayers, ARangeThatIsTooSmallShowsAsValuesOutsideAndOneThatIsTooLargeAsUnusedCodes) {
  const torch::jit::Module model = two_layers();
  const std::vector<LayerComparison> small =
      compare_layers(model, int8_of(model, samples_of(0.2)), samples_of(1)).rows;
  EXPECT_GT(small[0].outside.value_or(0), 0.05);
  const std::vector<LayerComparison> large =
      compare_layers(model, int8_of(model, samples_of(10)), samples_of(1)).rows;
  EXPECT_EQ(large[0].outside, 0.0);
  EXPECT_LT(large[0].codes_used.value_or(256), 48);
}

TEST(CompareLayers, AFloatModelEqualsItself) {
  const torch::jit::Module model = two_layers();
  const ComparedLayers compared = compare_layers(model, model, samples_of(1));
  for (const LayerComparison& row : compared.rows) {
    EXPECT_TRUE(std::isinf(row.sqnr_db)) << row.layer;
    EXPECT_FALSE(row.codes.has_value());
  }
}

/// Saved and loaded: what freezing has put into the graph has no name any more.
torch::jit::Module frozen_file(const torch::jit::Module& model) {
  std::stringstream file;
  torch::jit::freeze(model).save(file);
  return torch::jit::load(file);
}

std::vector<std::string> layers_of(const ComparedLayers& compared) {
  std::vector<std::string> layers;
  for (const LayerComparison& row : compared.rows) layers.push_back(row.layer);
  return layers;
}

TEST(CompareLayers, FrozenFilesArePairedByTheirWeights) {
  const EngineHold hold(at::QEngine::X86);
  const torch::jit::Module model = two_layers();
  const torch::jit::Module int8 = int8_of(model, samples_of(1));
  const ComparedLayers named = compare_layers(model, int8, samples_of(1));
  const ComparedLayers frozen_float = compare_layers(frozen_file(model), int8, samples_of(1));
  const ComparedLayers frozen_int8 = compare_layers(model, frozen_file(int8), samples_of(1));
  const ComparedLayers both = compare_layers(frozen_file(model), frozen_file(int8), samples_of(1));
  EXPECT_THAT(layers_of(frozen_int8), ElementsAre("first", "second"));
  EXPECT_THAT(layers_of(both), ElementsAre("linear_0", "linear_1"));
  for (const ComparedLayers& frozen : {frozen_float, frozen_int8, both}) {
    ASSERT_EQ(frozen.rows.size(), named.rows.size());
    for (std::size_t i = 0; i < named.rows.size(); ++i) {
      EXPECT_DOUBLE_EQ(frozen.rows[i].sqnr_db, named.rows[i].sqnr_db) << frozen.rows[i].layer;
      EXPECT_EQ(frozen.rows[i].alone_sqnr_db, named.rows[i].alone_sqnr_db);
    }
  }
}

TEST(CompareLayers, WeightsInFloatPairLayersThatHaveOtherNames) {
  const torch::jit::Module model = two_layers();
  torch::jit::Module renamed = testing::user_module("Renamed");
  renamed.register_module("encoder", model.attr("first").toModule().clone());
  renamed.register_module("decoder", model.attr("second").toModule().clone());
  renamed.define(
      "def forward(self, x):\n"
      "  return torch.relu(self.decoder.forward(torch.relu(self.encoder.forward(x))))\n");
  renamed.eval();
  for (const torch::jit::Module& other : {frozen_file(model), renamed}) {
    const ComparedLayers compared = compare_layers(model, other, samples_of(1));
    EXPECT_THAT(layers_of(compared), ElementsAre("first", "relu1", "second", "relu2"));
    for (const LayerComparison& row : compared.rows) EXPECT_GT(row.sqnr_db, 100) << row.layer;
  }
}

/// As torch.nn.Sequential names them.
torch::jit::Module named_by_digits() {
  torch::manual_seed(18);
  torch::jit::Module model = testing::user_module("Sequential");
  model.register_module("0", testing::linear(32, 48));
  model.register_module("1", testing::relu());
  model.register_module("2", testing::linear(48, 16));
  model.define(
      "def forward(self, x):\n"
      "  x = getattr(self, \"1\").forward(getattr(self, \"0\").forward(x))\n"
      "  return getattr(self, \"2\").forward(x)\n");
  model.eval();
  return model;
}

TEST(CompareLayers, LayersNamedByDigitsAreTheSameInAResultThatStaysFloat) {
  const torch::jit::Module model = named_by_digits();
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, QConfigMapping(), backend);
  calibrate(prepared, samples_of(1));
  const ComparedLayers compared = compare_layers(model, convert(prepared, backend), samples_of(1));
  EXPECT_THAT(layers_of(compared), ElementsAre("0", "1", "2"));
  for (const LayerComparison& row : compared.rows) EXPECT_GT(row.sqnr_db, 100) << row.layer;
}

TEST(CompareLayers, ARoundingInFrontOfAFloatLayerIsThatLayersOwn) {
  const torch::jit::Module model = two_layers();
  torch::jit::Module rounded = testing::user_module("Two");
  for (const auto& child : two_layers().named_children()) rounded.register_module(child.name, child.value);
  rounded.define(
      "def forward(self, x):\n"
      "  y = self.relu1.forward(self.first.forward(x))\n"
      "  y = torch.quantize_per_tensor(y, 0.5, 0, 13).dequantize()\n"
      "  return self.relu2.forward(self.second.forward(y))\n");
  rounded.eval();
  const std::vector<LayerComparison> rows = compare_layers(model, rounded, samples_of(1)).rows;
  const auto of = [&](const std::string& layer) {
    return *std::ranges::find(rows, layer, &LayerComparison::layer);
  };
  EXPECT_TRUE(std::isinf(of("first").alone_sqnr_db.value_or(0)));
  EXPECT_LT(of("second").alone_sqnr_db.value_or(99), 40);
  EXPECT_NEAR(of("second").alone_sqnr_db.value_or(99), of("second").sqnr_db, 1e-6);
}

/// A layer that is called three times, with a module without weights between the calls and at the end, and
/// two equal operators of the model's own code.
torch::jit::Module called_several_times() {
  torch::manual_seed(13);
  torch::jit::Module model = testing::user_module("Several");
  model.register_module("layer", testing::linear(32, 32));
  model.register_module("act", testing::relu());
  model.define(
      "def forward(self, x):\n"
      "  y = self.act.forward(self.layer.forward(x))\n"
      "  for i in range(2):\n"
      "    y = self.act.forward(self.layer.forward(y) + x) * 0.5\n"
      "  return torch.sigmoid(y) + torch.tanh(y)\n");
  model.eval();
  return model;
}

TEST(CompareLayers, CallsOfALayerAreToldApartAndEachHasItsOwnFloatValue) {
  const torch::jit::Module model = called_several_times();
  const std::vector<LayerComparison> rows =
      compare_layers(model, int8_of(model, samples_of(1)), samples_of(1)).rows;
  EXPECT_EQ(std::ranges::count(rows, "layer", &LayerComparison::layer), 3);
  for (const LayerComparison& row : rows) {
    EXPECT_GT(row.sqnr_db, 15) << row.layer << " " << row.kernel << " " << row.float_operator;
    EXPECT_GT(row.alone_sqnr_db.value_or(99), 15)
        << row.layer << " " << row.kernel << " " << row.float_operator;
  }
}

TEST(CompareLayers, AFloatModelEqualsItselfInEachCall) {
  const torch::jit::Module model = called_several_times();
  const std::vector<LayerComparison> rows = compare_layers(model, model, samples_of(1)).rows;
  EXPECT_GE(rows.size(), 11U) << "each operator has a row";
  for (const LayerComparison& row : rows) {
    EXPECT_TRUE(std::isinf(row.sqnr_db)) << row.layer << " " << row.kernel;
    EXPECT_EQ(row.kernel, row.float_operator);
    EXPECT_TRUE(std::isinf(row.alone_sqnr_db.value_or(0))) << row.layer << " " << row.kernel;
  }
}

TEST(CompareLayers, AWrongLayerOfAFrozenFileIsFound) {
  const torch::jit::Module model = two_layers();
  torch::jit::Module wrong = two_layers();
  const at::NoGradGuard no_grad;
  at::Tensor weight = wrong.attr("second").toModule().attr("weight").toTensor();
  weight.copy_(at::randn_like(weight));
  const std::vector<LayerComparison> rows =
      compare_layers(frozen_file(model), int8_of(wrong, samples_of(1)), samples_of(1)).rows;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_GT(rows[0].alone_sqnr_db.value_or(0), 25);
  EXPECT_LT(rows[1].alone_sqnr_db.value_or(99), 10);
  EXPECT_LT(rows[1].weight_sqnr_db.value_or(99), 10);
}

TEST(CompareLayers, LayersWithoutARowAreNamedWithTheReason) {
  const torch::jit::Module model = two_layers();
  const ComparedLayers compared = compare_layers(model, int8_of(model, samples_of(1)), samples_of(1));
  ASSERT_EQ(compared.without_row.size(), 2U);
  EXPECT_EQ(compared.without_row[0].layer, "relu1");
  EXPECT_EQ(compared.without_row[0].reason, NoRow::WithinAnother);
  EXPECT_EQ(compared.without_row[1].layer, "relu2");
}

TEST(CompareLayers, WeightOnlyKernelsHaveARow) {
  const torch::jit::Module model = two_layers();
  for (const int bits : {8, 4}) {
    QConfig qconfig = weight_only_qconfig(bits, 32);
    const BackendConfig backend =
        mode_backend_config(QuantizeMode::WeightOnly, Recipe::Best, backend_config("x86"));
    const Prepared prepared = prepare(
        model, QConfigMapping().set_object_type("torch.nn.Linear", qconfig).set_module_name("second", {}),
        backend);
    const std::vector<LayerComparison> rows =
        compare_layers(model, convert(prepared, backend), samples_of(1)).rows;
    const auto first = std::ranges::find(rows, "first", &LayerComparison::layer);
    ASSERT_NE(first, rows.end()) << bits;
    EXPECT_GT(first->sqnr_db, bits == 8 ? 35 : 12) << bits;
    EXPECT_LT(first->sqnr_db, 80) << "it is not float";
    EXPECT_EQ(first->float_operator, "aten::linear") << "with its bias";
    EXPECT_THAT(first->kernel, ::testing::StartsWith("aten::_weight_int")) << bits;
  }
}

TEST(CompareLayers, KernelsThatReturnAnotherRankHaveARow) {
  // Those of one-dimensional convolutions that return float add a dimension.
  torch::manual_seed(6);
  torch::jit::Module conv = testing::user_module("Conv");
  conv.register_parameter("weight", torch::randn({6, 4, 3}), false);
  conv.define("def forward(self, x):\n  return torch.conv1d(x, self.weight)\n");
  torch::jit::Module model = testing::user_module("Ranks");
  model.register_module("conv", conv);
  model.register_module("fc", testing::linear(6, 5));
  model.define("def forward(self, x):\n  return self.fc.forward(self.conv.forward(x).transpose(1, 2))\n");
  model.eval();
  std::vector<Sample> samples;
  for (int i = 0; i < 3; ++i) samples.push_back({torch::randn({2, 4, 9})});
  const BackendConfig backend =
      mode_backend_config(QuantizeMode::Static, Recipe::Best, backend_config("onednn"));
  Prepared prepared = prepare(model, best_qconfig_mapping("onednn"), backend);
  calibrate(prepared, samples);
  const EngineHold hold(at::QEngine::ONEDNN);
  const ComparedLayers compared = compare_layers(model, convert(prepared, backend), samples);
  EXPECT_THAT(layers_of(compared), ::testing::IsSupersetOf({"conv", "fc"}));
}

TEST(CompareLayers, ModelsWithoutACommonLayerAreRefused) {
  torch::jit::Module other = testing::user_module("Other");
  other.register_module("elsewhere", testing::linear(32, 48));
  other.define("def forward(self, x):\n  return self.elsewhere.forward(x)\n");
  EXPECT_THROW(compare_layers(two_layers(), other, samples_of(1)), Error);
}

}  // namespace compare_layers_test
}  // namespace tsq
