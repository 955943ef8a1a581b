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
  expect_error("at 'input_quantized_idxs[1]': the index 0 stands twice", [] {
    PrepareCustomConfig::from_dict({{"input_quantized_idxs", {0, 0}}});
  });
  expect_error("at 'output_quantized_idxs[0]': got the index -1, wanted one from 0 on", [] {
    PrepareCustomConfig::from_dict({{"output_quantized_idxs", {-1}}});
  });
}

TEST(PrepareCustomConfig, RefusesKeysThatNeedPythonClasses) {
  expect_error(
      "at 'standalone_module_name': is not supported; use 'non_traceable_module_name' to keep a module whole",
      [] {
        PrepareCustomConfig::from_dict({{"standalone_module_name", {{"a", nullptr}}}});
      });
}

}  // namespace
}  // namespace tsq
