// What recipe `best` adds to FX's passes.

#include <gtest/gtest.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "observers/observer_module.h"
#include "pipeline/stage.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace best_test {

using torch::jit::Module;
using torch::jit::testing::FileCheck;

PrepareOptions on_slow_floats() { return {.machine = testing::slow_in_float()}; }
const PrepareOptions kFx{.recipe = Recipe::Fx};

std::string graph_of(const Module& module) { return module.get_method("forward").graph()->toString(); }

std::vector<Sample> images(double scale = 1.0) {
  torch::manual_seed(1);
  std::vector<Sample> result;
  for (int i = 0; i < 4; ++i) result.push_back({torch::randn({2, 3, 9, 9}) * scale});
  return result;
}

Prepared calibrated(const Module& model, const std::vector<Sample>& samples, std::string_view backend = "x86",
                    const PrepareOptions& options = on_slow_floats()) {
  const QConfigMapping mapping =
      options.recipe == Recipe::Best ? best_qconfig_mapping(backend) : default_qconfig_mapping(backend);
  Prepared prepared = prepare(model, mapping, backend_config(backend), options);
  calibrate(prepared, samples);
  return prepared;
}

Module quantized(const Module& model, const std::vector<Sample>& samples, std::string_view backend = "x86",
                 const PrepareOptions& options = on_slow_floats()) {
  return convert(calibrated(model, samples, backend, options), backend_config(backend));
}

/// `forward` may use the convolutions a (3 to 8 channels) and b (8 to 4).
Module two_convolutions(const std::string& forward) {
  torch::manual_seed(2);
  Module model = testing::user_module("Two");
  model.register_module("a", testing::conv2d(3, 8, 3));
  model.register_module("b", testing::conv2d(8, 4, 1));
  model.define("def forward(self, x):\n" + forward);
  return model;
}

double error_of(Module float_model, Module quantized_model, std::string_view engine,
                const std::vector<Sample>& samples) {
  const at::NoGradGuard no_grad;
  const auto former = at::globalContext().qEngine();
  for (const at::QEngine each : at::globalContext().supportedQEngines()) {
    std::string name = at::toString(each);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (name == engine) at::globalContext().setQEngine(each);
  }
  double signal = 0;
  double noise = 0;
  for (const Sample& sample : samples) {
    const at::Tensor wanted = float_model.forward(sample).toTensor();
    signal += wanted.square().sum().item<double>();
    noise += (quantized_model.forward(sample).toTensor() - wanted).square().sum().item<double>();
  }
  at::globalContext().setQEngine(former);
  return std::sqrt(noise / signal);
}

/// The operators of a model's forward, without attributes and constants.
std::vector<std::string> operators_of(const Module& module) {
  std::vector<std::string> kinds;
  for (const torch::jit::Node* node : module.get_method("forward").graph()->nodes()) {
    if (!node->kind().is_prim()) kinds.emplace_back(node->kind().toQualString());
  }
  return kinds;
}

TEST(Recipe, BestIsTheDefaultAndFxAddsNothing) {
  EXPECT_EQ(PrepareOptions{}.recipe, Recipe::Best);
  EXPECT_EQ(QuantizeOptions{}.recipe, Recipe::Best);
  const Module model = two_convolutions("  return self.b.forward(torch.hardtanh(self.a.forward(x), 0, 6))\n");
  PrepareOptions options = on_slow_floats();
  Module by_default = quantized(model, images(), "x86", options);
  options.recipe = Recipe::Best;
  Module by_name = quantized(model, images(), "x86", options);
  // No row has torch.hardtanh.
  const std::vector<std::string> of_fx{
      "aten::quantize_per_tensor", "quantized::conv2d", "aten::dequantize", "aten::hardtanh",
      "aten::quantize_per_tensor", "quantized::conv2d", "aten::dequantize"};
  EXPECT_EQ(operators_of(quantized(model, images(), "x86", kFx)), of_fx);
  EXPECT_NE(operators_of(by_name), of_fx) << "recipe best does change this model";
  const Sample sample = images().front();
  EXPECT_TRUE(at::equal(by_default.forward(sample).toTensor(), by_name.forward(sample).toTensor()));
}

