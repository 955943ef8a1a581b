// Fusers and getters of the user's own, by their names in the table.
#include "config/fusers.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/backend_config.h>

#include <nlohmann/json.hpp>

#include "config/expect_error.h"
#include "specification/quotations.h"

namespace tsq {
namespace fusers_test {

using nlohmann::json;

torch::jit::Module take_first(bool, const std::vector<torch::jit::Module>& matched) {
  return matched.front();
}

json row_with(const std::string& fuser) {
  return {{"pattern", {"torch.nn.Linear", "torch.nn.ReLU"}},
          {"fused_module", "torch.ao.nn.intrinsic.LinearReLU"},
          {"fuser_method", fuser}};
}

TEST(SpecFusers, ANameOfTheUsersIsReadOnceItIsRegistered) {
  TSQ_SAYS("BackendPatternConfig",
           "Set the function that specifies how to fuse this BackendPatternConfig's pattern.");
  expect_error_with("'test.take_first' is not a fuser",
                    [] { BackendPatternConfig::from_dict(row_with("test.take_first")); });
  register_fuser("test.take_first", take_first);
  const auto row = BackendPatternConfig::from_dict(row_with("test.take_first"));
  EXPECT_EQ(row.fuser_method, Fuser::Registered);
  EXPECT_EQ(row.to_dict().at("fuser_method"), "test.take_first");
  EXPECT_EQ(BackendPatternConfig::from_dict(row.to_dict()), row);
  EXPECT_EQ(BackendPatternConfig::from_dict(row_with("sequential")).set_fuser_method("test.take_first"), row);
}

TEST(SpecFusers, AnUnknownNameIsRefusedWithTheKnownOnes) {
  register_fuser("test.my_own", take_first);
  expect_error_with("'sequential', 'conv_bn'", [] { BackendPatternConfig::from_dict(row_with("qqqqqqqq")); });
  expect_error_with("'test.my_own'", [] { BackendPatternConfig::from_dict(row_with("qqqqqqqq")); });
  expect_error_with("did you mean 'test.my_own'?",
                    [] { BackendPatternConfig::from_dict(row_with("test.my_onw")); });
}

TEST(SpecFusers, NamesOfPyTorchStayPyTorchs) {
  expect_error_with("is taken", [] { register_fuser("fuse_conv_bn", take_first); });
  expect_error_with("is taken", [] {
    register_root_node_getter(
        "conv_left", [](const Pattern& whole) -> auto& { return whole; });
  });
  expect_error_with("without a name", [] { register_fuser("", take_first); });
}

TEST(SpecFusers, AFunctionNeedsNoName) {
  TSQ_SAYS(
      "BackendPatternConfig",
      "The first argument of this function should be is_qat, and the rest of the arguments should be the "
      "items in the tuple pattern. The return value of this function should be the resulting fused "
      "module.");
  const Pattern pattern = chain({symbol("torch.nn.Linear"), symbol("torch.nn.ReLU")});
  const auto row = BackendPatternConfig{pattern}.set_fuser_method(take_first);
  EXPECT_EQ(row.fuser_method, Fuser::Registered);
  EXPECT_NE(row, BackendPatternConfig{pattern}.set_fuser_method(take_first));
  EXPECT_EQ(BackendPatternConfig::from_dict(row.to_dict()), row);
}

TEST(SpecFusers, GettersAreNamesAndFunctionsToo) {
  TSQ_SAYS("README",
           "we replace the corresponding nodes in the graph using two helper functions set by the user: "
           "root_node_getter, which returns the root node (typically the weighted module in the pattern like "
           "torch.nn.Linear) to replace the matched pattern in the graph, and extra_inputs_getter, which "
           "returns a list of extra input arguments that will be appended to the existing arguments of the "
           "fused module");
  register_root_node_getter("test.left",
                            [](const Pattern& whole) -> const Pattern& { return whole.args.front(); });
  register_extra_inputs_getter(
      "test.right", [](const Pattern& whole) { return std::vector<const Pattern*>{&whole.args.back()}; });
  json dict = row_with("conv_bn");
  dict.erase("pattern");
  dict["pattern_complex_format"] = {"torch.add", "torch.nn.Linear", "MatchAllNode"};
  dict["root_node_getter"] = "test.left";
  dict["extra_inputs_getter"] = "test.right";
  dict["fuser_method"] = "test.take_first";
  register_fuser("test.take_first", take_first);
  const auto row = BackendPatternConfig::from_dict(dict);
  EXPECT_TRUE(is_registered(row.root_node_getter));
  EXPECT_TRUE(is_registered(row.extra_inputs_getter));
  EXPECT_EQ(row.to_dict().at("root_node_getter"), "test.left");
  EXPECT_EQ(row.to_dict().at("extra_inputs_getter"), "test.right");
  dict["root_node_getter"] = "test.lfet";
  expect_error_with("did you mean 'test.left'?", [&] { BackendPatternConfig::from_dict(dict); });
}

}  // namespace fusers_test
}  // namespace tsq
