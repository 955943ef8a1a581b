// What the documents say of fusers, getters, root and reference modules, on models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>
#include <tsq/reference_module.h>
#include <tsq/train.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/expect_error.h"
#include "specification/quotations.h"
#include "support/lowered.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace models_test {

using c10::ScalarType;
using ::testing::Contains;
using ::testing::HasSubstr;
using torch::jit::Module;

const DTypeConfig kWeighted{.input_dtype = {.dtype = ScalarType::QUInt8},
                            .output_dtype = {.dtype = ScalarType::QUInt8},
                            .weight_dtype = {.dtype = ScalarType::QInt8},
                            .bias_dtype = ScalarType::Float};

at::Tensor run(Module module, const at::Tensor& input) {
  const at::NoGradGuard no_grad;
  return module.forward({input}).toTensor();
}

Module module_named(const std::string& name) {
  return Module("__torch__." + name, std::make_shared<torch::jit::CompilationUnit>());
}

/// fc → relu, and what was read is added once more.
Module linear_model(const std::string& forward) {
  torch::manual_seed(1);
  Module model = testing::user_module("Linears");
  model.register_module("fc", testing::linear(8, 8));
  model.register_module("relu", testing::relu());
  model.define("def forward(self, x):\n  return " + forward + "\n");
  return model;
}

/// Of calibration and of tests: no value lies outside of the range of others.
at::Tensor rows() { return torch::rand({16, 8}) * 2 - 1; }

struct Result {
  Prepared prepared;
  Module reference;
  Module lowered;
  Report report;
};

Result quantized(const Module& model, const BackendConfig& backend, const PrepareCustomConfig& custom = {}) {
  Prepared prepared =
      prepare(model, default_qconfig_mapping("x86"), backend, {.custom = custom, .recipe = Recipe::Fx});
  const std::vector<Sample> samples{{rows()}, {rows()}};
  calibrate(prepared, samples);
  const Reference reference = convert_to_reference(prepared, backend);
  Report report;
  Module lowered = testing::lowered(reference, backend, &report);
  return {prepared, reference.module(), std::move(lowered), std::move(report)};
}

const Decision& decision_of(const Report& report, std::string_view op) {
  const auto found =
      std::ranges::find_if(report.decisions, [&](const Decision& each) { return each.op == op; });
  if (found == report.decisions.end()) throw std::runtime_error("no decision for " + std::string(op));
  return *found;
}

/// What seven bits keep, and more than a wrong scale or a forgotten bias would.
constexpr double kRounded = 25;

double sqnr(const at::Tensor& wanted, const at::Tensor& got) {
  return 20 * std::log10(wanted.norm().item<double>() / (wanted - got).norm().item<double>());
}

/// A fused module of the user's: a linear layer, clamped at zero.
Module fuse_linear_relu(bool /*is_qat*/, const std::vector<Module>& matched) {
  EXPECT_EQ(matched.size(), 2u);
  Module fused = module_named("mine.LinearReLU");
  fused.register_parameter("weight", matched.at(0).attr("weight").toTensor(), false);
  fused.register_parameter("bias", matched.at(0).attr("bias").toTensor(), false);
  fused.define("def forward(self, x):\n  return torch.relu(torch.linear(x, self.weight, self.bias))\n");
  return fused;
}

BackendConfig table_with_own_fusion(const FuserFunction& fuser = fuse_linear_relu) {
  BackendConfig backend("x86");
  backend
      .set_backend_pattern_config(
          BackendPatternConfig{chain({symbol("torch.nn.Linear"), symbol("torch.nn.ReLU")})}
              .set_fused_module(symbol("mine.LinearReLU"))
              .set_fuser_method(fuser))
      .set_backend_pattern_config(
          BackendPatternConfig{symbol("mine.LinearReLU")}.add_dtype_config(kWeighted));
  return backend;
}

