#include <gtest/gtest.h>
#include <tsq/custom_config.h>

#include <nlohmann/json.hpp>

#include "config/expect_error.h"

namespace tsq {
namespace {

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

TEST(PrepareCustomConfig, RefusesKeysThatNeedPythonClasses) {  // E-08, E-15
  const std::string problem =
      "names Python classes, which a TorchScript file does not have; use 'non_traceable_module_name' to keep "
      "a "
      "module whole, or 'standalone_module_name' to quantize it by itself";
  expect_error("at 'float_to_observed_custom_module_class': " + problem, [] {
    PrepareCustomConfig::from_dict({{"float_to_observed_custom_module_class", {{"static", {1}}}}});
  });
  expect_error("at 'observed_to_quantized_custom_module_class': " + problem, [] {
    ConvertCustomConfig::from_dict({{"observed_to_quantized_custom_module_class", {{"static", {1}}}}});
  });
}

TEST(ConvertAndFuseCustomConfig, KeepPyTorchsKeyOfPreservedAttributes) {  // E-13, E-16
  const json dict = {{"preserved_attributes", {"labels"}}};
  EXPECT_EQ(ConvertCustomConfig::from_dict(dict).to_dict(), dict);
  EXPECT_EQ(FuseCustomConfig::from_dict(dict).to_dict(), dict);
  EXPECT_EQ(FuseCustomConfig().to_dict(), json::object());
}

}  // namespace
}  // namespace tsq
