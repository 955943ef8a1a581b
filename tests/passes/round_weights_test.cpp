// Weight rounding that lowers the error of a layer's output.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <algorithm>
#include <cctype>

#include "passes/ranges/passes.h"
#include "passes/weights/passes.h"
#include "pipeline/stage.h"
#include "support/calibrated_model.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace round_weights_test {

using torch::jit::Module;

const PrepareOptions kNearest{.recipe = Recipe::Best, .weight_rounding = WeightRounding::Nearest};
const PrepareOptions kLearned{.machine = testing::slow_in_float()};

/// One layer "a", and data whose neighbouring values are alike, as in images.
struct Network {
  std::string name;
  Module model;
  std::vector<Sample> samples;   ///< for calibration
  std::vector<Sample> others{};  ///< to measure with; those for calibration where there are none
};

Module of_one_layer(const Module& layer) {
  Module model = testing::user_module("One");
  model.register_module("a", layer);
  model.define("def forward(self, x):\n  return self.a.forward(x)\n");
  return model;
}

std::vector<Sample> alike(const std::vector<int64_t>& shape) {
  std::vector<Sample> samples;
  for (int i = 0; i < 6; ++i) {
    const at::Tensor x = torch::randn(shape);
    samples.push_back({at::cumsum(x, -1) * 0.3 + 0.5 + at::cumsum(x, 1) * 0.1});
  }
  return samples;
}

std::vector<Network> networks() {
  torch::manual_seed(31);
  Module padded = testing::conv2d(3, 6, 3);
  padded.setattr("padding", std::vector<int64_t>{1, 1});
  padded.setattr("stride", std::vector<int64_t>{2, 2});
  Module depthwise = testing::conv2d(1, 6, 3);
  depthwise.setattr("groups", int64_t{6});
  Module grouped = testing::conv2d(2, 6, 3, /*bias=*/false);
  grouped.setattr("groups", int64_t{3});
  return {{"linear", of_one_layer(testing::linear(24, 10)), alike({16, 24}), alike({16, 24})},
          {"convolution", of_one_layer(padded), alike({2, 3, 9, 9}), alike({2, 3, 9, 9})},
          {"depthwise", of_one_layer(depthwise), alike({2, 6, 9, 9}), alike({2, 6, 9, 9})},
          {"grouped", of_one_layer(grouped), alike({2, 6, 9, 9}), alike({2, 6, 9, 9})}};
}

Prepared prepared(const Network& network, const PrepareOptions& options) {
  PrepareOptions on_slow_floats = options;
  on_slow_floats.machine = testing::slow_in_float();
  Prepared result =
      prepare(network.model, best_qconfig_mapping("qnnpack"), backend_config("qnnpack"), on_slow_floats);
  calibrate(result, network.samples);
  return result;
}

ir::Weighted layer(const Network& network, const PrepareOptions& options) {
  const Reference reference = convert_to_reference(prepared(network, options), backend_config("qnnpack"));
  return testing::layer(detail::stage_of(reference).model, "a");
}

at::Tensor rounded(const ir::Weighted& weighted) {
  return at::quantize_per_channel(weighted.weight.detach(), weighted.weight_qparams->scale,
                                  weighted.weight_qparams->zero_point, 0, c10::ScalarType::QInt8)
      .dequantize();
}

/// The squared error of the layer's output, with exact inputs.
double output_error(const Network& network, const ir::Weighted& weighted) {
  const c10::NoGradGuard no_grad;
  Module exact = network.model;
  double sum = 0;
  for (const Sample& sample : network.others.empty() ? network.samples : network.others) {
    const at::Tensor x = sample.front().toTensor();
    const at::Tensor got = weighted.stride.empty()
                               ? at::linear(x, rounded(weighted), weighted.bias)
                               : at::conv2d(x, rounded(weighted), weighted.bias, weighted.stride,
                                            weighted.padding, weighted.dilation, weighted.groups);
    sum += (got - exact.forward(sample).toTensor()).square().sum().item<double>();
  }
  return sum;
}

TEST(RoundWeights, TheErrorOfALayersOutputIsLessThanWithTheNearestCodes) {
  for (const Network& network : networks()) {
    const double nearest = output_error(network, layer(network, kNearest));
    const double learned = output_error(network, layer(network, kLearned));
    EXPECT_LE(learned, nearest) << network.name;
    EXPECT_LT(learned, 0.8 * nearest) << network.name << ": the inputs are correlated";
  }
}