TEST(SpecModels, TheUsersFuserMakesTheFusedModule) {
  TSQ_SAYS(
      "BackendPatternConfig",
      "The first argument of this function should be is_qat, and the rest of the arguments should be the "
      "items in the tuple pattern. The return value of this function should be the resulting fused "
      "module.");
  const Module model = linear_model("self.relu.forward(self.fc.forward(x))");
  const Result result = quantized(model, table_with_own_fusion());
  ASSERT_EQ(result.report.decisions.size(), 1u);
  EXPECT_EQ(result.report.decisions.front().op, "mine.LinearReLU");
  EXPECT_EQ(result.report.decisions.front().layer, "fc");
  const at::Tensor input = rows();
  EXPECT_GT(sqnr(run(model, input), run(result.lowered, input)), kRounded);
  // Without a reference module it stays float between quantized values, as in FX.
  EXPECT_LT(sqnr(run(model, input), run(result.lowered, input)), 100);
}

TEST(SpecModels, TheUsersFuserKnowsWhetherTheModelTrains) {
  std::vector<bool> calls;
  const BackendConfig backend = table_with_own_fusion([&](bool is_qat, const std::vector<Module>& matched) {
    calls.push_back(is_qat);
    return fuse_linear_relu(is_qat, matched);
  });
  const Module model = linear_model("self.relu.forward(self.fc.forward(x))");
  for (const at::Tensor& parameter : model.parameters()) parameter.set_requires_grad(true);
  quantized(model, backend);
  const Prepared prepared =
      prepare_qat(model, default_qat_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  EXPECT_EQ(calls, (std::vector<bool>{false, true}));

  Module trained = prepared.module();
  trained.train();
  const at::Tensor input = rows();
  trained.forward({input}).toTensor().sum().backward();
  for (const at::Tensor& parameter : parameters_to_train(trained)) {
    EXPECT_TRUE(parameter.grad().defined());
    const at::NoGradGuard no_grad;
    parameter.mul_(2);
  }
  trained.forward({input});
  trained.eval();
  const at::Tensor wanted = run(model, input) * 2;
  EXPECT_GT(sqnr(wanted, run(convert(prepared, backend).module(), input)), kRounded);

  const testing::TemporaryFolder folder;
  const std::string file = folder.file("trained.pt");
  prepared.save(file);
  const Module from_file = convert(Prepared::load(file), backend).module();
  EXPECT_TRUE(at::equal(run(from_file, input), run(convert(prepared, backend).module(), input)));
}

TEST(SpecModels, ExtraInputsOfTheUsersGetterAreAppended) {
  TSQ_SAYS("README",
           "extra_inputs_getter, which returns a list of extra input arguments that will be appended to the "
           "existing arguments of the fused module (copied over from the root node)");
  const auto fuser = [](bool, const std::vector<Module>& matched) {
    Module fused = module_named("mine.LinearAdd");
    fused.register_parameter("weight", matched.at(0).attr("weight").toTensor(), false);
    fused.register_parameter("bias", matched.at(0).attr("bias").toTensor(), false);
    fused.define("def forward(self, x, other):\n  return torch.linear(x, self.weight, self.bias) + other\n");
    return fused;
  };
  const Pattern pattern = symbol("torch.add")(match_all, symbol("torch.nn.Linear"));
  BackendConfig backend("x86");
  backend
      .set_backend_pattern_config(
          BackendPatternConfig{}
              .set_pattern_complex_format(pattern)
              .set_fused_module(symbol("mine.LinearAdd"))
              .set_fuser_method(fuser)
              .set_root_node_getter([](const Pattern& whole) -> const Pattern& { return whole.args.back(); })
              .set_extra_inputs_getter(
                  [](const Pattern& whole) { return std::vector<const Pattern*>{&whole.args.front()}; }))
      .set_backend_pattern_config(BackendPatternConfig{symbol("mine.LinearAdd")}.add_dtype_config(kWeighted));
  const Module model = linear_model("torch.add(torch.neg(x), self.fc.forward(x))");
  const Result result = quantized(model, backend);
  const at::Tensor input = rows();
  EXPECT_EQ(decision_of(result.report, "mine.LinearAdd").layer, "fc");
  EXPECT_GT(sqnr(run(model, input), run(result.lowered, input)), kRounded);
}

TEST(SpecModels, AGetterThatLeavesThePatternIsRefused) {
  static const Pattern kElsewhere = symbol("torch.nn.Linear");
  BackendConfig backend = table_with_own_fusion();
  BackendPatternConfig row = backend.configs().front();
  row.set_root_node_getter([](const Pattern&) -> const Pattern& { return kElsewhere; });
  backend.set_backend_pattern_config(row);
  expect_error_with("returns no part of the pattern", [&] {
    prepare(linear_model("self.relu.forward(self.fc.forward(x))"), default_qconfig_mapping("x86"), backend,
            {.recipe = Recipe::Fx});
  });
}

TEST(SpecModels, AFuserThatFailsIsNamedWithLayerAndRow) {
  const auto expect = [](const std::string& sentence, FuserFunction fuser) {
    register_fuser("mine.faulty", std::move(fuser));
    BackendConfig backend = table_with_own_fusion();
    BackendPatternConfig row = backend.configs().front();
    backend.set_backend_pattern_config(row.set_fuser_method("mine.faulty"));
    const std::string begin =
        "fuse: layer 'fc' (torch.nn.Linear): the fuser 'mine.faulty' of the row "
        "'torch.nn.ReLU(torch.nn.Linear)' ";
    expect_error_with(begin + sentence, [&] {
      prepare(linear_model("self.relu.forward(self.fc.forward(x))"), default_qconfig_mapping("x86"), backend,
              {.recipe = Recipe::Fx});
    });
  };
  const auto module_with = [](const std::string& name, const std::string& forward) {
    Module module = module_named(name);
    module.define(forward);
    return module;
  };
  expect("failed: it asks for an element that is not there",
         [](bool, const std::vector<Module>& matched) { return matched.at(7); });
  expect("failed: no bias here",
         [](bool, const std::vector<Module>&) -> Module { throw std::runtime_error("no bias here"); });
  expect("failed: it calls LibTorch with what that does not take",
         [](bool, const std::vector<Module>& matched) {
           TORCH_INTERNAL_ASSERT(matched.empty());
           return matched.front();
         });
  expect("returns a 'mine.Other', and the row says fused_module 'mine.LinearReLU'",
         [&](bool, const std::vector<Module>&) {
           return module_with("mine.Other", "def forward(self, x):\n  return x\n");
         });
  expect("returns a module whose forward takes 2 arguments, and it is called with 1",
         [&](bool, const std::vector<Module>&) {
           return module_with("mine.LinearReLU", "def forward(self, x, y):\n  return x + y\n");
         });
  expect("returns a module without forward",
         [](bool, const std::vector<Module>&) { return module_named("mine.LinearReLU"); });
}

BackendConfig table_with_own_reference() {
  return BackendConfig("x86").set_backend_pattern_config(
      BackendPatternConfig{symbol("torch.nn.Linear")}
          .add_dtype_config(kWeighted)
          .set_root_module(symbol("torch.nn.Linear"))
          .set_reference_quantized_module(symbol("mine.ReferenceLinear")));
}

/// Rounds its weight row by row when it runs; tsq fills it.
Module reference_linear(const Module&, const QParams& weight) {
  EXPECT_EQ(weight.dtype, ScalarType::QInt8);
  Module module = module_named("mine.ReferenceLinear");
  module.register_parameter("weight", at::Tensor(torch::empty({0})), false);
  module.register_parameter("bias", at::Tensor(torch::empty({0})), false);
  module.register_attribute("weight_scale", c10::TensorType::get(), at::Tensor(torch::empty({0})));
  module.register_attribute("weight_zero_point", c10::TensorType::get(), at::Tensor(torch::empty({0})));
  module.register_attribute("weight_axis", c10::IntType::get(), int64_t{-1});
  module.register_attribute("weight_dtype", c10::IntType::get(), int64_t{-1});
  module.define(R"(
def forward(self, x):
    rounded = torch.quantize_per_channel(self.weight, self.weight_scale, self.weight_zero_point, self.weight_axis, self.weight_dtype)
    return torch.linear(x, rounded.dequantize(), self.bias)
)");
  return module;
}

TEST(SpecModels, TheUsersReferenceModuleTakesTheRootsPlace) {
  TSQ_SAYS(
      "README",
      "This allows custom backends to specify custom reference quantized module implementations to match "
      "the numerics of their lowered operators.");
  register_reference_module("mine.ReferenceLinear", reference_linear);
  const Module model = linear_model("self.fc.forward(x)");
  const Result own = quantized(model, table_with_own_reference());
  BackendConfig pytorchs = table_with_own_reference();
  pytorchs.set_backend_pattern_config(
      BackendPatternConfig(pytorchs.configs().front())
          .set_reference_quantized_module(symbol("torch.ao.nn.quantized.reference.Linear")));
  const at::Tensor input = rows();
  torch::manual_seed(5);
  EXPECT_GT(sqnr(run(model, input), run(own.reference, input)), kRounded);
  EXPECT_GT(sqnr(run(model, input), run(own.lowered, input)), kRounded);
}

/// A layer of the user's that has the attributes of a linear layer.
Module own_linear() {
  Module layer = module_named("mine.Linear");
  torch::manual_seed(2);
  layer.register_parameter("weight", torch::randn({8, 8}), false);
  layer.register_parameter("bias", torch::randn({8}), false);
  layer.define("def forward(self, x):\n  return torch.linear(x, self.weight, self.bias)\n");
  Module model = testing::user_module("Owner");
  model.register_module("layer", layer);
  model.define("def forward(self, x):\n  return self.layer.forward(x)\n");
  return model;
}

TEST(SpecModels, AUsersRootClassIsSwappedWhereItIsALeaf) {
  TSQ_SAYS("BackendPatternConfig",
           "the root modules (e.g. torch.nn.Linear for torch.ao.nn.intrinsic.LinearReLU) will be swapped to "
           "the corresponding reference quantized modules");
  register_reference_module("mine.ReferenceLinear", reference_linear);
  const Symbol own = symbol("mine.Linear");
  const BackendConfig backend = BackendConfig("x86").set_backend_pattern_config(
      BackendPatternConfig{own}
          .add_dtype_config(kWeighted)
          .set_root_module(own)
          .set_reference_quantized_module(symbol("mine.ReferenceLinear")));
  const Module model = own_linear();

  const Result as_leaf =
      quantized(model, backend, PrepareCustomConfig().set_non_traceable_module_classes({own}));
  const at::Tensor input = rows();
  const double ratio = sqnr(run(model, input), run(as_leaf.reference, input));
  EXPECT_GT(ratio, kRounded);
  EXPECT_LT(ratio, 100);
  EXPECT_TRUE(torch::equal(run(quantized(model, backend).lowered, input), run(model, input)))
      << "traced through, as in FX";
}

TEST(SpecModels, WhatAnOwnReferenceModuleLacksIsSaid) {
  register_reference_module("mine.ReferenceLinear", reference_linear);
  const Decision unlowered =
      quantized(linear_model("self.fc.forward(x)"), table_with_own_reference()).report.decisions.front();
  EXPECT_NE(unlowered.reason.find("no lowering row takes its reference module mine.ReferenceLinear"),
            std::string::npos)
      << unlowered.reason;
  const Symbol own = symbol("mine.Linear");
  const BackendConfig without_row = BackendConfig("x86").set_backend_pattern_config(
      BackendPatternConfig{chain({own, symbol("torch.nn.ReLU")})}
          .add_dtype_config(kWeighted)
          .set_root_module(own)
          .set_reference_quantized_module(symbol("mine.ReferenceLinear")));
  const Decision unmatched =
      quantized(own_linear(), without_row, PrepareCustomConfig().set_non_traceable_module_classes({own}))
          .report.decisions.front();
  EXPECT_EQ(unmatched.reason, "the table has a reference module for it, and no row whose pattern is it");
  EXPECT_EQ(unmatched.remedy, "add a row with the pattern 'mine.Linear' and its dtype_configs");
}

TEST(SpecModels, AReferenceFunctionThatFailsIsNamedWithItsLayer) {
  const auto expect = [](const std::string& sentence, ReferenceFunction function) {
    register_reference_module("mine.ReferenceLinear", std::move(function));
    expect_error_with("layer 'fc' (torch.nn.Linear): " + sentence,
                      [&] { quantized(linear_model("self.fc.forward(x)"), table_with_own_reference()); });
  };
  expect("the function of the reference module 'mine.ReferenceLinear' failed: not today",
         [](const Module&, const QParams&) -> Module { throw std::runtime_error("not today"); });
  expect("the reference module 'mine.ReferenceLinear' is a module whose forward takes 0 arguments",
         [](const Module&, const QParams&) {
           Module module = module_named("mine.ReferenceLinear");
           module.define("def forward(self):\n  return 1\n");
           return module;
         });
}

BackendConfig swapped_by_pytorchs(const std::string& reference) {
  const Symbol own = symbol("mine.Linear");
  return BackendConfig("x86").set_backend_pattern_config(
      BackendPatternConfig{own}
          .add_dtype_config(kWeighted)
          .set_root_module(own)
          .set_reference_quantized_module(symbol("torch.ao.nn.quantized.reference." + reference)));
}

TEST(SpecModels, PyTorchsReferenceModulesReadOtherClassesByTheirAttributes) {
  const auto custom = PrepareCustomConfig().set_non_traceable_module_classes({symbol("mine.Linear")});
  const Module model = own_linear();
  const Result result = quantized(model, swapped_by_pytorchs("Linear"), custom);
  const at::Tensor input = rows();
  EXPECT_GT(sqnr(run(model, input), run(result.reference, input)), kRounded);
  EXPECT_EQ(result.report.decisions.front().kernel, "quantized::linear");
  expect_error_with(
      "layer 'layer' (mine.Linear): 'torch.ao.nn.quantized.reference.Conv2d' cannot stand for it",
      [&] { quantized(model, swapped_by_pytorchs("Conv2d"), custom); });
  // A row that never matches does no harm.
  EXPECT_TRUE(torch::equal(
      run(quantized(linear_model("self.fc.forward(x)"), swapped_by_pytorchs("Conv2d")).lowered, input),
      run(linear_model("self.fc.forward(x)"), input)));
}

constexpr const char* kReferenceSource = R"(class ReferenceLinear(Module):
  weight : Tensor
  bias : Optional[Tensor]
  weight_scale : Tensor
  weight_zero_point : Tensor
  weight_axis : int
  weight_dtype : int
  def forward(self, x: Tensor) -> Tensor:
    rounded = torch.quantize_per_channel(self.weight, self.weight_scale, self.weight_zero_point, self.weight_axis, self.weight_dtype)
    return torch.linear(x, torch.dequantize(rounded), self.bias)
)";

