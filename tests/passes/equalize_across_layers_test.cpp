// Channels of unlike ranges between two layers (Nagel et al., 2019).

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/quantize.h>

#include "passes/numerics/passes.h"
#include "passes/ranges/passes.h"
#include "pipeline/stage.h"
#include "support/calibrated_model.h"
#include "support/small_models.h"
#include "torchscript/emit.h"

namespace tsq {
namespace equalize_across_layers_test {

using torch::jit::Module;

constexpr int64_t kChannels = 8;
constexpr double kMargin = 1.25;

std::vector<Sample> images() {
  torch::manual_seed(11);
  std::vector<Sample> result;
  for (int i = 0; i < 4; ++i) result.push_back({torch::randn({2, 3, 9, 9})});
  return result;
}

/// 1x1, depthwise 3x3, 1x1 as `first`, `depthwise`, `last`; `forward` says what lies between. The channels of
/// the first two reach from 0.05 to 5.
Module separable(const std::string& forward) {
  torch::manual_seed(12);
  const c10::NoGradGuard no_grad;
  Module model = testing::user_module("Separable");
  const at::Tensor widths = torch::logspace(-1.3, 0.7, kChannels).reshape({kChannels, 1, 1, 1});
  Module first = testing::conv2d(3, kChannels, 1);
  first.attr("weight").toTensor().mul_(widths);
  first.attr("bias").toTensor().mul_(widths.flatten());
  model.register_module("first", first);
  Module depthwise = testing::conv2d(1, kChannels, 3);
  depthwise.setattr("groups", kChannels);
  model.register_module("depthwise", depthwise);
  model.register_module("last", testing::conv2d(kChannels, 4, 1));
  model.define("def forward(self, x):\n" + forward);
  return model;
}

const std::string kReLU =
    "  y = torch.relu(self.depthwise.forward(torch.relu(self.first.forward(x))))\n"
    "  return self.last.forward(y)\n";
const std::string kNothingBetween =
    "  return self.last.forward(self.depthwise.forward(self.first.forward(x)))\n";

Prepared calibrated(const Module& model, const QConfigMapping& mapping = best_qconfig_mapping("qnnpack")) {
  Prepared prepared = prepare(model, mapping, backend_config("qnnpack"),
                              {.recipe = Recipe::Best, .weight_rounding = WeightRounding::Nearest});
  calibrate(prepared, images());
  return prepared;
}

struct Equalized {
  testing::CalibratedModel of{};
  bool has_changed{false};
};

testing::CalibratedModel with_channel_statistics(const Prepared& prepared) {
  testing::CalibratedModel result = testing::calibrated_model(prepared);
  result.context.options.cross_layer_margin = kMargin;
  passes::take_channel_statistics(result.model, result.context);
  return result;
}

/// The graph with its observers, after this pass alone.
Equalized equalized(const Prepared& prepared) {
  Equalized result{.of = with_channel_statistics(prepared)};
  result.has_changed = passes::equalize_across_layers(result.of.model, result.of.context);
  return result;
}

/// What the rows of a layer's weight were multiplied by.
at::Tensor factors(const Module& model, Equalized& result, const std::string& path) {
  const at::Tensor before = model.attr(path).toModule().attr("weight").toTensor().detach().flatten(1);
  return (testing::layer(result.of.model, path).weight.detach().flatten(1) / before).mean(1);
}

std::string reported(const Equalized& result, const std::string& path) {
  return testing::reported_equalization(result.of.model, path);
}

/// Factors change nothing in float.
void expect_same_in_float(Module& model, const Equalized& result, double tolerance, const std::string& what) {
  Module module = torchscript::emit(result.of.model);
  for (const Sample& sample : images()) {
    EXPECT_TRUE(
        at::allclose(model.forward(sample).toTensor(), module.forward(sample).toTensor(), 1e-4, tolerance))
        << what;
  }
}

TEST(EqualizeAcrossLayers, ChangesNothingInFloat) {
  for (const std::string& forward : {kReLU, kNothingBetween}) {
    Module model = separable(forward);
    const Prepared prepared = calibrated(model);
    Equalized result = equalized(prepared);
    EXPECT_TRUE(result.has_changed);
    EXPECT_GT(factors(model, result, "first").max().item<double>(), 2);
    expect_same_in_float(model, result, 1e-5, forward);
  }
}

TEST(EqualizeAcrossLayers, TheSizesOfInputsStayKnown) {
  Module model = separable(kReLU);
  Equalized result = equalized(calibrated(model));
  ASSERT_GT(factors(model, result, "first").max().item<double>(), 2);
  for (const char* path : {"first", "depthwise", "last"})
    EXPECT_TRUE(testing::layer(result.of.model, path).seen.input.sizes.defined()) << path;
}

/// conv → `between` → conv; `between` may use the batch norm `bn`. The channels of the first reach from 0.05
/// to 5.
Module with_between(const std::string& between) {
  Module model = testing::user_module("Between");
  const Module widths = separable(kReLU);
  model.register_module("first", widths.attr("first").toModule());
  model.register_module("last", widths.attr("last").toModule());
  Module bn = testing::batch_norm2d(kChannels);
  model.register_module("bn", bn);
  model.eval();
  model.define("def forward(self, x):\n  y = self.first.forward(x)\n" + between +
               "  return self.last.forward(y)\n");
  return model;
}

TEST(EqualizeAcrossLayers, ReachesAcrossLeakyReLUsPoolsAndPadding) {
  for (const std::string between :
       {"  y = torch.leaky_relu(y, 0.1)\n", "  y = torch.max_pool2d(torch.relu(y), [2, 2])\n",
        "  y = torch.constant_pad_nd(torch.relu(y), [1, 2, 1, 2], 0)\n"}) {
    Module model = with_between(between);
    const Prepared prepared = calibrated(model);
    Equalized result = equalized(prepared);
    EXPECT_EQ(reported(result, "last"), "equalized with 'first'") << between;
    EXPECT_GT(factors(model, result, "first").max().item<double>(), 2) << between;
    Module module = torchscript::emit(result.of.model);
    const Sample sample = images().front();
    EXPECT_TRUE(at::allclose(model.forward(sample).toTensor(), module.forward(sample).toTensor(), 1e-4, 1e-5))
        << between;
  }
}

TEST(EqualizeAcrossLayers, ABatchNormAfterAReLUTakesBackWhatItReads) {
  Module model =
      with_between("  y = torch.constant_pad_nd(self.bn.forward(torch.relu(y)), [1, 1, 1, 1], 0)\n");
  const Prepared prepared = calibrated(model);
  Equalized result = equalized(prepared);
  EXPECT_EQ(reported(result, "bn"), "equalized with 'first'");
  EXPECT_GT(factors(model, result, "first").max().item<double>(), 2);
  Module module = torchscript::emit(result.of.model);
  const Sample sample = images().front();
  EXPECT_TRUE(at::allclose(model.forward(sample).toTensor(), module.forward(sample).toTensor(), 1e-4, 1e-4));
}

TEST(EqualizeAcrossLayers, ADepthwiseLayerTakesBackWhatItsProducerIsMultipliedBy) {
  const Module model = separable(kReLU);
  Equalized result = equalized(calibrated(model));
  const at::Tensor first = factors(model, result, "first");
  // Each channel is read by one output of the depthwise layer, whose own output is multiplied in turn.
  const at::Tensor product = first * factors(model, result, "depthwise");
  EXPECT_TRUE((first >= 1).all().item<bool>());
  EXPECT_TRUE((product >= 1 - 1e-5).all().item<bool>());
  EXPECT_GT(first.max().item<double>(), 4) << "a narrow channel";
  EXPECT_NEAR(first[kChannels - 1].item<double>(), 1, 0.5) << "the widest channel";
  EXPECT_EQ(reported(result, "depthwise"), "equalized with 'first'");
  EXPECT_TRUE(at::equal(model.attr("first").toModule().attr("weight").toTensor(),
                        separable(kReLU).attr("first").toModule().attr("weight").toTensor()))
      << "the user's model was changed";
}

TEST(EqualizeAcrossLayers, RoundingTheActivationsCostsLess) {
  Module model = separable(kReLU);
  const Prepared prepared = calibrated(model);
  const auto error = [&](testing::CalibratedModel calibrated) {
    testing::make_reference(calibrated);
    Module module = torchscript::emit(calibrated.model);
    double sum = 0;
    for (const Sample& sample : images())
      sum += (module.forward(sample).toTensor() - model.forward(sample).toTensor())
                 .square()
                 .sum()
                 .item<double>();
    return sum;
  };
  EXPECT_LT(error(equalized(prepared).of), 0.9 * error(with_channel_statistics(prepared)));
}

TEST(EqualizeAcrossLayers, WhatOthersReadOrAnotherOperatorChangesIsLeftAlone) {
  const std::string reads_twice =
      "  y = torch.relu(self.first.forward(x))\n  return "
      "self.last.forward(torch.relu(self.depthwise.forward(y))) + "
      "y.mean()\n";
  const std::string sigmoid =
      "  y = torch.sigmoid(self.first.forward(x))\n  return "
      "self.last.forward(torch.relu(self.depthwise.forward(y)))\n";
  const std::string upper_end =
      "  y = torch.hardtanh(self.first.forward(x), 0, 6)\n  return "
      "self.last.forward(torch.relu(self.depthwise.forward(y)))\n";
  for (const std::string& forward : {reads_twice, sigmoid, upper_end}) {
    const Module model = separable(forward);
    Equalized result = equalized(calibrated(model));
    EXPECT_FALSE(reported(result, "depthwise").starts_with("equalized with")) << forward;
    EXPECT_TRUE((factors(model, result, "first") == 1).all().item<bool>()) << forward;
  }
}

/// Convolutions `a`, `b` (3 → 8, channels from 0.05 to 5, and from 5 to 0.05) and those that read 8, 16, 4,
/// 32 and 2 channels: `of8` …; a linear layer for 72 numbers, `rows`.
Module branches(const std::string& body) {
  Module model = testing::user_module("Branches");
  const Module widths = separable(kReLU);
  model.register_module("a", widths.attr("first").toModule());
  Module b = separable(kReLU).attr("first").toModule();
  b.setattr("weight", b.attr("weight").toTensor().flip(0));
  b.setattr("bias", b.attr("bias").toTensor().flip(0));
  model.register_module("b", b);
  for (const int64_t channels : {2, 4, 8, 16, 32})
    model.register_module("of" + std::to_string(channels), testing::conv2d(channels, 4, 1));
  model.register_module("rows", testing::linear(kChannels * 9, 4));
  model.define("def forward(self, x):\n  a = torch.relu(self.a.forward(x))\n" + body);
  return model;
}

struct Between {
  std::string body;
  std::string reader;
  std::string reported;
};

void expect_equalized(const Between& between) {
  Module model = branches(between.body);
  Equalized result = equalized(calibrated(model));
  EXPECT_EQ(reported(result, between.reader), between.reported) << between.body;
  EXPECT_GT(factors(model, result, "a").max().item<double>(), 2) << between.body;
  expect_same_in_float(model, result, 1e-4, between.body);
}

TEST(EqualizeAcrossLayers, ReachesAcrossWhatMovesValues) {
  const std::string cat_b = "  b = torch.relu(self.b.forward(x))\n  y = torch.cat([a, b], 1)\n";
  for (const Between& between : std::vector<Between>{
           {cat_b + "  return self.of16.forward(y)\n", "of16", "equalized with 'a', 'b'"},
           {cat_b + "  u, v = torch.chunk(y, 2, 1)\n  return self.of8.forward(v) + "
                    "self.of16.forward(torch.cat([v, u], 1))\n",
            "of16", "equalized with 'b', 'a'"},
           {"  y = torch.split(a, [2, 6], 1)\n  return self.of8.forward(torch.cat([y[1], y[0]], 1))\n", "of8",
            "equalized with 'a'"},
           {"  return self.of4.forward(a[:, 1:8:2])\n", "of4", "equalized with 'a'"},
           {"  return self.of4.forward(torch.narrow(a, 1, 2, 4))\n", "of4", "equalized with 'a'"},
           {"  return self.of8.forward(torch.channel_shuffle(a, 4))\n", "of8", "equalized with 'a'"},
           {"  return self.of32.forward(torch.pixel_unshuffle(a[:, :, :8, :8], 2))\n", "of32",
            "equalized with 'a'"},
           {"  return self.of2.forward(torch.pixel_shuffle(a, 2))\n", "of2", "equalized with 'a'"},
           {"  return self.of16.forward(a.repeat([1, 2, 1, 1]))\n", "of16", "equalized with 'a'"},
           {"  n, c, h, w = a.size()\n  y = a.view([n, 4, 2, h, w]).transpose(1, 2).contiguous()\n  return "
            "self.of8.forward(y.view([n, c, h, w]))\n",
            "of8", "equalized with 'a'"},
           {"  y = a.reshape([a.size(0), 2, -1, a.size(2), a.size(3)]).permute([0, 2, 1, 3, 4])\n  return "
            "self.of8.forward(torch.reshape(y, [-1, 8, a.size(2), a.size(3)]))\n",
            "of8", "equalized with 'a'"},
           {"  n, c, h, w = a.size()\n  y = a.view([n, 4, c // 4, h, w]).transpose(1, 2).contiguous()\n  "
            "return "
            "self.of8.forward(y.view([n, c, h, w]))\n",
            "of8", "equalized with 'a'"},
           {"  n, c, h, w = a.size()\n  y = a.view([n, c, h * w, 1])\n  return "
            "self.of8.forward(y.reshape([n, c, h, w]))\n",
            "of8", "equalized with 'a'"},
           {"  return self.of8.forward(torch.flip(torch.roll(a, [1], [2]), [3]))\n", "of8",
            "equalized with 'a'"},
           {"  y = torch.stack([a, a + a], 2)\n  return self.of8.forward(y[:, :, 1])\n", "of8",
            "equalized with 'a'"},
           {"  y = torch.unbind(torch.unsqueeze(a, 2), 2)\n  return self.of8.forward(y[0])\n", "of8",
            "equalized with 'a'"},
           {"  return self.of8.forward(torch.repeat_interleave(a, 2, 3))\n", "of8", "equalized with 'a'"},
           {"  return self.of8.forward(a.expand([2, 8, 9, 9]))\n", "of8", "equalized with 'a'"},
           {"  return self.of8.forward(a.transpose(1, 2).transpose(1, 2))\n", "of8", "equalized with 'a'"},
           {"  return self.of8.forward(torch.avg_pool2d(a, [2, 2]))\n", "of8", "equalized with 'a'"},
           {"  return self.of8.forward(torch.mean(a, [2, 3], True))\n", "of8", "equalized with 'a'"},
           {"  return self.of8.forward(a * torch.sigmoid(torch.mean(x, [1, 2, 3], True)))\n", "of8",
            "equalized with 'a'"},
           {"  return self.rows.forward(torch.flatten(torch.avg_pool2d(a, [3, 3]), 1))\n", "rows",
            "equalized with 'a'"},
           {"  y = torch.avg_pool2d(a, [3, 3])\n  return self.rows.forward(y.view([y.size(0), -1]))\n",
            "rows", "equalized with 'a'"},
       })
    expect_equalized(between);
}

/// with_between("  y = torch.neg(y)"), in which a function of torch.nn.functional takes the place of neg.
Module with_function(const std::string& name, const std::string& body) {
  static const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  Module model = with_between("  y = torch.neg(torch.relu(y))\n");
  auto& forward = torch::jit::toGraphFunction(model.get_method("forward").function());
  // TorchScript tells functions of one name apart so.
  torch::jit::Function* function =
      unit->define(c10::QualifiedName("__torch__.torch.nn.functional.___torch_mangle_2"),
                   "def " + name + "(input):\n  return " + body + "\n", torch::jit::nativeResolver(), nullptr)
          .front();
  for (torch::jit::Node* node : forward.graph()->nodes()) {
    if (node->kind() != c10::aten::neg) continue;
    const torch::jit::WithInsertPoint at(node);
    torch::jit::Node* constant = forward.graph()->insertNode(forward.graph()->create(c10::prim::Constant));
    constant->s_(c10::attr::name, name)->i_(c10::Symbol::attr("fallback"), 0);
    constant->output()->setType(c10::FunctionType::create(function));
    torch::jit::Node* call =
        forward.graph()->create(c10::prim::CallFunction, {constant->output(), node->input()});
    forward.graph()->insertNode(call);
    node->output()->replaceAllUsesWith(call->output());
    node->destroy();
    break;
  }
  return model;
}

TEST(EqualizeAcrossLayers, ReachesAcrossFunctionsAsScriptingCallsThem) {
  for (const auto& [name, body] : std::vector<std::pair<std::string, std::string>>{
           {"max_pool2d", "torch.max_pool2d(input, [2, 2])"},
           {"adaptive_avg_pool2d", "torch.adaptive_avg_pool2d(input, [3, 3])"},
           {"interpolate", "torch.upsample_nearest2d(input, [18, 18])"},
       }) {
    Module model = with_function(name, body);
    Equalized result = equalized(calibrated(model));
    EXPECT_EQ(reported(result, "last"), "equalized with 'first'") << name;
    EXPECT_GT(factors(model, result, "first").max().item<double>(), 2) << name;
  }
}

TEST(EqualizeAcrossLayers, ReachesAcrossOperatorsOfTracedFiles) {
  for (const std::string between : {"  y = torch.upsample_nearest2d(torch.relu(y), [18, 18])\n",
                                    "  y = torch.reflection_pad2d(torch.relu(y), [1, 1, 1, 1])\n"}) {
    Module model = with_between(between);
    for (torch::jit::Node* node : model.get_method("forward").graph()->nodes()) node->setSourceRange({});
    Equalized result = equalized(calibrated(model));
    EXPECT_EQ(reported(result, "last"), "equalized with 'first'") << between;
  }
}

/// A layer that adds what it reads, which onednn fuses; `between` makes of the sum, z, what `last` reads.
Module residual(const std::string& between) {
  Module model = testing::user_module("Residual");
  const Module widths = separable(kReLU);
  model.register_module("first", widths.attr("first").toModule());
  model.register_module("inner", testing::conv2d(kChannels, kChannels, 1));
  model.register_module("last", widths.attr("last").toModule());
  model.eval();
  model.define(
      "def forward(self, x):\n  y = torch.relu(self.first.forward(x))\n"
      "  z = torch.relu(self.inner.forward(y) + y)\n" +
      between + "  return self.last.forward(z)\n");
  return model;
}

Prepared calibrated_on_onednn(const Module& model) {
  Prepared prepared = prepare(model, best_qconfig_mapping("onednn"), backend_config("onednn"),
                              {.recipe = Recipe::Best, .weight_rounding = WeightRounding::Nearest});
  calibrate(prepared, images());
  return prepared;
}

TEST(EqualizeAcrossLayers, ALayerThatAddsHasTheFactorsOfWhatItAdds) {
  Module model = residual("");
  Equalized result = equalized(calibrated_on_onednn(model));
  EXPECT_EQ(testing::call_of_layer(result.of.model, "inner").type.name,
            "torch.ao.nn.intrinsic.ConvAddReLU2d");
  EXPECT_EQ(reported(result, "last"), "equalized with 'first', 'inner'");
  EXPECT_GT(factors(model, result, "first").max().item<double>(), 2);
  expect_same_in_float(model, result, 1e-4, "residual");
}

TEST(EqualizeFloatValues, ALayerThatAddsIsNotMultipliedWithoutItsAddend) {
  Module model = residual("  z = torch.group_norm(z, 4)\n");
  Module rounded = convert_to_reference(calibrated_on_onednn(model), backend_config("onednn")).module();
  for (const Sample& sample : images()) {
    const at::Tensor wanted = model.forward(sample).toTensor();
    EXPECT_LT((rounded.forward(sample).toTensor() - wanted).norm().item<double>(),
              0.1 * wanted.norm().item<double>());
  }
}

TEST(EqualizeAcrossLayers, OperandsOfASumHaveOneFactor) {
  const std::string body =
      "  b = torch.relu(self.b.forward(x))\n  return self.of8.forward(torch.relu(0.01 * a + torch.flip(b, "
      "[1])))\n";
  const std::string sum =
      "  b = torch.relu(self.b.forward(torch.flip(x, [0])))\n  b = torch.cat([b[:, 7:8], b[:, 6:7], b[:, "
      "5:6], b[:, 4:5], "
      "b[:, 3:4], b[:, 2:3], b[:, 1:2], b[:, 0:1]], 1)\n  return self.of8.forward(torch.relu(a + b))\n";
  expect_equalized({sum, "of8", "equalized with 'a', 'b'"});
  const Module model = branches(sum);
  Equalized result = equalized(calibrated(model));
  EXPECT_TRUE(at::allclose(factors(model, result, "a"), factors(model, result, "b").flip(0), 1e-4));
  Equalized flipped = equalized(calibrated(branches(body)));
  EXPECT_TRUE((factors(branches(body), flipped, "a") == 1).all().item<bool>()) << "no rule for flip";
}

TEST(EqualizeAcrossLayers, WhatIsAddedToOtherValuesOrReturnedIsLeftAlone) {
  for (const std::string body :
       {"  return self.of8.forward(a + torch.mean(x, [1, 2, 3], True))\n",
        "  return self.of8.forward(a + 1)\n", "  y = self.of8.forward(a)\n  return y + a[:, 0:4]\n",
        "  b = torch.split(a, [6, 3], 2)\n  return self.of8.forward(b[0].reshape([-1, b[0].size(1), "
        "b[1].size(2), b[1].size(3)]))\n",
        "  y = torch.cat([a, a], 1)\n  return self.of16.forward(y) + torch.softmax(y[:, 8:12], 1)\n"}) {
    const Module model = branches(body);
    Equalized result = equalized(calibrated(model));
    // The last body leaves half of the copies free: all are one channel.
    EXPECT_TRUE((factors(model, result, "a").slice(0, 0, 4) == 1).all().item<bool>()) << body;
  }
}

TEST(EqualizeAcrossLayers, FactorsAreAsLargeAsTheRangeHasRoomFor) {
  Module model = separable(kReLU);
  {
    const c10::NoGradGuard no_grad;
    Module first = model.attr("first").toModule();
    const at::Tensor wide = at::ones({kChannels, 1, 1, 1});
    wide[kChannels - 1] = 300;
    first.attr("weight")
        .toTensor()
        .div_(torch::logspace(-1.3, 0.7, kChannels).reshape(wide.sizes()))
        .mul_(wide);
    first.attr("bias").toTensor().zero_();
    model.attr("depthwise").toModule().attr("weight").toTensor()[kChannels - 1].div_(300);
  }
  Equalized result = equalized(calibrated(model));
  EXPECT_GT(factors(model, result, "first").slice(0, 0, kChannels - 1).min().item<double>(), 50);
}

TEST(EqualizeAcrossLayers, AChannelThatHardlyShowedIsGivenNoLargeFactor) {
  Module model = separable(kReLU);
  {
    const c10::NoGradGuard no_grad;
    model.attr("first").toModule().attr("weight").toTensor()[3].mul_(1e-7);
    model.attr("first").toModule().attr("bias").toTensor()[3] = 1e-7;
  }
  Equalized result = equalized(calibrated(model));
  EXPECT_LT(factors(model, result, "first")[3].item<double>(), 2);
}

TEST(EqualizeAcrossLayers, IsAPassOfRecipeBestWithAMargin) {
  const Module model = separable(kReLU);
  const auto total = [&](std::optional<double> margin) {
    Prepared prepared = prepare(model, best_qconfig_mapping("qnnpack"), backend_config("qnnpack"),
                                {.recipe = Recipe::Best, .cross_layer_margin = margin});
    calibrate(prepared, images());
    const Reference reference = convert_to_reference(prepared, backend_config("qnnpack"));
    return testing::layer(detail::stage_of(reference).model, "first").weight.abs().sum().item<double>();
  };
  const double usual = total(std::nullopt);
  EXPECT_GT(usual, total(12.0)) << "less room";
  EXPECT_GT(total(12.0), total(1e9)) << "no room at all";
  EXPECT_THROW(total(0.5), Error);
}

TEST(EqualizeAcrossLayers, AChannelThatWasAlwaysZeroIsLeftAlone) {
  Module model = separable(kReLU);
  {
    const c10::NoGradGuard no_grad;
    model.attr("first").toModule().attr("bias").toTensor()[2] = -100;
  }
  Equalized result = equalized(calibrated(model));
  const at::Tensor first = factors(model, result, "first");
  EXPECT_EQ(first[2].item<double>(), 1);
  EXPECT_GT(first.max().item<double>(), 2);
}

TEST(EqualizeAcrossLayers, ALayerNormThatIsSmoothedIsNoChain) {
  torch::manual_seed(13);
  Module model = testing::user_module("Smoothed");
  model.register_module("ln", testing::layer_norm(9));
  model.register_module("first", testing::linear(9, 8));
  model.register_module("second", testing::linear(8, 4));
  model.define(
      "def forward(self, x):\n  return "
      "self.second.forward(torch.relu(self.first.forward(self.ln.forward(x))))\n");
  Equalized result = equalized(calibrated(model));
  EXPECT_EQ(reported(result, "first"), "smoothed");
  EXPECT_NE(reported(result, "second").find("'first'"), std::string::npos);
}

TEST(EqualizeAcrossLayers, RowsThatShareAScaleAreLeftAlone) {
  const Module model = separable(kReLU);
  QConfigMapping mapping;
  mapping.set_global(QConfig{{.observer = "MSEObserver"},
                             {.observer = "MinMaxObserver",
                              .dtype = c10::ScalarType::QInt8,
                              .qscheme = c10::QScheme::PER_TENSOR_SYMMETRIC}});
  Equalized result = equalized(calibrated(model, mapping));
  EXPECT_FALSE(result.has_changed);
  EXPECT_TRUE((factors(model, result, "first") == 1).all().item<bool>());
}

TEST(EqualizeAcrossLayers, RecipeFxMultipliesNothing) {
  testing::CalibratedModel calibrated_model = with_channel_statistics(calibrated(separable(kReLU)));
  calibrated_model.context.options.recipe = Recipe::Fx;
  EXPECT_FALSE(passes::equalize_across_layers(calibrated_model.model, calibrated_model.context));
}

}  // namespace equalize_across_layers_test
}  // namespace tsq