TEST(RoundWeights, FewSamplesOfManyInputsDoNoHarmToOthers) {
  torch::manual_seed(33);
  for (const bool is_correlated : {false, true}) {
    const auto rows = [&](int64_t count) {
      const at::Tensor x = torch::randn({count, 256});
      return is_correlated ? at::cumsum(x, 1) : x;
    };
    Network network{"linear", of_one_layer(testing::linear(256, 120)), {{rows(32)}}};
    const ir::Weighted learned = layer(network, kLearned);
    const ir::Weighted nearest = layer(network, kNearest);
    network.others = {{rows(4096)}};
    EXPECT_LT(output_error(network, learned), (is_correlated ? 0.5 : 1.05) * output_error(network, nearest))
        << "correlated: " << is_correlated;
  }
}

TEST(RoundWeights, EveryWeightIsACodeOfItsRow) {
  for (const Network& network : networks()) {
    const ir::Weighted weighted = layer(network, kLearned);
    EXPECT_TRUE(at::allclose(rounded(weighted), weighted.weight, 1e-5, 1e-7)) << network.name;
    EXPECT_TRUE(at::equal(weighted.weight_qparams->scale, layer(network, kNearest).weight_qparams->scale));
  }
}

/// A reference that knows the products of its inputs, but has the nearest codes.
testing::CalibratedModel before_rounding(const Network& network, const PrepareOptions& options) {
  testing::CalibratedModel result = testing::calibrated_model(prepared(network, options));
  passes::take_channel_statistics(result.model, result.context);
  passes::take_input_products(result.model, result.context);
  testing::make_reference(result);
  return result;
}

TEST(RoundWeights, ThePassAloneLowersTheErrorAndForgetsTheProducts) {
  for (const Network& network : networks()) {
    auto [model, context] = before_rounding(network, kLearned);
    int layers = 0;
    context.on_part = [&](passes::Part, std::size_t) { ++layers; };
    const double nearest = output_error(network, testing::layer(model, "a"));
    EXPECT_TRUE(passes::round_weights(model, context)) << network.name;
    EXPECT_LT(output_error(network, testing::layer(model, "a")), 0.8 * nearest) << network.name;
    EXPECT_FALSE(testing::layer(model, "a").seen.input_products.defined()) << network.name;
    EXPECT_EQ(layers, 1) << network.name;
    EXPECT_FALSE(passes::round_weights(model, context)) << network.name;
  }
}

TEST(RoundWeights, WithoutProductsTheNearestStay) {
  auto [model, context] = before_rounding(networks().front(), kNearest);
  EXPECT_FALSE(passes::round_weights(model, context));
}

TEST(RoundWeights, WhereSumsOfPairsAreBoundCodesAreLearnedWithinTheBound) {
  for (const Network& network : networks()) {
    auto [nearest, nearest_context] = before_rounding(network, kNearest);
    auto [learned, learned_context] = before_rounding(network, kLearned);
    for (passes::PassContext* context : {&nearest_context, &learned_context})
      context->target = {.engine = "x86", .cpu = TargetCpu::WithoutVnni};
    EXPECT_TRUE(passes::round_weights(learned, learned_context)) << network.name;
    passes::bound_pair_sums(nearest, nearest_context);
    EXPECT_FALSE(passes::bound_pair_sums(learned, learned_context))
        << network.name << ": they are bound already";
    EXPECT_LT(output_error(network, testing::layer(learned, "a")),
              0.9 * output_error(network, testing::layer(nearest, "a")))
        << network.name;
  }
}

TEST(RoundWeights, OfIndependentInputsTheNearestCodesStay) {
  torch::manual_seed(32);
  Network network{"independent", of_one_layer(testing::linear(8, 4)), {}};
  // Each input alone: their products are zero.
  network.samples.push_back({at::cat({at::eye(8), -at::eye(8)})});
  const at::Tensor exact = layer(network, kNearest).weight.detach();
  // Two codes may be equally near.
  EXPECT_TRUE(at::allclose((rounded(layer(network, kLearned)) - exact).abs(),
                           (rounded(layer(network, kNearest)) - exact).abs(), 1e-3, 1e-6));
}

