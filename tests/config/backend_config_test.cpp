#include <gtest/gtest.h>
#include <tsq/backends.h>

#include <nlohmann/json.hpp>

#include "backends/dtypes.h"
#include "backends/symbols.h"
#include "config/expect_error.h"

namespace tsq {
namespace backend_config_test {

using nlohmann::json;

BackendPatternConfig row(Pattern pattern,
                         ObservationType type = ObservationType::OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT) {
  return BackendPatternConfig().set_pattern(std::move(pattern)).set_observation_type(type);
}

BackendConfig read_row(const json& entry) {
  return BackendConfig::from_dict({{"configs", json::array({entry})}});
}

TEST(BackendConfig, IsEmptyAndNamelessAtFirst) {  // A-01
  EXPECT_EQ(BackendConfig().name(), "");
  EXPECT_TRUE(BackendConfig().configs().empty());
  EXPECT_EQ(BackendConfig("mine").name(), "mine");
}

TEST(BackendConfig, SetNameReplacesTheNameAndReturnsItself) {  // A-02
  BackendConfig backend("a");
  EXPECT_EQ(&backend.set_name("b"), &backend);
  EXPECT_EQ(backend.name(), "b");
}

TEST(BackendConfig, NamesItsEngine) {
  EXPECT_EQ(BackendConfig("mine").set_engine("onednn").engine(), "onednn");
  EXPECT_EQ(BackendConfig("x86").set_engine("fbgemm").engine(), "fbgemm");
  EXPECT_EQ(BackendConfig("mine").set_engine("none").engine(), "none");
  expect_error(
      "the table 'mine' names no engine; name the one whose kernels it is for, x86, fbgemm, onednn, qnnpack "
      "or none, "
      "by set_engine, by \"engine\" in its JSON or by --backend",
      [] { (void)BackendConfig("mine").engine(); });
  expect_error("'x87' is not an engine; did you mean 'x86'?",
               [] { BackendConfig("mine").set_engine("x87"); });
}

TEST(BackendConfig, WithoutAnEngineATableHasThatOfPyTorchsTableOfItsName) {
  for (const BackendEntry& entry : backend_entries()) {
    const std::string_view engine = entry.engine.empty() ? "none" : entry.engine;
    EXPECT_EQ(entry.table().engine(), engine) << entry.name;
    EXPECT_EQ(BackendConfig::from_dict(entry.table().to_dict()).engine(), engine) << entry.name;
    EXPECT_FALSE(entry.table().to_dict().contains("engine")) << "PyTorch's tables name none";
    EXPECT_EQ(entry.table().set_name("mine").engine(), engine) << "a new name changes nothing";
  }
}

TEST(BackendConfig, JsonHasTheEngineThatATableNames) {
  const BackendConfig own = BackendConfig::from_dict({{"name", "mine"}, {"engine", "qnnpack"}});
  EXPECT_EQ(own.engine(), "qnnpack");
  EXPECT_EQ(own.to_dict()["engine"], "qnnpack");
  EXPECT_EQ(BackendConfig::from_dict(own.to_dict()), own);
  expect_error("at 'engine': 'x87' is not an engine; did you mean 'x86'?", [] {
    BackendConfig::from_dict({{"name", "mine"}, {"engine", "x87"}});
  });
}

TEST(BackendConfig, KeepsRowsInTheOrderOfInsertion) {  // A-01, A-04
  BackendConfig backend;
  backend.set_backend_pattern_configs({row(nn::Linear), row(nn::Conv2d), row(nn::ReLU)});
  EXPECT_EQ(backend.configs()[0].key(), Pattern(nn::Linear));
  EXPECT_EQ(backend.configs()[2].key(), Pattern(nn::ReLU));
}

TEST(BackendConfig, ReplacesARowOfTheSamePatternInPlace) {  // A-03
  BackendConfig backend;
  backend.set_backend_pattern_configs({row(nn::Linear), row(nn::Conv2d)});
  backend.set_backend_pattern_config(row(nn::Linear, ObservationType::OUTPUT_SHARE_OBSERVER_WITH_INPUT));
  ASSERT_EQ(backend.configs().size(), 2u);
  EXPECT_EQ(backend.configs()[0].key(), Pattern(nn::Linear));
  EXPECT_EQ(backend.configs()[0].observation_type, ObservationType::OUTPUT_SHARE_OBSERVER_WITH_INPUT);
}

TEST(BackendConfig, SimpleAndComplexSpellingsOfOnePatternAreOneRow) {  // A-03, A-12
  BackendConfig backend;
  backend.set_backend_pattern_config(row(chain({nn::Conv2d, nn::ReLU})));
  backend.set_backend_pattern_config(BackendPatternConfig().set_pattern_complex_format(nn::ReLU(nn::Conv2d)));
  ASSERT_EQ(backend.configs().size(), 1u);
  EXPECT_TRUE(backend.configs()[0].pattern_complex_format.has_value());
}

TEST(BackendConfig, LaterDuplicatesInAListWin) {  // A-04
  BackendConfig backend;
  backend.set_backend_pattern_configs(
      {row(nn::Linear), row(nn::Linear, ObservationType::OUTPUT_SHARE_OBSERVER_WITH_INPUT)});
  ASSERT_EQ(backend.configs().size(), 1u);
  EXPECT_EQ(backend.configs()[0].observation_type, ObservationType::OUTPUT_SHARE_OBSERVER_WITH_INPUT);
}

TEST(BackendPatternConfig, HasPyTorchsDefaults) {  // A-08
  const BackendPatternConfig config;
  EXPECT_EQ(config.observation_type, ObservationType::OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT);
  EXPECT_TRUE(config.dtype_configs.empty());
  EXPECT_FALSE(config.root_module || config.qat_module || config.reference_quantized_module ||
               config.fused_module || config.fuser_method);
}

TEST(BackendPatternConfig, EitherPatternExcludesTheOther) {  // A-09, A-10
  const std::string sentence =
      "only one of 'pattern' and 'pattern_complex_format' can be set; leave one of them out";
  expect_error(sentence,
               [] { BackendPatternConfig().set_pattern_complex_format(nn::ReLU).set_pattern(nn::ReLU); });
  expect_error(sentence,
               [] { BackendPatternConfig().set_pattern(nn::ReLU).set_pattern_complex_format(nn::ReLU); });
}

TEST(BackendPatternConfig, APatternOfFourSymbolsFailsWhenItIsAddedToATable) {  // A-11
  const auto four = row(chain({nn::Conv2d, nn::BatchNorm2d, nn::ReLU, nn::Identity}));
  EXPECT_THROW(BackendConfig().set_backend_pattern_config(four), Error);
}

TEST(BackendPatternConfig, NoPatternFailsWhenItIsAddedToATable) {  // A-11
  expect_error("a BackendPatternConfig has neither 'pattern' nor 'pattern_complex_format'; set one of them",
               [] { BackendConfig().set_backend_pattern_config(BackendPatternConfig()); });
}

TEST(BackendPatternConfig, AddDTypeConfigAppendsAndSetReplaces) {  // A-14, A-15
  BackendPatternConfig config;
  config.add_dtype_config(kInt8).add_dtype_config(kWeightedInt8);
  EXPECT_EQ(config.dtype_configs, (DTypes{kInt8, kWeightedInt8}));
  config.set_dtype_configs({kDynamicInt8});
  EXPECT_EQ(config.dtype_configs, (DTypes{kDynamicInt8}));
}

TEST(BackendPatternConfig, ToDictAlwaysHasObservationTypeAndDTypesAndElseOnlyWhatIsSet) {  // A-27
  EXPECT_EQ(BackendPatternConfig().to_dict(),
            (json{{"observation_type", "OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT"},
                  {"dtype_configs", json::array()}}));
}

TEST(BackendPatternConfig, ReadsEveryKeyOfPyTorch) {  // A-26
  const json entry = json::parse(R"({
    "pattern": ["torch.nn.Conv2d", "torch.nn.ReLU"],
    "observation_type": "OUTPUT_SHARE_OBSERVER_WITH_INPUT",
    "dtype_configs": [{"input_dtype": "quint8", "output_dtype": "torch.quint8", "weight_dtype": "qint8",
                       "bias_dtype": "float32", "is_dynamic": false}],
    "root_module": "torch.nn.Conv2d",
    "qat_module": "torch.ao.nn.intrinsic.qat.ConvReLU2d",
    "reference_quantized_module_for_root": "torch.ao.nn.quantized.reference.Conv2d",
    "fused_module": "torch.ao.nn.intrinsic.ConvReLU2d",
    "fuser_method": "torch.ao.quantization.fuser_method_mappings._sequential_wrapper2.<locals>.fuser_method",
    "num_tensor_args_to_observation_type": {"1": "INPUT_OUTPUT_NOT_OBSERVED"},
    "input_type_to_index": {"weight": 1, "bias": 2, "input": 0}})");
  const BackendPatternConfig config = BackendPatternConfig::from_dict(entry);
  EXPECT_EQ(config.pattern, chain({nn::Conv2d, nn::ReLU}));
  EXPECT_EQ(config.observation_type, ObservationType::OUTPUT_SHARE_OBSERVER_WITH_INPUT);
  ASSERT_EQ(config.dtype_configs.size(), 1u);
  EXPECT_EQ(config.dtype_configs[0].bias_dtype, c10::ScalarType::Float);
  EXPECT_EQ(config.dtype_configs[0].is_dynamic, false);
  EXPECT_EQ(config.root_module, nn::Conv2d);
  EXPECT_EQ(config.qat_module, nniqat::ConvReLU2d);
  EXPECT_EQ(config.reference_quantized_module, nnqr::Conv2d);
  EXPECT_EQ(config.fused_module, nni::ConvReLU2d);
  EXPECT_EQ(config.fuser_method, Fuser::Sequential);
  EXPECT_EQ(config.num_tensor_args_to_observation_type.at(1), ObservationType::INPUT_OUTPUT_NOT_OBSERVED);
  EXPECT_EQ(config.input_type_to_index.at("bias"), 2);
  EXPECT_EQ(BackendPatternConfig::from_dict(config.to_dict()), config);
}

TEST(BackendPatternConfig, ReadsTheDocumentsSpellingOfTheReferenceModule) {  // A-26
  const auto config = BackendPatternConfig::from_dict(
      {{"pattern", "torch.nn.Linear"},
       {"reference_quantized_module", "torch.ao.nn.quantized.reference.Linear"}});
  EXPECT_EQ(config.reference_quantized_module, nnqr::Linear);
  EXPECT_TRUE(config.to_dict().contains("reference_quantized_module_for_root"));
}

TEST(BackendPatternConfig, ComplexPatternsAreNestedLists) {
  const json pattern = json::parse(
      R"(["torch.nn.ReLU", ["operator.add", "MatchAllNode", ["torch.nn.BatchNorm2d", "torch.nn.Conv2d"]]])");
  const auto config = BackendPatternConfig::from_dict({{"pattern_complex_format", pattern}});
  EXPECT_EQ(config.key(), nn::ReLU(op::add(match_all, nn::BatchNorm2d(nn::Conv2d))));
  EXPECT_EQ(config.to_dict().at("pattern_complex_format"), pattern);
}

TEST(BackendPatternConfig, AConstantArgumentOfAComplexPatternStaysANumber) {
  const json pattern = {"operator.getitem", "torch.ops.aten.max_pool2d_with_indices.default", 0};
  const auto config = BackendPatternConfig::from_dict({{"pattern_complex_format", pattern}});
  EXPECT_EQ(config.to_dict().at("pattern_complex_format"), pattern);
}

BackendPatternConfig with_fuser(const std::string& name,
                                const std::string& fused = "torch.ao.nn.intrinsic.ConvReLU2d") {
  return BackendPatternConfig::from_dict(
      {{"pattern", {"torch.nn.Conv2d", "torch.nn.ReLU"}}, {"fused_module", fused}, {"fuser_method", name}});
}

TEST(Fusers, AreReadByPyTorchsNamesBareNamesAndShortNames) {
  EXPECT_EQ(with_fuser("torch.ao.quantization.fuser_method_mappings.fuse_conv_bn").fuser_method,
            Fuser::ConvBn);
  EXPECT_EQ(with_fuser("fuse_conv_bn_relu").fuser_method, Fuser::ConvBnReLU);
  EXPECT_EQ(with_fuser("fuse_convtranspose_bn").fuser_method, Fuser::ConvTransposeBn);
  EXPECT_EQ(with_fuser("linear_bn").fuser_method, Fuser::LinearBn);
  EXPECT_EQ(with_fuser("sequential").fuser_method, Fuser::Sequential);
}

TEST(Fusers, ReversingClosuresMeanSequence) {
  EXPECT_EQ(
      with_fuser("torch.ao.quantization.fuser_method_mappings._reverse2.<locals>.reversed").fuser_method,
      Fuser::Sequential);
}

TEST(Fusers, AreWrittenAsTheyWereRead) {
  EXPECT_EQ(with_fuser("sequential").to_dict().at("fuser_method"), "sequential");
  EXPECT_EQ(with_fuser("torch.ao.quantization.fuser_method_mappings.fuse_conv_bn"),
            BackendPatternConfig()
                .set_pattern(chain({nn::Conv2d, nn::ReLU}))
                .set_fused_module(nni::ConvReLU2d)
                .set_fuser_method(Fuser::ConvBn));
}

TEST(Fusers, OfOneDnnAreReadWithTheirGetters) {  // A-21, A-22
  const auto config = BackendPatternConfig::from_dict(
      {{"pattern_complex_format", {"torch.add", "MatchAllNode", "torch.nn.Conv2d"}},
       {"fused_module", "torch.ao.nn.intrinsic.ConvAdd2d"},
       {"fuser_method", "torch.ao.quantization.backend_config.onednn._fuse_conv_add_right"},
       {"root_node_getter", "torch.ao.quantization.backend_config.onednn._conv_add_root_node_getter_right"},
       {"extra_inputs_getter",
        "torch.ao.quantization.backend_config.onednn._conv_add_extra_inputs_getter_right"}});
  EXPECT_EQ(config.fuser_method, Fuser::ConvAdd);
  EXPECT_EQ(config.root_node_getter, RootNodeGetter::ConvRight);
  EXPECT_EQ(config.extra_inputs_getter, ExtraInputsGetter::OtherAddend);
}

TEST(Fusers, MustAgreeWithTheRootNodeGetter) {
  EXPECT_THROW(read_row({{"pattern_complex_format", {"torch.add", "MatchAllNode", "torch.nn.Conv2d"}},
                         {"fuser_method", "_fuse_conv_add_right"},
                         {"root_node_getter", "_conv_add_root_node_getter_left"}}),
               Error);
}

TEST(BackendConfigErrors, NameThePathAndTheNearestKey) {
  expect_error(
      "at 'configs[0]': a BackendPatternConfig has no key 'dtype_config'; did you mean 'dtype_configs'?", [] {
        read_row({{"pattern", "torch.nn.Linear"}, {"dtype_config", json::array()}});
      });
  expect_error("a BackendConfig has no key 'config'; did you mean 'configs'?", [] {
    BackendConfig::from_dict({{"config", json::array()}});
  });
  expect_error(
      "at 'configs[0].dtype_configs[0]': a DTypeConfig has no key 'bais_dtype'; did you mean 'bias_dtype'?",
      [] {
        read_row({{"pattern", "torch.nn.Linear"}, {"dtype_configs", {{{"bais_dtype", "float"}}}}});
      });
}

TEST(BackendConfigErrors, NameTheNearestPyTorchName) {
  expect_error("at 'configs[0].pattern': PyTorch has no 'torch.nn.Conv2D'; did you mean 'torch.nn.Conv2d'?",
               [] {
                 read_row({{"pattern", "torch.nn.Conv2D"}});
               });
  expect_error(
      "at 'configs[0].pattern[1]': PyTorch has no 'torch.nn.functional.rellu'; did you mean "
      "'torch.nn.functional.relu'?",
      [] {
        read_row({{"pattern", {"torch.nn.Conv2d", "torch.nn.functional.rellu"}}});
      });
  expect_error("at 'configs[0].pattern': PyTorch has no 'torch.Linear'; did you mean 'torch.nn.Linear'?", [] {
    read_row({{"pattern", "torch.Linear"}});
  });
  expect_error("at 'configs[0].pattern': PyTorch has no 'rehsape'; did you mean 'reshape'?", [] {
    read_row({{"pattern", "rehsape"}});
  });
}

TEST(BackendConfigErrors, AcceptClassesOfTheUser) {
  EXPECT_EQ(read_row({{"pattern", "my.pkg.Block"}}).configs()[0].key(), Pattern(module("my.pkg.Block")));
}

TEST(BackendConfigErrors, NameTheNearestDTypeAndObservationType) {
  expect_error("at 'configs[0].dtype_configs[0].input_dtype': 'quint' is not a dtype; did you mean 'quint8'?",
               [] {
                 read_row({{"pattern", "torch.nn.Linear"}, {"dtype_configs", {{{"input_dtype", "quint"}}}}});
               });
  expect_error(
      "at 'configs[0].observation_type': 'OUTPUT_SHARE_OBSERVER' is not an observation type; did you mean "
      "'OUTPUT_SHARE_OBSERVER_WITH_INPUT'?",
      [] {
        read_row({{"pattern", "torch.nn.Linear"}, {"observation_type", "OUTPUT_SHARE_OBSERVER"}});
      });
}

TEST(BackendConfigErrors, RefuseContradictions) {
  expect_error(
      "at 'configs[0]': only one of 'pattern' and 'pattern_complex_format' can be set; leave one of them out",
      [] {
        read_row({{"pattern", "torch.nn.ReLU"}, {"pattern_complex_format", "torch.nn.ReLU"}});
      });
  expect_error(
      "at 'configs[0]': a BackendPatternConfig has neither 'pattern' nor 'pattern_complex_format'; set one "
      "of them",
      [] { read_row(json::object()); });
  expect_error(
      "at 'configs[0].pattern': got a pattern of 4 names, wanted 2 or 3; use 'pattern_complex_format' for it",
      [] {
        read_row({{"pattern", {"torch.add", "torch.add", "torch.add", "torch.add"}}});
      });
  expect_error(
      "at 'configs[0].root_module': 'torch.add' is not a module class; write a class as in 'torch.nn.Conv2d'",
      [] {
        read_row({{"pattern", "torch.nn.ReLU"}, {"root_module", "torch.add"}});
      });
  expect_error("at 'configs[0].fuser_method': a fuser needs a pattern of 2 or 3 names",  // A-19
               [] {
                 read_row({{"pattern", "torch.nn.ReLU"}, {"fuser_method", "fuse_conv_bn"}});
               });
}

TEST(BackendConfigErrors, RefuseWrongTypes) {
  expect_error("at 'configs': got object {}, wanted a list of BackendPatternConfigs",  // A-06
               [] {
                 BackendConfig::from_dict({{"configs", json::object()}});
               });
  expect_error("got array [], wanted an object: a BackendConfig",
               [] { BackendConfig::from_dict(json::array()); });
  expect_error("at 'configs[0].input_type_to_index.weight': got string \"1\", wanted a whole number", [] {
    read_row({{"pattern", "torch.nn.functional.linear"}, {"input_type_to_index", {{"weight", "1"}}}});
  });
}

TEST(BackendConfigErrors, RefuseAPatternThatIsNestedWithoutEnd) {
  json pattern = "torch.nn.ReLU";
  for (int i = 0; i < 1000; ++i) pattern = json::array({"torch.nn.ReLU", pattern});
  EXPECT_THROW(BackendPatternConfig::from_dict({{"pattern_complex_format", pattern}}), Error);
}

TEST(DTypeConfig, APlainDTypeHasNoConstraints) {  // A-28
  const DTypeConfig config = DTypeConfig::from_dict({{"input_dtype", "quint8"}});
  EXPECT_EQ(config.input_dtype, DTypeWithConstraints{.dtype = c10::ScalarType::QUInt8});
  EXPECT_FALSE(config.output_dtype.dtype.has_value());
  EXPECT_FALSE(config.is_dynamic.has_value());
}

TEST(DTypeConfig, WritesOnlyWhatIsSet) {  // A-30
  EXPECT_EQ(DTypeConfig{}.to_dict(), json::object());
  EXPECT_EQ(kDynamicInt8.to_dict(), (json{{"input_dtype", "quint8"},
                                          {"output_dtype", "float"},
                                          {"weight_dtype", "qint8"},
                                          {"bias_dtype", "float"},
                                          {"is_dynamic", true}}));
}

TEST(DTypeConfig, RoundTripsConstraints) {  // A-29, A-32
  const DTypeConfig config{.input_dtype = {.dtype = c10::ScalarType::QUInt8,
                                           .quant_min_lower_bound = 0,
                                           .quant_max_upper_bound = 255,
                                           .scale_min_lower_bound = 1.0 / 4096,
                                           .scale_max_upper_bound = 2.5,
                                           .scale_exact_match = 0.1,
                                           .zero_point_exact_match = 128}};
  EXPECT_EQ(DTypeConfig::from_dict(json::parse(config.to_dict().dump())), config);
}

TEST(DTypeConfig, EqualityIsByField) {  // A-31
  DTypeConfig other = kWeightedInt8;
  EXPECT_EQ(other, kWeightedInt8);
  other.weight_dtype.quant_min_lower_bound = -127;
  EXPECT_NE(other, kWeightedInt8);
}

TEST(DTypeConfig, RefusesContradictoryConstraints) {
  expect_error("at 'input_dtype': quant_min_lower_bound 10 is above quant_max_upper_bound 5", [] {
    DTypeConfig::from_dict(
        {{"input_dtype",
          {{"dtype", "quint8"}, {"quant_min_lower_bound", 10}, {"quant_max_upper_bound", 5}}}});
  });
  expect_error("at 'input_dtype': constraints without a dtype; add \"dtype\"", [] {
    DTypeConfig::from_dict({{"input_dtype", {{"quant_min_lower_bound", 10}}}});
  });
}

TEST(DType, EveryWrittenNameReadsBack) {
  for (const char* name :
       {"quint8", "qint8", "qint32", "quint4x2", "float", "float16", "bfloat16", "uint8", "int8"})
    EXPECT_EQ(dtype_name(dtype_from_name(name)), name);
  EXPECT_EQ(dtype_name(dtype_from_name("torch.float32")), "float");
  EXPECT_EQ(dtype_name(dtype_from_name("half")), "float16");
}

}  // namespace backend_config_test
}  // namespace tsq