TEST(SpecModels, ATableInJsonDefinesReferenceModulesBySourceAndByFile) {
  register_reference_module("mine.ReferenceLinear", reference_linear);
  const Module model = linear_model("self.fc.forward(x)");
  const at::Tensor input = rows();
  const auto result_with = [&](const nlohmann::json& reference) {
    nlohmann::json dict = table_with_own_reference().to_dict();
    dict["configs"][0]["reference_quantized_module_for_root"] = reference;
    const BackendConfig backend = BackendConfig::from_dict(dict);
    EXPECT_EQ(backend.to_dict(), dict);
    torch::manual_seed(5);
    return run(quantized(model, backend).reference, input);
  };
  const at::Tensor registered = result_with("mine.ReferenceLinear");
  EXPECT_TRUE(torch::equal(result_with({{"source", kReferenceSource}}), registered));
  const testing::TemporaryFolder folder;
  const std::string file = folder.file("reference_linear.pt");
  reference_linear({}, {.dtype = ScalarType::QInt8}).save(file);
  EXPECT_TRUE(torch::equal(result_with({{"file", file}}), registered));
  std::filesystem::remove(file);
  expect_error_with("cannot be loaded", [&] { result_with({{"file", file}}); });
  expect_error_with("give one of the two", [&] { result_with(nlohmann::json::object()); });
  expect_error_with("has no class", [&] { result_with({{"source", "def forward(self, x): return x"}}); });
  expect_error_with("does not compile", [&] {
    result_with({{"source", "class A(Module):\n  def forward(self, x):\n    return y\n"}});
  });
}

