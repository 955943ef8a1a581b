// The JSON examples of docs/configuration.md are read by the readers that they document.
#include <gtest/gtest.h>
#include <tsq/custom_config.h>
#include <tsq/equalization.h>

#include <fstream>
#include <sstream>

#include "config/json.h"

namespace tsq {
namespace documentation_test {

std::vector<nlohmann::json> json_examples() {
  std::ifstream file(TSQ_DOCS "/configuration.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str();
  constexpr std::string_view kBegin = "```json\n";
  std::vector<nlohmann::json> examples;
  for (auto at = document.find(kBegin); at != std::string::npos; at = document.find(kBegin, at + 1)) {
    const auto begin = at + kBegin.size();
    examples.push_back(
        parse_json(document.substr(begin, document.find("```", begin) - begin), "docs/configuration.md"));
  }
  return examples;
}

TEST(Documentation, EveryJsonExampleIsReadAndRoundTrips) {
  const auto examples = json_examples();
  ASSERT_EQ(examples.size(), 7u);

  const QConfigMapping mapping = QConfigMapping::from_dict(examples[0]);
  EXPECT_EQ(mapping.module_name_object_type_order_qconfigs().size(), 1u);
  EXPECT_EQ(QConfigMapping::from_dict(mapping.to_dict()), mapping);

  const BackendConfig backend = BackendConfig::from_dict(examples[1]);
  EXPECT_EQ(backend.configs().size(), 2u);
  EXPECT_EQ(BackendConfig::from_dict(backend.to_dict()), backend);

  const PrepareCustomConfig custom = PrepareCustomConfig::from_dict(examples[2]);
  EXPECT_EQ(custom.to_dict(), examples[2]);

  const PrepareCustomConfig standalone = PrepareCustomConfig::from_dict(examples[3]);
  ASSERT_NE(standalone.standalone_module("body.block", symbol("my_package.Other")), nullptr);
  ASSERT_NE(standalone.standalone_module("other", symbol("my_package.Block")), nullptr);

  EXPECT_EQ(PrepareCustomConfig::from_dict(examples[4]).to_dict(), examples[4]);
  EXPECT_EQ(ConvertCustomConfig::from_dict(examples[5]).to_dict(), examples[5]);

  const EqualizationMapping equalization = EqualizationMapping::from_dict(examples[6]);
  EXPECT_EQ(equalization.as_qconfigs().module_name_qconfigs().size(), 1u);
  EXPECT_EQ(EqualizationMapping::from_dict(equalization.to_dict()), equalization);
}

}  // namespace documentation_test
}  // namespace tsq
