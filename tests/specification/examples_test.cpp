// The code examples of PyTorch's documents of BackendConfig, DTypeConfig and QConfigMapping, in C++.
#include <gtest/gtest.h>
#include <tsq/backend_config.h>
#include <tsq/qconfig_mapping.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "specification/quotations.h"

namespace tsq {
namespace examples_test {

using c10::ScalarType;

DTypeConfig weighted_int8_dtype_config() {
  return {.input_dtype = {.dtype = ScalarType::QUInt8},
          .output_dtype = {.dtype = ScalarType::QUInt8},
          .weight_dtype = {.dtype = ScalarType::QInt8},
          .bias_dtype = ScalarType::Float};
}

BackendConfig my_backend() {
  // For quantizing Linear
  const auto linear_config =
      BackendPatternConfig{symbol("torch.nn.Linear")}
          .set_observation_type(ObservationType::OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT)
          .add_dtype_config(weighted_int8_dtype_config())
          .set_root_module(symbol("torch.nn.Linear"))
          .set_qat_module(symbol("torch.ao.nn.qat.Linear"))
          .set_reference_quantized_module(symbol("torch.ao.nn.quantized.reference.Linear"));

  // For fusing Conv2d + ReLU into ConvReLU2d
  const auto conv_relu_config =
      BackendPatternConfig{chain({symbol("torch.nn.Conv2d"), symbol("torch.nn.ReLU")})}
          .set_observation_type(ObservationType::OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT)
          .add_dtype_config(weighted_int8_dtype_config())
          .set_fused_module(symbol("torch.ao.nn.intrinsic.ConvReLU2d"))
          .set_fuser_method(Fuser::Sequential);

  // For quantizing ConvReLU2d
  const auto fused_conv_relu_config =
      BackendPatternConfig{symbol("torch.ao.nn.intrinsic.ConvReLU2d")}
          .set_observation_type(ObservationType::OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT)
          .add_dtype_config(weighted_int8_dtype_config())
          .set_root_module(symbol("torch.nn.Conv2d"))
          .set_qat_module(symbol("torch.ao.nn.intrinsic.qat.ConvReLU2d"))
          .set_reference_quantized_module(symbol("torch.ao.nn.quantized.reference.Conv2d"));

  return BackendConfig("my_backend")
      .set_backend_pattern_config(linear_config)
      .set_backend_pattern_config(conv_relu_config)
      .set_backend_pattern_config(fused_conv_relu_config);
}

TEST(SpecExamples, BackendConfigHoldsTheThreeRowsOfTheExample) {
  const BackendConfig backend = my_backend();
  ASSERT_EQ(backend.configs().size(), 3u);
  EXPECT_EQ(backend.name(), "my_backend");
  EXPECT_EQ(to_string(backend.configs()[1].key()), "torch.nn.ReLU(torch.nn.Conv2d)");
  EXPECT_EQ(backend.configs()[2].reference_quantized_module,
            symbol("torch.ao.nn.quantized.reference.Conv2d"));
}

TEST(SpecExamples, BackendConfigIsMadeFromADictionaryOfNameAndConfigs) {
  TSQ_SAYS("BackendConfig", "“name”: the name of the target backend");
  TSQ_SAYS("BackendConfig", "“configs”: a list of dictionaries that each represents a BackendPatternConfig");
  TSQ_SAYS("BackendConfig",
           "Convert this BackendConfig to a dictionary with the items described in from_dict().");
  TSQ_SAYS("BackendConfig", "Set the name of the target backend.");
  EXPECT_EQ(BackendConfig("another").set_name("my_backend").name(), "my_backend");
  const nlohmann::json dict = my_backend().to_dict();
  EXPECT_EQ(BackendPatternConfig::from_dict(dict.at("configs")[0]), my_backend().configs()[0]);
  EXPECT_EQ(dict.at("name"), "my_backend");
  EXPECT_EQ(BackendConfig::from_dict(dict), my_backend());
}

TEST(SpecExamples, PatternsAreModulesFunctionalsOperatorsAndTuplesOfThem) {
  const std::vector<nlohmann::json> patterns{
      "torch.nn.Linear",
      "torch.nn.functional.linear",
      "torch.add",
      "operator.add",
      {"torch.nn.functional.linear", "torch.nn.functional.relu"},
      {"torch.nn.Conv2d", "torch.nn.BatchNorm2d", "torch.nn.ReLU"},
  };
  for (const nlohmann::json& pattern : patterns)
    EXPECT_EQ(BackendPatternConfig::from_dict({{"pattern", pattern}}).to_dict().at("pattern"), pattern);
}

TEST(SpecExamples, ReversedNestedTuplesDescribeTheGraphOfTheExample) {
  const auto config = BackendPatternConfig::from_dict(nlohmann::json::parse(R"({"pattern_complex_format":
      ["torch.nn.ReLU", ["operator.add", "MatchAllNode", ["torch.nn.BatchNorm2d", "torch.nn.Conv2d"]]]})"));
  const Pattern batch_norm = symbol("torch.nn.BatchNorm2d")(symbol("torch.nn.Conv2d"));
  EXPECT_EQ(config.key(), symbol("torch.nn.ReLU")(symbol("operator.add")(match_all, batch_norm)));
}

TEST(SpecExamples, DTypeConfigTakesPlainDTypesAndConstrainedOnes) {
  const DTypeConfig with_constraints{.input_dtype = {.dtype = ScalarType::QUInt8,
                                                     .quant_min_lower_bound = 0,
                                                     .quant_max_upper_bound = 255,
                                                     .scale_min_lower_bound = 1.0 / 4096},
                                     .output_dtype = {.dtype = ScalarType::QUInt8,
                                                      .quant_min_lower_bound = 0,
                                                      .quant_max_upper_bound = 255,
                                                      .scale_min_lower_bound = 1.0 / 4096},
                                     .weight_dtype = {.dtype = ScalarType::QInt8,
                                                      .quant_min_lower_bound = -128,
                                                      .quant_max_upper_bound = 127,
                                                      .scale_min_lower_bound = 1.0 / 4096},
                                     .bias_dtype = ScalarType::Float};
  EXPECT_EQ(weighted_int8_dtype_config().input_dtype.dtype, ScalarType::QUInt8);
  EXPECT_EQ(with_constraints.input_dtype.dtype, ScalarType::QUInt8);
  EXPECT_FALSE(with_constraints.input_dtype.scale_max_upper_bound.has_value());
  EXPECT_EQ(DTypeConfig::from_dict(with_constraints.to_dict()), with_constraints);
  EXPECT_NE(weighted_int8_dtype_config(), with_constraints);
}

TEST(SpecExamples, QConfigMappingIsMadeFromADictionaryOfListsOfTuples) {
  TSQ_SAYS("QConfigMapping",
           "Create a QConfigMapping from a dictionary with the following keys (all optional):");
  TSQ_SAYS("QConfigMapping", "The values of this dictionary are expected to be lists of tuples.");
  TSQ_SAYS("QConfigMapping", "Convert this QConfigMapping to a dictionary with the following keys:");
  TSQ_SAYS("QConfigMapping", "The values of this dictionary are lists of tuples.");
  EXPECT_EQ(QConfigMapping::from_dict(nlohmann::json::object()), QConfigMapping());
  const QConfig own = qconfig("default_qconfig");
  const auto mapping = QConfigMapping()
                           .set_global(own)
                           .set_object_type("torch.nn.Linear", std::nullopt)
                           .set_module_name_regex("a.*", own)
                           .set_module_name("a", own)
                           .set_module_name_object_type_order("a", symbol("torch.add"), 1, own);
  const nlohmann::json dict = mapping.to_dict();
  for (const auto& [key, size] :
       {std::pair("object_type", 2U), std::pair("module_name_regex", 2U), std::pair("module_name", 2U),
        std::pair("module_name_object_type_order", 4U)}) {
    ASSERT_TRUE(dict.at(key).is_array()) << key;
    EXPECT_EQ(dict.at(key).at(0).size(), size) << key;
    const nlohmann::json one{{key, dict.at(key)}};
    EXPECT_NE(QConfigMapping::from_dict(one), QConfigMapping()) << key;
  }
  EXPECT_EQ(QConfigMapping::from_dict(dict), mapping);
}

TEST(SpecExamples, QConfigMappingOfTheExampleDecidesAsItsTextSays) {
  const QConfig global_qconfig = default_qconfig("x86");
  const QConfig qconfig1 = qconfig("default_qconfig");
  const QConfig qconfig2 = qconfig("default_per_channel_qconfig");
  const QConfig qconfig3 = qconfig("default_dynamic_qconfig");
  const auto mapping =
      QConfigMapping()
          .set_global(global_qconfig)
          .set_object_type("torch.nn.Linear", qconfig1)
          .set_object_type("torch.nn.ReLU", qconfig1)
          .set_module_name_regex("foo.*bar.*conv[0-9]+", qconfig1)
          .set_module_name_regex("foo.*", qconfig2)
          .set_module_name("module1", qconfig1)
          .set_module_name("module2", qconfig2)
          .set_module_name_object_type_order("foo.bar", symbol("torch.nn.functional.linear"), 0, qconfig3);

  const auto of_module = [&](const char* path, const char* type) {
    return find_qconfig(mapping, {.targets = {symbol(type)}, .is_module = true, .module_path = path}).qconfig;
  };
  EXPECT_EQ(of_module("head", "torch.nn.Conv2d"), global_qconfig);
  EXPECT_EQ(of_module("head", "torch.nn.Linear"), qconfig1);
  EXPECT_EQ(of_module("foo.bar.conv0", "torch.nn.Conv2d"), qconfig1);
  EXPECT_EQ(of_module("foo.bar.linear", "torch.nn.Linear"), qconfig2);
  EXPECT_EQ(of_module("module1", "torch.nn.Conv2d"), qconfig1);
  EXPECT_EQ(of_module("module2.inner", "torch.nn.Linear"), qconfig2);
  const QConfigQuery first_linear{
      .targets = {symbol("torch.nn.functional.linear")}, .module_path = "foo.bar", .order_index = 0};
  EXPECT_EQ(find_qconfig(mapping, first_linear).qconfig, qconfig3);
  EXPECT_EQ(QConfigMapping::from_dict(mapping.to_dict()), mapping);
}

}  // namespace examples_test
}  // namespace tsq