/// What the first users of "symmetric activations" write: no kernel of these engines reads such bytes.
QConfigMapping symmetric_activations() {
  const ObserverSpec spec{.observer = "MinMaxObserver",
                          .dtype = c10::ScalarType::QInt8,
                          .qscheme = c10::QScheme::PER_TENSOR_SYMMETRIC};
  return QConfigMapping().set_global(QConfig{.activation = spec, .weight = spec});
}

TEST(Recipe, BestReturnsTheModelBitForBitWhereNothingIsInInt8) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(3);
  Module rows = testing::user_module("Rows");
  rows.register_module("a", testing::linear(8, 16));
  rows.register_module("b", testing::linear(16, 4));
  rows.define("def forward(self, x):\n  return self.b.forward(torch.relu(self.a.forward(x)))\n");
  Module convolutions = testing::conv_bn_relu();
  for (const char* engine : {"x86", "fbgemm", "onednn"}) {
    for (Module model : {rows, convolutions}) {
      model.eval();
      const Sample sample{model.hasattr("bn") ? torch::randn({2, 3, 8, 8}) : torch::randn({4, 8})};
      Prepared prepared = prepare(model, symmetric_activations(), backend_config(engine), on_slow_floats());
      calibrate(prepared, std::vector<Sample>{sample});
      const Lowered lowered = convert(prepared, backend_config(engine));
      EXPECT_TRUE(std::ranges::none_of(lowered.report().decisions, &Decision::quantized)) << engine;
      EXPECT_TRUE(
          at::equal(Module(lowered.module()).forward(sample).toTensor(), model.forward(sample).toTensor()))
          << engine;
    }
  }
}

TEST(Recipe, IsKeptInThePreparedFile) {
  const Module model = two_convolutions("  return self.b.forward(torch.hardtanh(self.a.forward(x), 0, 6))\n");
  const Prepared prepared = calibrated(model, images());
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("prepared.pt");
  prepared.save(path);
  const BackendConfig backend = backend_config("x86");
  EXPECT_LT(error_of(convert(prepared, backend), convert(Prepared::load(path), backend), "x86", images()),
            1e-9);
}

TEST(AbsorbClamps, AClampAfterAConvolutionCostsNothing) {
  const Module model =
      two_convolutions("  return self.b.forward(torch.hardtanh(self.a.forward(x), 0, 0.5))\n");
  const Module best = quantized(model, images());
  FileCheck().check_not("aten::hardtanh")->check_not("aten::relu")->run(graph_of(best));
  FileCheck()
      .check("quantized::conv2d")
      ->check("quantized::conv2d")
      ->check_not("quantized::conv2d")
      ->run(graph_of(best));
  EXPECT_LT(error_of(model, best, "x86", images()), 0.06);
}

TEST(AbsorbClamps, AClampAfterATransposedConvolutionIsDoneBeforeTheRounding) {
  torch::manual_seed(3);
  Module model = testing::user_module("Decoder");
  model.register_module("up", testing::conv_transpose2d(3, 8, 2));
  model.register_module("last", testing::conv2d(8, 4, 1));
  model.define("def forward(self, x):\n  return self.last.forward(torch.relu(self.up.forward(x)))\n");
  for (const char* engine : {"x86", "fbgemm", "onednn", "qnnpack"}) {
    const Module best = quantized(model, images(), engine);
    FileCheck().check_not("aten::relu")->run(graph_of(best));
    EXPECT_LT(error_of(model, best, engine, images()), 0.06) << engine;
  }
}

TEST(AbsorbClamps, ARangeWiderThanTheClampKeepsIt) {
  const Module model = two_convolutions(
      "  return self.b.forward(torch.clamp(self.a.forward(x), 0.2, 0.6))\n");  // zero has to be representable
  const Module best = quantized(model, images());
  FileCheck()
      .check("quantized::conv2d")
      ->check("aten::clamp")
      ->check("quantized::conv2d")
      ->run(graph_of(best));
  EXPECT_LT(error_of(model, best, "x86", images()), 0.06);
}

TEST(AbsorbClamps, AnOutputThatOthersReadIsObservedBeforeTheClamp) {
  const Module model = two_convolutions(
      "  y = self.a.forward(x)\n  return self.b.forward(torch.hardtanh(y, 0, 0.5)) + self.b.forward(y)\n");
  FileCheck().check("aten::hardtanh")->run(graph_of(quantized(model, images())));
}

