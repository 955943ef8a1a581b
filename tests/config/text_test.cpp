#include "base/text.h"

#include <gtest/gtest.h>

#include <array>

namespace tsq {
namespace {

constexpr std::array<std::string_view, 4> kEngines{"fbgemm", "x86", "qnnpack", "onednn"};

TEST(Text, CountsSwappedNeighboursAsOneEdit) {
  EXPECT_EQ(edit_distance("x68", "x86"), 1u);
  EXPECT_EQ(edit_distance("weight", "wieght"), 1u);
}

TEST(Text, CountsInsertionDropAndReplacement) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
}

TEST(Text, IgnoresLetterCase) { EXPECT_EQ(edit_distance("relu", "ReLU"), 0u); }

TEST(Text, FindsTheNearestName) {
  EXPECT_EQ(nearest("qnnpak", kEngines), "qnnpack");
  EXPECT_EQ(nearest("OneDNN", kEngines), "onednn");
}

TEST(Text, FindsTheNameThatWasBrokenOff) { EXPECT_EQ(nearest("fbg", kEngines), "fbgemm"); }

TEST(Text, FindsNothingForAWordThatIsFarFromAll) { EXPECT_EQ(nearest("tensorrt", kEngines), ""); }

TEST(Text, SuggestsTheNearestElseListsAll) {
  EXPECT_EQ(suggestion("x68", kEngines), "did you mean 'x86'?");
  EXPECT_EQ(suggestion("tensorrt", kEngines), "known: 'fbgemm', 'x86', 'qnnpack' and 'onednn'");
}

}  // namespace
}  // namespace tsq
