// Regexes of module names are Python's: which paths re.match finds, and what it refuses.
#include <gtest/gtest.h>
#include <tsq/error.h>
#include <tsq/qconfig_mapping.h>

#include "backends/pytorch_tables.h"
#include "specification/quotations.h"

namespace tsq {
namespace regex_test {

using nlohmann::json;

bool decides(const std::string& regex, const std::string& path) {
  const auto mapping = QConfigMapping().set_module_name_regex(regex, qconfig("default_qconfig"));
  const QConfigQuery query{.targets = {symbol("torch.nn.Linear")}, .is_module = true, .module_path = path};
  return find_qconfig(mapping, query).source == QConfigSource::ModuleNameRegex;
}

/// null where the regex is refused.
json answers(const std::string& regex, const json& paths) {
  try {
    json found = json::array();
    for (const json& path : paths) {
      if (decides(regex, path.get<std::string>())) found.push_back(path);
    }
    return found;
  } catch (const Error&) {
    return nullptr;
  }
}

TEST(SpecRegex, EveryRegexFindsAndRefusesWhatPythonDoes) {
  TSQ_SAYS("QConfigMapping",
           "set_module_name_regex : sets the QConfig for modules matching the given regex string");
  TSQ_SAYS("re",
           "If zero or more characters at the beginning of string match the regular expression pattern");
  const json tables = pytorch_tables();
  if (tables.contains("unavailable")) GTEST_SKIP() << tables.at("unavailable").get<std::string>();
  const json& regexes = tables.at("regexes");
  ASSERT_GT(regexes.at("answers").size(), 70u);
  for (const json& entry : regexes.at("answers")) {
    const auto regex = entry.at(0).get<std::string>();
    EXPECT_EQ(answers(regex, regexes.at("paths")), entry.at(1)) << regex;
  }
}

TEST(SpecRegex, LookBehindFlagsAndNamedGroupsWork) {
  EXPECT_TRUE(decides(R"(.*(?<=bar\.)conv)", "foo.bar.conv"));
  EXPECT_FALSE(decides(R"(.*(?<=bar\.)conv)", "foo.baz.conv"));
  EXPECT_TRUE(decides("(?i)LAYER", "layer1.0"));
  EXPECT_TRUE(decides(R"((?P<a>\w+)\.(?P=a))", "block.block"));
}

TEST(SpecRegex, ARegexThatNeverEndsIsAnErrorAndNotASilence) {
  EXPECT_THROW((void)decides("(x+x+)+[yz]", std::string(200, 'x')), Error);
}

}  // namespace regex_test
}  // namespace tsq