TEST(LeaveFloatIslands, AnAdditionBetweenFloatOperatorsStaysFloat) {
  const Module model = two_convolutions(
      "  y = self.a.forward(x)\n  y = torch.sqrt(torch.pow(y, 2) + torch.pow(y, 4))\n  return "
      "self.b.forward(y)\n");
  const Module best = quantized(model, images());
  FileCheck().check("aten::add")->run(graph_of(best));
  FileCheck().check_not("quantized::add")->run(graph_of(best));
  FileCheck().check("quantized::add")->run(graph_of(quantized(model, images(), "x86", kFx)));
}

TEST(LeaveFloatIslands, AnAdditionBetweenConvolutionsIsQuantized) {
  const Module model =
      two_convolutions("  y = self.a.forward(x)\n  return self.b.forward(y + torch.sigmoid(y))\n");
  FileCheck().check("quantized::add")->run(graph_of(quantized(model, images())));
}

TEST(LeaveFloatIslands, TheReportSaysWhy) {
  const Module model = two_convolutions("  return torch.sigmoid(self.b.forward(self.a.forward(x)))\n");
  const Prepared prepared = calibrated(model, images());
  const Report& report = prepared.report();
  const auto sigmoid =
      std::find_if(report.decisions.begin(), report.decisions.end(),
                   [](const Decision& each) { return each.op.find("sigmoid") != std::string::npos; });
  ASSERT_NE(sigmoid, report.decisions.end());
  EXPECT_FALSE(sigmoid->quantized);
  EXPECT_NE(sigmoid->reason.find("between quantized operators"), std::string::npos);
}

TEST(SeparateConcatenations, InputsThatOthersReadKeepTheirRanges) {
  const Module model = two_convolutions(
      "  y = self.a.forward(x)\n  z = torch.cat([y * 0.01, y], 0)\n  return self.b.forward(z) + "
      "torch.cat([self.b.forward(y * 0.01), self.b.forward(y)], 0)\n");
  const Module best = quantized(model, images());
  FileCheck().check("quantized::cat")->run(graph_of(best));
  EXPECT_LT(error_of(model, best, "x86", images()), 0.06);
}

TEST(LeaveFloatIslands, WhatFloatBranchesGiveIsFloat) {
  const Module model = two_convolutions(
      "  if x.size(0) > 1:\n    h = torch.sigmoid(x)\n  else:\n    h = torch.tanh(x)\n"
      "  state = torch.stack([h, h])\n  return self.b.forward(self.a.forward(x)).sum() + state.sum()\n");
  const Module best = quantized(model, images());
  FileCheck().check_count("aten::quantize_per_tensor", 1, /*exactly=*/true)->run(graph_of(best));
}

TEST(SeparateScalarArithmetic, ANumberThatIsAddedCostsTheInputNoCodes) {
  // In recipe fx the range of the convolution's output counts the sums, too.
  const Module model = two_convolutions(
      "  return self.b.forward((torch.max_pool2d(self.a.forward(x), [1, 1]) + 30) * 3 - 90)\n");
  const Module best = quantized(model, images());
  FileCheck().check("quantized::add")->check("quantized::mul")->run(graph_of(best));
  EXPECT_LT(error_of(model, best, "x86", images()), 0.06);
  EXPECT_LT(error_of(model, best, "x86", images()),
            0.5 * error_of(model, quantized(model, images(), "x86", kFx), "x86", images()));
}

TEST(SeparateScalarArithmetic, AReLUAfterAProductStays) {
  const Module model = two_convolutions(
      "  y = torch.relu(torch.max_pool2d(self.a.forward(x), [1, 1]) * 3)\n  return "
      "self.b.forward(torch.relu(y + -0.5))\n");
  const Module best = quantized(model, images());
  FileCheck().check("quantized::mul_relu")->check("quantized::add_relu")->run(graph_of(best));
  EXPECT_LT(error_of(model, best, "x86", images()), 0.06);
}

TEST(SeparateScalarArithmetic, AClampAfterASumStays) {
  // The kernel of a sum with a number does not saturate at the range that was observed after the clamp.
  const Module model = two_convolutions(
      "  y = torch.max_pool2d(self.a.forward(x), [1, 1])\n"
      "  return self.b.forward(torch.hardtanh(y + 0.5, 0, 0.6))\n");
  const Module best = quantized(model, images());
  FileCheck().check("quantized::add")->check("aten::hardtanh")->run(graph_of(best));
  // The clamp works on the codes of the sum, and its ends are rounded to them.
  EXPECT_LT(error_of(model, best, "x86", images()), 0.15);
}