TEST(SpecModels, APreparedFileHoldsTheReferenceModuleOfAFile) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.file("reference_linear.pt");
  reference_linear({}, {.dtype = ScalarType::QInt8}).save(file);
  nlohmann::json dict = table_with_own_reference().to_dict();
  dict["configs"][0]["reference_quantized_module_for_root"] = {{"file", file}};
  const BackendConfig backend = BackendConfig::from_dict(dict);
  const Module model = linear_model("self.fc.forward(x)");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  const std::vector<Sample> samples{{rows()}, {rows()}};
  calibrate(prepared, samples);
  const at::Tensor input = rows();
  const at::Tensor wanted = run(convert_to_reference(prepared, backend).module(), input);
  prepared.save(folder.file("prepared.pt"));
  std::filesystem::remove(file);
  const Prepared loaded = Prepared::load(folder.file("prepared.pt"));
  const Reference reference = convert_to_reference(loaded, loaded.backend());
  EXPECT_TRUE(torch::equal(run(reference.module(), input), wanted));
  reference.save(folder.file("reference.pt"));
  EXPECT_TRUE(torch::equal(run(Reference::load(folder.file("reference.pt")).module(), input), wanted));
}

TEST(SpecModels, AReferenceModuleThatNobodyRegisteredIsRefused) {
  BackendConfig backend = table_with_own_reference();
  BackendPatternConfig row = backend.configs().front();
  row.set_reference_quantized_module(symbol("mine.Nobody"));
  backend.set_backend_pattern_config(row);
  const Module model = linear_model("self.fc.forward(x)");
  const auto prepare_it = [&] {
    prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  };
  expect_error_with("names the reference module 'mine.Nobody', which nobody registered", prepare_it);
  row.set_reference_quantized_module(symbol("torch.ao.nn.quantized.reference.Conv2d"));
  backend.set_backend_pattern_config(row);
  expect_error_with("it stands for torch.nn.Conv2d alone", prepare_it);
  expect_error_with("cannot be the name of a reference module", [] {
    register_reference_module("torch.ao.nn.quantized.reference.Linear", reference_linear);
  });
}

