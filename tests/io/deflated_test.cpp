// Long text in a record of a file.

#include "io/deflated.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tsq {
namespace deflated_test {

TEST(Deflated, GivesTheTextBackInLessRoom) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += R"({"node":"conv","placement":"int8"},)";
  const nlohmann::json json = io::deflated(text);
  EXPECT_EQ(io::inflated(json), text);
  EXPECT_LT(json.dump().size(), text.size() / 20);
  EXPECT_EQ(io::inflated(io::deflated("")), "");
}

TEST(Deflated, WhatIsDamagedOrTooLargeIsNoText) {
  nlohmann::json json = io::deflated("a text that is longer than nothing");
  const auto with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json changed = json;
    changed[key] = value;
    return io::inflated(changed);
  };
  EXPECT_EQ(with("size", 7), std::nullopt);
  EXPECT_EQ(with("size", 7'000), std::nullopt);
  EXPECT_EQ(with("size", std::uint64_t{1} << 40), std::nullopt);
  EXPECT_EQ(with("size", -1), std::nullopt);
  EXPECT_EQ(with("deflated", "AAAA"), std::nullopt);
  EXPECT_EQ(with("deflated", "no Base64!"), std::nullopt);
  EXPECT_EQ(with("deflated", 3), std::nullopt);
  EXPECT_EQ(io::inflated(nlohmann::json::array()), std::nullopt);
}

}  // namespace deflated_test
}  // namespace tsq