/// A depthwise convolution with stride 2 after an asymmetric padding, as TensorFlow's 'SAME' has it.
Module same_padding(int64_t size, int64_t kernel) {
  torch::manual_seed(4);
  Module model = testing::user_module("Same");
  model.register_module("a", testing::conv2d(3, 104, 1));
  Module depthwise = testing::conv2d(1, 104, kernel);
  depthwise.setattr("groups", int64_t{104});
  depthwise.setattr("stride", std::vector<int64_t>{2, 2});
  depthwise.setattr("padding", std::vector<int64_t>{0, 0});
  model.register_module("b", depthwise);
  const int64_t all = kernel - 2 + size % 2;
  model.define("def forward(self, x):\n  return self.b.forward(torch.constant_pad_nd(self.a.forward(x), [" +
               std::to_string(all / 2) + ", " + std::to_string(all - all / 2) + ", " +
               std::to_string(all / 2) + ", " + std::to_string(all - all / 2) + "], 0))\n");
  return model;
}

TEST(BoundPairSums, DepthwiseKernelsOfFbgemmSaturateAndAreKeptFromIt) {
  // All weights of one sign and inputs at the end of their range.
  torch::manual_seed(5);
  Module model = testing::user_module("Saturates");
  Module depthwise = testing::conv2d(1, 16, 3);
  depthwise.setattr("groups", int64_t{16});
  depthwise.setattr("padding", std::vector<int64_t>{1, 1});
  depthwise.setattr("weight", at::rand({16, 1, 3, 3}) + 2.0);
  model.register_module("a", depthwise);
  model.define("def forward(self, x):\n  return self.a.forward(x)\n");
  const std::vector<Sample> samples{{at::rand({1, 16, 8, 8}) * 0.1 + 0.9}};
  EXPECT_LT(error_of(model, quantized(model, samples, "fbgemm"), "fbgemm", samples), 0.02);
}

TEST(BoundPairSums, WithoutVnniNoTwoNeighboursOverflow) {
  for (const TargetCpu cpu : {TargetCpu::Vnni, TargetCpu::WithoutVnni}) {
    const Module model = two_convolutions("  return self.b.forward(self.a.forward(x))\n");
    const Prepared prepared = calibrated(model, images(), "x86", {.recipe = Recipe::Best, .target_cpu = cpu});
    const Reference reference = convert_to_reference(prepared, backend_config("x86"));
    double largest = 0;
    for (const ir::ModuleCall& call : detail::stage_of(reference).model.calls) {
      const ir::Weighted* weighted = ir::weighted_of(call);
      if (weighted == nullptr || !weighted->weight_qparams) continue;
      const at::Tensor codes =
          at::quantize_per_channel(weighted->weight.detach(), weighted->weight_qparams->scale,
                                   weighted->weight_qparams->zero_point, 0, c10::ScalarType::QInt8)
              .int_repr()
              .to(at::kInt)
              .flatten(2)
              .transpose(1, 2)
              .flatten(1);  // of a tap, channel after channel
      // Products of weights of different signs take from each other.
      for (const at::Tensor& of_one_sign : {codes.clamp_min(0), (-codes).clamp_min(0)}) {
        const at::Tensor even = at::constant_pad_nd(of_one_sign, {0, of_one_sign.size(1) % 2});
        largest = std::max(largest, even.unflatten(1, {-1, 2}).sum(2).max().item<double>());
      }
    }
    EXPECT_EQ(largest > 128, cpu == TargetCpu::Vnni);
  }
}

