// A later entry takes an earlier one's place, in JSON as in the setters, and is spoken of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tsq/backend_config.h>
#include <tsq/qconfig_mapping.h>

#include <nlohmann/json.hpp>

#include "specification/quotations.h"

namespace tsq {
namespace repeated_entries_test {

using nlohmann::json;
using testing::ElementsAre;

TEST(SpecRepeated, ALaterRowOfAPatternTakesTheEarlierOnesPlace) {
  TSQ_SAYS("BackendConfig", "This overrides any existing config for the given pattern.");
  const json dict = {{"name", "mine"},
                     {"configs",
                      {{{"pattern", {"torch.nn.Conv2d", "torch.nn.ReLU"}}},
                       {{"pattern", "torch.add"}},
                       {{"pattern_complex_format", {"torch.nn.ReLU", "torch.nn.Conv2d"}},
                        {"observation_type", "OUTPUT_SHARE_OBSERVER_WITH_INPUT"}}}}};
  std::vector<std::string> notes;
  const BackendConfig backend = BackendConfig::from_dict(dict, notes);
  ASSERT_EQ(backend.configs().size(), 2u);
  EXPECT_EQ(backend.configs().front().observation_type, ObservationType::OUTPUT_SHARE_OBSERVER_WITH_INPUT);
  EXPECT_THAT(notes, ElementsAre("'configs[2]' takes the place of an earlier row with the pattern "
                                 "'torch.nn.ReLU(torch.nn.Conv2d)'"));

  BackendConfig by_setters("mine");
  for (const json& row : dict.at("configs"))
    by_setters.set_backend_pattern_config(BackendPatternConfig::from_dict(row));
  EXPECT_EQ(backend, by_setters);
  TSQ_SAYS("BackendConfig",
           "This overrides any existing config for a given pattern if it was previously registered already.");
  EXPECT_EQ(BackendConfig("mine").set_backend_pattern_configs(
                {BackendPatternConfig::from_dict(dict.at("configs")[0]), by_setters.configs()[1],
                 by_setters.configs()[0]}),
            by_setters);
  EXPECT_EQ(BackendConfig::from_dict(dict), by_setters);
}

TEST(SpecRepeated, ALaterQConfigOfAKeyTakesTheEarlierOnesPlace) {
  TSQ_SAYS(
      "QConfigMapping",
      "If the QConfig for an existing object type was already set, the new QConfig will override the old "
      "one.");
  TSQ_SAYS("QConfigMapping",
           "If the QConfig for an existing module name regex was already set, the new QConfig will override "
           "the old one while preserving the order in which the regexes were originally registered.");
  const json dict = json::parse(R"({
    "object_type": [["torch.nn.Linear", "default_qconfig"], ["torch.nn.modules.linear.Linear", null]],
    "module_name_regex": [["foo.*", "default_qconfig"], ["f.*", null], ["foo.*", "default_dynamic_qconfig"]],
    "module_name": [["a", null], ["a", "default_qconfig"]],
    "module_name_object_type_order": [["a", "torch.add", 0, null], ["a", "torch.add", 0, "default_qconfig"]]})");
  std::vector<std::string> notes;
  const QConfigMapping mapping = QConfigMapping::from_dict(dict, notes);
  EXPECT_EQ(QConfigMapping::from_dict(dict), mapping);
  const QConfig first = qconfig("default_qconfig");
  EXPECT_EQ(mapping, QConfigMapping()
                         .set_object_type("torch.nn.Linear", std::nullopt)
                         .set_module_name_regex("foo.*", qconfig("default_dynamic_qconfig"))
                         .set_module_name_regex("f.*", std::nullopt)
                         .set_module_name("a", first)
                         .set_module_name_object_type_order("a", symbol("torch.add"), 0, first));
  EXPECT_THAT(
      notes,
      ElementsAre(
          "'object_type[1]' takes the place of an earlier entry of 'torch.nn.Linear'",
          "'module_name_regex[2]' takes the place of an earlier entry of 'foo.*'",
          "'module_name[1]' takes the place of an earlier entry of 'a'",
          "'module_name_object_type_order[1]' takes the place of an earlier entry of 'a', 'torch.add', 0"));
}

}  // namespace repeated_entries_test
}  // namespace tsq
