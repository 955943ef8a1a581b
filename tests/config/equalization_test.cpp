#include <gtest/gtest.h>
#include <tsq/equalization.h>
#include <tsq/error.h>

#include <nlohmann/json.hpp>

#include "config/expect_error.h"

namespace tsq {
namespace equalization_test {

using nlohmann::json;

TEST(EqualizationMapping, ReadsTheNameOfTheDefault) {
  const auto mapping = EqualizationMapping::from_dict({{"", "default_equalization_qconfig"}});
  EXPECT_EQ(mapping, EqualizationMapping().set_global(default_equalization_qconfig()));
  const json expected = {{"input_activation",
                          {{"observer", "_InputEqualizationObserver"},
                           {"dtype", "quint8"},
                           {"qscheme", "per_tensor_symmetric"}}},
                         {"weight",
                          {{"observer", "_WeightEqualizationObserver"},
                           {"dtype", "qint8"},
                           {"qscheme", "per_channel_symmetric"}}}};
  EXPECT_EQ(mapping.to_dict().at(""), expected);
}

TEST(EqualizationMapping, KeepsEveryLevelThroughJson) {
  EqualizationMapping mapping;
  mapping.set_object_type("torch.nn.Linear", default_equalization_qconfig())
      .set_module_name_regex("layer[34]", std::nullopt)
      .set_module_name("head.fc", default_equalization_qconfig())
      .set_module_name_object_type_order("body", symbol("torch.nn.functional.linear"), 0, std::nullopt);
  EXPECT_EQ(EqualizationMapping::from_dict(mapping.to_dict()), mapping);
  EXPECT_FALSE(mapping.empty());
  EXPECT_TRUE(EqualizationMapping::from_dict(json::object()).empty());
}

TEST(EqualizationMapping, RefusesObserversThatDoNotEqualize) {
  expect_error(
      "at '\"\".input_activation': 'MinMaxObserver' cannot equalize; use '_InputEqualizationObserver'", [] {
        (void)EqualizationMapping::from_dict({{"",
                                               {{"input_activation", {{"observer", "MinMaxObserver"}}},
                                                {"weight", {{"observer", "_WeightEqualizationObserver"}}}}}});
      });
}

TEST(EqualizationMapping, NamesTheNearestKey) {
  expect_error("an EqualizationMapping has no key 'object_types'; did you mean 'object_type'?", [] {
    (void)EqualizationMapping::from_dict({{"object_types", json::array()}});
  });
}

}  // namespace equalization_test
}  // namespace tsq