TEST(SpecModels, ARootWithoutAReferenceModuleStaysFloatAndIsExplained) {
  TSQ_SAYS("README",
           "both the root module and the reference quantized module must be specified in the same "
           "BackendPatternConfig in order for the conversion to take place");
  const BackendConfig backend = BackendConfig("x86").set_backend_pattern_config(
      BackendPatternConfig{symbol("torch.nn.Linear")}.add_dtype_config(kWeighted).set_root_module(
          symbol("torch.nn.Linear")));
  const Module model = linear_model("self.fc.forward(x)");
  const Result result = quantized(model, backend);
  const Decision& decision = decision_of(result.report, "torch.nn.Linear");
  EXPECT_FALSE(decision.quantized);
  EXPECT_THAT(decision.reason, HasSubstr("no reference module for torch.nn.Linear"));
  EXPECT_THAT(decision.remedy, HasSubstr("reference_quantized_module_for_root"));
}

TEST(SpecModels, AQuantizedFileHoldsNoClassOfTheUsers) {
  Module model = testing::user_module("Normed");
  model.register_module("fc", testing::linear(8, 8));
  model.register_module("norm", testing::layer_norm(8));
  model.define("def forward(self, x):\n  return self.norm.forward(self.fc.forward(x))\n");
  const Result result = quantized(model, BackendConfig("x86"));
  for (const Module& module : result.lowered.modules())
    EXPECT_TRUE(module.type()->name()->qualifiedName().starts_with("__torch__.tsq."))
        << module.type()->name()->qualifiedName();
  const testing::TemporaryFolder folder;
  const std::string file = folder.file("own_classes.pt");
  save(result.lowered, file);
  const at::Tensor input = rows();
  EXPECT_TRUE(torch::equal(run(load(file), input), run(model, input)));
  std::vector<std::string> names;
  for (const auto& parameter : load(file).named_parameters()) names.push_back(parameter.name);
  EXPECT_THAT(names, Contains("norm.weight"));
}