TEST(CorrectBiases, TheMeanOfEachChannelIsThatOfTheFloatModel) {
  torch::manual_seed(6);
  Module model = testing::user_module("Shifted");
  model.register_module("a", testing::conv2d(3, 8, 1));
  model.attr("a").toModule().setattr("weight", at::randn({8, 3, 1, 1}));
  model.define("def forward(self, x):\n  return self.a.forward(x)\n");
  std::vector<Sample> samples = images();
  for (Sample& sample : samples) sample.front() = sample.front().toTensor() * 0.01 + 5.0;  // means far from 0
  const at::NoGradGuard no_grad;
  const auto shift = [&](Module reference) {
    double largest = 0;
    at::Tensor difference;
    for (const Sample& sample : samples) {
      const at::Tensor of_sample =
          (reference.forward(sample).toTensor() - model.forward(sample).toTensor()).mean({0, 2, 3});
      difference = difference.defined() ? difference + of_sample : of_sample;
    }
    largest = (difference.abs().max() / static_cast<double>(samples.size())).item<double>();
    return largest;
  };
  const Prepared prepared = calibrated(model, samples);
  Reference reference = convert_to_reference(prepared, backend_config("x86"));
  // The layer alone, without the rounding of activations.
  ir::ModuleCall* call = nullptr;
  for (ir::ModuleCall& each : detail::stage_of(reference).model.calls) {
    if (ir::weighted_of(each) != nullptr) call = &each;
  }
  ASSERT_NE(call, nullptr);
  const ir::Weighted& weighted = *ir::weighted_of(*call);
  const at::Tensor rounded =
      at::quantize_per_channel(weighted.weight.detach(), weighted.weight_qparams->scale,
                               weighted.weight_qparams->zero_point, 0, c10::ScalarType::QInt8)
          .dequantize();
  Module exact = model.deepcopy();
  exact.attr("a").toModule().setattr("weight", rounded);
  const double uncorrected = shift(exact);
  exact.attr("a").toModule().setattr("bias", weighted.bias);
  EXPECT_GT(uncorrected, 1e-3);
  EXPECT_LT(shift(exact), uncorrected / 100);
}

TEST(ChannelStatisticsObserver, TwoHalvesMergeIntoTheStatisticsOfAll) {
  const ObserverSpec spec{.observer = "ChannelStatisticsObserver", .ch_axis = -3};
  torch::manual_seed(7);
  const at::Tensor first = torch::randn({2, 5, 4, 4});
  const at::Tensor second = torch::randn({3, 5, 6, 6});
  Module one = make_observer(spec);
  Module other = make_observer(spec);
  one.forward({first});
  other.forward({second});
  merge_observer(one, other);
  const at::Tensor all =
      at::cat({first.permute({1, 0, 2, 3}).flatten(1), second.permute({1, 0, 2, 3}).flatten(1)}, 1);
  const auto is_close = [&](const char* name, const at::Tensor& wanted) {
    return at::allclose(one.attr(name).toTensor().to(at::kFloat), wanted, 1e-4, 1e-6);
  };
  EXPECT_TRUE(is_close("mean", all.mean(1)));
  EXPECT_TRUE(is_close("mean_square", all.square().mean(1)));
  EXPECT_TRUE(at::equal(one.attr("min_val").toTensor(), all.amin(1)));
  EXPECT_TRUE(at::equal(one.attr("max_val").toTensor(), all.amax(1)));
}

/// The squared error of rounding plus four times that of clipping.
double weighted_error(const at::Tensor& values, const QParams& qparams) {
  const double scale = qparams.scale.item<float>();
  const auto zero_point = static_cast<double>(qparams.zero_point.item<int64_t>());
  const at::Tensor codes = (values / scale).round() + zero_point;
  const at::Tensor kept = codes.clamp(0, 255);
  const at::Tensor error = (values - (kept - zero_point) * scale).square();
  return at::where(codes == kept, error, error * 4).sum().item<double>();
}

TEST(MSEObserver, NoOtherRangeHasALessError) {
  torch::manual_seed(8);
  const at::Tensor normal = torch::randn({50000});
  for (const at::Tensor& values : {normal, normal.clamp_min(0), normal.pow(3)}) {
    const double error = weighted_error(values, observe_once({.observer = "MSEObserver"}, values));
    EXPECT_LE(error, 1.03 * weighted_error(values, observe_once({.observer = "MinMaxObserver"}, values)));
    EXPECT_LE(error, 1.03 * weighted_error(values, observe_once({.observer = "HistogramObserver"}, values)));
  }
  const at::Tensor relu = normal.clamp_min(0);  // half of it is exactly zero
  EXPECT_LT(weighted_error(relu, observe_once({.observer = "MSEObserver"}, relu)),
            0.8 * weighted_error(relu, observe_once({.observer = "HistogramObserver"}, relu)));
}

