#include "config/json.h"

#include <gtest/gtest.h>

#include <array>

#include "config/expect_error.h"

namespace tsq {
namespace json_test {

TEST(Json, MalformedTextIsNamedWithLineAndColumn) {
  try {
    (void)parse_json("{\n  \"a\": 1,\n  \"b\" 2\n}", "q.json");
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with("q.json is not JSON: line 3, column 7: ")) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  }
}

TEST(Json, EmptyTextIsAnError) { EXPECT_THROW(parse_json("", "q.json"), Error); }

TEST(Json, TruncatedTextIsAnError) { EXPECT_THROW(parse_json("{\"a\": [1, 2", "q.json"), Error); }

TEST(Json, BytesThatAreNoTextAreAnError) {
  EXPECT_THROW(parse_json(std::string_view("\x80\x02\x00PK\xff", 6), "q.json"), Error);
}

TEST(Json, AKeyTwiceInOneObjectIsAnError) {
  expect_error("q.json has the key 'a' twice in one object; keep one of them",
               [] { (void)parse_json(R"({"x": {"a": 1, "a": 2}})", "q.json"); });
}

TEST(Json, AKeyInTwoObjectsIsNoError) {
  EXPECT_EQ(parse_json(R"([{"a": 1}, {"a": {"a": 2}}])", "q.json").size(), 2u);
}

TEST(Json, ManyBracketsDoNotOverflowTheStack) {
  EXPECT_THROW(parse_json(std::string(100000, '['), "q.json"), Error);
}

TEST(Json, DocumentsNestUpToALimit) {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + "1" + std::string(levels, ']');
  };
  EXPECT_NO_THROW((void)parse_json(nested(64), "q.json"));
  expect_error("q.json nests deeper than 64 levels", [&] { (void)parse_json(nested(65), "q.json"); });
}

TEST(Json, ManyObjectsInOneListAreRead) {
  constexpr std::size_t kObjects = 100'000;
  std::string text = "[{}";
  for (std::size_t i = 1; i < kObjects; ++i) text += R"(,{"":{}})";
  EXPECT_EQ(parse_json(text + "]", "q.json").size(), kObjects);
}

TEST(Json, AListHasNoMoreEntriesThanAreOfUse) {
  const nlohmann::json list = std::vector<int>(kMostEntries + 1);
  expect_error("at 'a': got 10001 entries, and no more than 10000 are read",
               [&] { (void)JsonValue(list, "a").elements("numbers"); });
  EXPECT_EQ(JsonValue(list, "a").elements("numbers", kMostModules).size(), kMostEntries + 1);
}

TEST(Json, UnknownKeysAreNamedWithTheirPathAndTheNearestKey) {
  const nlohmann::json document = {{"wieght", 1}};
  constexpr std::array<std::string_view, 2> kKeys{"activation", "weight"};
  expect_error("at 'a[2]': a QConfig has no key 'wieght'; did you mean 'weight'?",
               [&] { JsonValue(document, "a[2]").expect_object("QConfig", kKeys); });
}

TEST(Json, WrongTypesShowWhatWasGotAndWanted) {
  const nlohmann::json text = "yes";
  expect_error("at 'a.b': got string \"yes\", wanted true or false",
               [&] { (void)JsonValue(text, "a.b").boolean(); });
  expect_error("at 'a.b': got string \"yes\", wanted a whole number",
               [&] { (void)JsonValue(text, "a.b").integer(); });
  const nlohmann::json fraction = 1.5;
  expect_error("at 'n': got number 1.5, wanted a whole number",
               [&] { (void)JsonValue(fraction, "n").integer(); });
}

TEST(Json, NumbersBeyondSixtyFourBitsAreRefused) {
  const nlohmann::json huge = nlohmann::json::parse("18446744073709551615");
  EXPECT_THROW((void)JsonValue(huge).integer(), Error);
}

}  // namespace json_test
}  // namespace tsq