TEST(SpecModels, TransposedConvolutionsKeepScalesOfOutputChannels) {
  Module model = testing::user_module("Upsampling");
  torch::manual_seed(3);
  Module layer = testing::conv_transpose2d(4, 6, 3);
  layer.attr("weight").toTensor().detach().mul_(torch::logspace(-2, 0, 6).reshape({1, 6, 1, 1}));
  model.register_module("up", layer);
  model.define("def forward(self, x):\n  return self.up.forward(x)\n");
  const ObserverSpec by_channel{.observer = "PerChannelMinMaxObserver",
                                .dtype = ScalarType::QInt8,
                                .qscheme = c10::QScheme::PER_CHANNEL_SYMMETRIC,
                                .ch_axis = 1};
  const std::vector<Sample> samples{{torch::randn({2, 4, 8, 8})}, {torch::randn({2, 4, 8, 8})}};
  for (const char* engine : {"x86", "fbgemm", "onednn", "qnnpack"}) {
    QConfig qconfig = default_qconfig(engine);
    qconfig.weight = by_channel;
    const BackendConfig backend = backend_config(engine);
    Prepared prepared = prepare(model, QConfigMapping().set_global(qconfig), backend, {.recipe = Recipe::Fx});
    calibrate(prepared, samples);
    const Reference reference = convert_to_reference(prepared, backend);
    const at::Tensor input = samples.front().front().toTensor();
    const at::Tensor wanted = run(reference.module(), input);
    // The kernel rounds sums where the reference rounds floats: by one step at most.
    EXPECT_GT(sqnr(wanted, run(lower(reference, backend), input)), 45) << engine;
    EXPECT_GT(sqnr(run(model, input), wanted), kRounded) << engine;
  }
}

