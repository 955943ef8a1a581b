#include <gtest/gtest.h>
#include <tsq/custom_config.h>

#include <nlohmann/json.hpp>

#include "config/expect_error.h"

namespace tsq {
namespace custom_config_test {

using nlohmann::json;

TEST(PrepareCustomConfig, RoundTripsPyTorchsKeys) {  // E-14
  const json dict = {{"non_traceable_module_name", {"a.b"}},
                     {"non_traceable_module_class", {"torch.nn.Linear", "my.pkg.Block"}},
                     {"input_quantized_idxs", {0, 2}},
                     {"output_quantized_idxs", {0}},
                     {"preserved_attributes", {"labels"}}};
  const PrepareCustomConfig config = PrepareCustomConfig::from_dict(dict);
  EXPECT_EQ(config.non_traceable_module_classes()[1], symbol("my.pkg.Block"));
  EXPECT_EQ(config.input_quantized_indexes(), (std::vector{0, 2}));
  EXPECT_EQ(config.to_dict(), dict);
}

/// Names of classes that would be taken for a method, and for torch.nn.Linear without its module.
TEST(PrepareCustomConfig, ClassesOfAnyNameAreReadAgain) {
  const auto config = PrepareCustomConfig::from_dict(
      {{"non_traceable_module_class",
        {"__torch__.block", "__torch__.Linear", "__torch__.my.pkg.block", "my.Block"}},
       {"float_to_observed_custom_module_class",
        {{"static", {{"__torch__.block", {{"source", "class observed(Module):\n"}}}}}}}});
  const json written = config.to_dict();
  EXPECT_EQ(written["non_traceable_module_class"],
            json({"__torch__.block", "__torch__.Linear", "__torch__.my.pkg.block", "my.Block"}));
  EXPECT_EQ(PrepareCustomConfig::from_dict(written).to_dict(), written);
}

TEST(PrepareCustomConfig, LeavesEmptyEntriesOut) {  // E-14
  EXPECT_EQ(PrepareCustomConfig().to_dict(), json::object());
  EXPECT_EQ(PrepareCustomConfig::from_dict(json::object()).to_dict(), json::object());
}

TEST(PrepareCustomConfig, SettersReturnItself) {
  PrepareCustomConfig config;
  EXPECT_EQ(
      &config.set_input_quantized_indexes({1}).set_output_quantized_indexes({0}).set_preserved_attributes(
          {"x"}),
      &config);
  EXPECT_EQ(config.output_quantized_indexes(), std::vector{0});
}

TEST(PrepareCustomConfig, ErrorsNameTheKey) {
  expect_error(
      "a PrepareCustomConfig has no key 'input_quantized_indexes'; did you mean 'input_quantized_idxs'?", [] {
        PrepareCustomConfig::from_dict({{"input_quantized_indexes", {0}}});
      });
  expect_error("at 'input_quantized_idxs[1]': the index 0 occurs twice", [] {
    PrepareCustomConfig::from_dict({{"input_quantized_idxs", {0, 0}}});
  });
  expect_error("at 'output_quantized_idxs[0]': got the index -1, wanted 0 or more", [] {
    PrepareCustomConfig::from_dict({{"output_quantized_idxs", {-1}}});
  });
}

TEST(PrepareCustomConfig, StandaloneModulesRoundTripAsPyTorchsTuples) {  // E-01, E-14
  const json dict = json::parse(R"({
    "standalone_module_name": [["block.inner", {"": null, "module_name": [], "module_name_object_type_order": [],
                                                 "module_name_regex": [], "object_type": []}, null,
                                {"input_quantized_idxs": [0], "output_quantized_idxs": [0]}, null]],
    "standalone_module_class": [["my.pkg.Block", null, null, null, null]]})");
  const PrepareCustomConfig config = PrepareCustomConfig::from_dict(dict);
  const StandaloneModuleConfig* by_name = config.standalone_module("block.inner", symbol("my.pkg.Block"));
  ASSERT_NE(by_name, nullptr);
  EXPECT_EQ(by_name->prepare_custom_config.input_quantized_indexes(), std::vector{0});
  EXPECT_TRUE(by_name->qconfig_mapping.has_value());
  const StandaloneModuleConfig* by_class = config.standalone_module("other", symbol("my.pkg.Block"));
  ASSERT_NE(by_class, nullptr);
  EXPECT_FALSE(by_class->qconfig_mapping.has_value());
  EXPECT_EQ(config.standalone_module("other", symbol("torch.nn.Linear")), nullptr);
  EXPECT_EQ(config.to_dict(), dict);
}

TEST(PrepareCustomConfig, ErrorsInsideAStandaloneEntryNameTheWholeWay) {
  expect_error(
      "at 'standalone_module_name[0]': got 0 elements, wanted [name, qconfig mapping, example inputs, "
      "prepare custom config, backend config]",
      [] {
        PrepareCustomConfig::from_dict({{"standalone_module_name", {json::array()}}});
      });
}

TEST(PrepareCustomConfig, CustomModulesRoundTrip) {  // E-08
  const json dict = {{"float_to_observed_custom_module_class",
                      {{"static",
                        {{"my.Layer", "my.Observed"},
                         {"my.Other", {{"file", "observed.pt"}, {"name", "my.ObservedOther"}}}}}}}};
  const PrepareCustomConfig config = PrepareCustomConfig::from_dict(dict);
  ASSERT_NE(config.observed_module(symbol("my.Layer")), nullptr);
  EXPECT_EQ(config.observed_module(symbol("my.Layer"))->name, symbol("my.Observed"));
  EXPECT_EQ(config.observed_module(symbol("my.Other"))->definition->file, "observed.pt");
  EXPECT_EQ(config.observed_module(symbol("my.Observed")), nullptr);
  EXPECT_EQ(config.to_dict(), dict);
  const json by_source = {{"source", "class Observed(Module):\n  def forward(self, x: Tensor) -> Tensor:\n"}};
  const PrepareCustomConfig named = PrepareCustomConfig::from_dict(
      {{"float_to_observed_custom_module_class", {{"static", {{"my.Layer", by_source}}}}}});
  EXPECT_EQ(named.observed_module(symbol("my.Layer"))->name.name, "Observed");
}

TEST(PrepareCustomConfig, CustomModulesAreStaticAndHaveNames) {  // E-08
  const auto read = [](const json& classes) {
    return PrepareCustomConfig::from_dict({{"float_to_observed_custom_module_class", classes}});
  };
  const std::string key = "at 'float_to_observed_custom_module_class";
  expect_error(key +
                   ".dynamic.my.Layer': observed modules are for static quantization alone, not for "
                   "'dynamic'; name the class under 'static'",
               [&] {
                 read({{"dynamic", {{"my.Layer", "my.Observed"}}}});
               });
  expect_error_with("'statik' is not a quantization type", [&] {
    read({{"statik", {{"my.Layer", "my.Observed"}}}});
  });
  expect_error_with("a module out of a file needs a 'name'", [&] {
    read({{"static", {{"my.Layer", {{"file", "observed.pt"}}}}}});
  });
  expect_error_with("'relu' is not a module class", [&] { read({{"static", {{"relu", "my.Observed"}}}}); });
}

TEST(ConvertCustomConfig, CustomModulesAreOfThreeTypes) {  // E-15
  const json dict = {{"observed_to_quantized_custom_module_class",
                      {{"static", {{"my.Observed", "my.Static"}}},
                       {"dynamic", {{"my.Observed", "my.Dynamic"}}},
                       {"weight_only", {{"my.Observed", {{"file", "w.pt"}, {"name", "my.WeightOnly"}}}}}}}};
  const ConvertCustomConfig config = ConvertCustomConfig::from_dict(dict);
  const Symbol observed = symbol("my.Observed");
  EXPECT_EQ(config.quantized_module(observed, QuantType::Static)->name, symbol("my.Static"));
  EXPECT_EQ(config.quantized_module(observed, QuantType::Dynamic)->name, symbol("my.Dynamic"));
  EXPECT_TRUE(config.is_observed_class(observed));
  EXPECT_FALSE(config.is_observed_class(symbol("my.Static")));
  EXPECT_EQ(config.to_dict(), dict);
}

TEST(QuantType, IsThatOfTheDTypes) {
  EXPECT_EQ(get_quant_type(qconfig("default_qconfig")), QuantType::Static);
  EXPECT_EQ(get_quant_type(qconfig("default_dynamic_qconfig")), QuantType::Dynamic);
  EXPECT_EQ(get_quant_type(qconfig("float_qparams_weight_only_qconfig")), QuantType::WeightOnly);
  EXPECT_EQ(get_quant_type(qconfig("float16_dynamic_qconfig")), QuantType::Dynamic);
  expect_error_with("activations of quint8 with weights of float16 are of no quantization type", [] {
    get_quant_type({{.observer = "MinMaxObserver"},
                    {.observer = "PlaceholderObserver", .dtype = c10::ScalarType::Half}});
  });
}

TEST(ConvertAndFuseCustomConfig, KeepPyTorchsKeyOfPreservedAttributes) {  // E-13, E-16
  const json dict = {{"preserved_attributes", {"labels"}}};
  EXPECT_EQ(ConvertCustomConfig::from_dict(dict).to_dict(), dict);
  EXPECT_EQ(FuseCustomConfig::from_dict(dict).to_dict(), dict);
  EXPECT_EQ(FuseCustomConfig().to_dict(), json::object());
}

}  // namespace custom_config_test
}  // namespace tsq