class FoldPadding : public ::testing::TestWithParam<std::tuple<std::string, int64_t, int64_t>> {};

TEST_P(FoldPadding, AsymmetricPaddingBecomesTheConvolutionsOwn) {
  const auto& [engine, size, kernel] = GetParam();
  const Module model = same_padding(size, kernel);
  torch::manual_seed(1);
  const std::vector<Sample> samples{{torch::randn({2, 3, size, size})}, {torch::randn({1, 3, size, size})}};
  const Module best = quantized(model, samples, engine);
  EXPECT_EQ(graph_of(best).find("aten::constant_pad_nd"), std::string::npos);
  EXPECT_LT(error_of(model, best, engine, samples), 0.06);
}

INSTANTIATE_TEST_SUITE_P(Engines, FoldPadding,
                         ::testing::Combine(::testing::Values("x86", "fbgemm", "onednn", "qnnpack"),
                                            ::testing::Values(8, 9), ::testing::Values(3, 5)));

TEST(FoldPaddingOnOtherSizes, OutputsThatTheLargerKernelHasTooMuchAreCutOff) {
  const Module model = same_padding(8, 3);  // padding [0, 1]
  torch::manual_seed(1);
  const std::vector<Sample> samples{{torch::randn({2, 3, 8, 8})}, {torch::randn({1, 3, 11, 7})}};
  for (const char* engine : {"x86", "fbgemm", "onednn", "qnnpack"})
    EXPECT_LT(error_of(model, quantized(model, samples, engine), engine, samples), 0.06) << engine;
}

TEST(FoldPaddingOfWholeKernels, GrowsThemWhereThatTakesLessTimeThanPadding) {
  torch::manual_seed(6);
  const std::vector<Sample> samples{{torch::randn({1, 3, 20, 20})}};
  const auto is_padded_by_an_operator = [&](int64_t outputs, const char* engine) {
    Module model = testing::user_module("First");
    Module first = testing::conv2d(3, outputs, 3);
    first.setattr("stride", std::vector<int64_t>{2, 2});
    first.setattr("padding", std::vector<int64_t>{0, 0});
    model.register_module("a", first);
    model.define(
        "def forward(self, x):\n  return self.a.forward(torch.constant_pad_nd(x, [0, 1, 0, 1], 0))\n");
    const Module best = quantized(model, samples, engine);
    EXPECT_LT(error_of(model, best, engine, samples), 0.06) << engine;
    return graph_of(best).find("aten::constant_pad_nd") != std::string::npos;
  };
  EXPECT_FALSE(is_padded_by_an_operator(32, "fbgemm"));
  EXPECT_FALSE(is_padded_by_an_operator(16, "x86"));
  EXPECT_FALSE(is_padded_by_an_operator(16, "onednn"));
}

/// The names of the packed params that a graph reads.
std::set<std::string> packed_params(const Module& module) {
  std::set<std::string> names;
  const auto graph = module.get_method("forward").graph();
  for (const auto* node : graph->nodes()) {
    if (node->kind() == c10::prim::GetAttr &&
        node->output()->type()->str().find("PackedParams") != std::string::npos)
      names.insert(node->s(c10::attr::name));
  }
  return names;
}

TEST(ShareParameters, ALayerThatIsCalledSeveralTimesIsPackedOnce) {
  torch::manual_seed(7);
  Module model = testing::user_module("Albert");
  model.register_module("ln", testing::layer_norm(16));
  model.register_module("layer", testing::linear(16, 16));
  model.define(
      "def forward(self, x):\n"
      "  x = x + torch.softmax(self.layer.forward(self.ln.forward(x)), -1)\n"
      "  x = x * 3 + torch.softmax(self.layer.forward(self.ln.forward(x)), -1)\n"
      "  return x * 5 + torch.softmax(self.layer.forward(self.ln.forward(x)), -1)\n");
  const std::vector<Sample> samples{{torch::randn({8, 16})}};
  EXPECT_EQ(packed_params(quantized(model, samples)).size(), 1);
  Prepared dynamic = prepare(model, best_dynamic_qconfig_mapping(), backend_config("x86"), on_slow_floats());
  calibrate(dynamic, samples);
  EXPECT_EQ(packed_params(convert(dynamic, backend_config("x86"))).size(), 1);
}

}  // namespace best_test
}  // namespace tsq