/// A table whose row of functional linear layers does not say which argument is the weight.
BackendConfig table_without_weights(const std::string& name) {
  BackendConfig backend(name);
  for (const char* op : {"torch.nn.functional.linear", "torch.nn.functional.conv1d"}) {
    backend.set_backend_pattern_config(BackendPatternConfig{symbol(op)}.add_dtype_config(kWeighted));
  }
  return backend;
}

TEST(SpecModels, AWeightThatNoRowNamesStaysInReferenceForm) {
  for (const std::string name : {"x86", "fbgemm", "qnnpack", "onednn"}) {
    SCOPED_TRACE(name);
    torch::manual_seed(1);
    Module model = testing::user_module("Functional");
    model.register_parameter("weight", torch::randn({8, 8}), false);
    model.register_parameter("kernel", torch::randn({4, 1, 3}), false);
    model.define(
        "def forward(self, x):\n"
        "  y = torch.linear(x, self.weight, None)\n"
        "  return torch.conv1d(y.unsqueeze(1), self.kernel)\n");
    const Result result = quantized(model, table_without_weights(name));
    const at::Tensor input = rows();
    EXPECT_GT(sqnr(run(result.reference, input), run(result.lowered, input)), 100);
    for (const char* op : {"aten::linear", "aten::conv1d"}) {
      const Decision& decision = decision_of(result.report, op);
      EXPECT_FALSE(decision.quantized);
      EXPECT_THAT(decision.reason, HasSubstr("no kernel takes a weight of quint8"));
      EXPECT_THAT(decision.remedy, HasSubstr("input_type_to_index"));
    }
  }
}

}  // namespace models_test
}  // namespace tsq