TEST(RoundWeights, FewInputsFarFromZeroMoveNoWeightFarFromItsValue) {
  // Their covariance is the small difference of large numbers, and has fewer directions than the weight has
  // columns.
  torch::manual_seed(33);
  Network network{"far from zero", of_one_layer(testing::linear(200, 4)), {}};
  for (int i = 0; i < 3; ++i) network.samples.push_back({torch::rand({2, 200}) * 1e-3 + 3.0});
  const ir::Weighted learned = layer(network, kLearned);
  const at::Tensor difference = rounded(learned) - rounded(layer(network, kNearest));
  EXPECT_LE((difference.abs() / learned.weight_qparams->scale.unsqueeze(1)).max().item<double>(), 1.01);
  constexpr double kOfSinglePrecision = 1e-7;
  EXPECT_LE(output_error(network, learned),
            output_error(network, layer(network, kNearest)) + kOfSinglePrecision);
}

TEST(RoundWeights, ObserversOfProductsAreThereOnlyWhenAskedFor) {
  const Network network = networks().front();
  const auto count = [&](const PrepareOptions& options) {
    const Prepared model = prepared(network, options);
    return std::ranges::count_if(detail::stage_of(model).model.observers, [](const ir::ObserverEntry& entry) {
      return entry.spec.observer == "InputProductsObserver";
    });
  };
  EXPECT_EQ(count(kNearest), 0);
  EXPECT_EQ(count(kLearned), 1);
}

TEST(RoundWeights, OfTinyInputsOrNoneTheCodesAreSoundAndOfNoneTheNearest) {
  Network network = networks().front();
  const at::Tensor alone = network.samples.front().front().toTensor();
  for (const double size : {1e-15, 1e-22, 0.0}) {
    network.samples = {{alone * size}};
    const ir::Weighted learned = layer(network, kLearned);
    EXPECT_TRUE(at::isfinite(learned.weight).all().item<bool>()) << size;
    const bool is_nearest = at::equal(rounded(learned), rounded(layer(network, kNearest)));
    EXPECT_EQ(is_nearest, size == 0) << size;
  }
}

TEST(RoundWeights, OfALargeImageSomeWindowsAreSeenWhichSayTheSame) {
  torch::manual_seed(34);
  Network network{"large", of_one_layer(testing::conv2d(3, 6, 3)), alike({2, 3, 80, 80})};
  const Prepared model = prepared(network, kLearned);
  const Module& observer = detail::stage_of(model).model.observers.back().module.value();
  ASSERT_TRUE(observer.hasattr("products"));
  const int64_t values = observer.attr("values").toInt();
  const auto samples = static_cast<int64_t>(network.samples.size());
  EXPECT_GT(values, 256 * samples);
  EXPECT_LE(values, 512 * samples);
  EXPECT_LT(output_error(network, layer(network, kLearned)),
            0.8 * output_error(network, layer(network, kNearest)));
}

TEST(RoundWeights, TheCallsOfOneLayerKeepOneWeight) {
  torch::manual_seed(35);
  Module model = testing::user_module("Twice");
  model.register_module("a", testing::linear(16, 16));
  model.define("def forward(self, x):\n  return self.a.forward(torch.relu(self.a.forward(x)))\n");
  const Network network{"twice", model, alike({16, 16})};
  const Reference reference = convert_to_reference(prepared(network, kLearned), backend_config("qnnpack"));
  std::vector<at::Tensor> weights;
  for (const ir::ModuleCall& call : detail::stage_of(reference).model.calls) {
    const ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted != nullptr && weighted->weight_qparams) weights.push_back(weighted->weight);
  }
  ASSERT_EQ(weights.size(), 2U);
  EXPECT_TRUE(weights[0].is_same(weights[1]));
  EXPECT_FALSE(at::equal(weights[0], model.attr("a").toModule().attr("weight").toTensor()));
}

TEST(RoundWeights, APreparedFileKeepsWhatWasObserved) {
  const Network network = networks().back();
  const Prepared model = prepared(network, kLearned);
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("prepared.pt");
  model.save(path);
  const BackendConfig backend = backend_config("qnnpack");
  Module before = convert_to_reference(model, backend).module();
  Module after = convert_to_reference(Prepared::load(path), backend).module();
  const Sample& sample = network.samples.front();
  EXPECT_TRUE(at::equal(before.forward(sample).toTensor(), after.forward(sample).toTensor()));
}

}  // namespace round_weights_test
}  // namespace tsq
