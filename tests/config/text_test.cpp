#include "base/text.h"

#include <gtest/gtest.h>
#include <tsq/error.h>

#include <array>
#include <utility>
#include <vector>

#include "base/module_source.h"
#include "base/registry.h"

namespace tsq {
namespace text_test {

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

TEST(Text, FindsNothingForAWordOfMegabytesAtOnce) {
  EXPECT_EQ(nearest(std::string(3'000'000, 'x'), kEngines), "");
}

TEST(Text, FindsTheClassOfAModuleInItsSource) {
  EXPECT_EQ(class_in_source("class A(Module):\n", "module"), "A");
  EXPECT_EQ(class_in_source("# class B(Module)\nclass  C_1 ( Module ):\n", "module"), "C_1");
  const std::string longest(300'000, 'a');
  EXPECT_EQ(class_in_source("class " + longest + "(Module):\n", "module"), longest);
  for (const char* none : {"", "class", "class A:", "classA(Module)", " class A(Module)", "class A(Other)"})
    EXPECT_THROW(class_in_source(none, "module"), Error) << none;
}

TEST(Text, FindsNothingForAWordThatIsFarFromAll) { EXPECT_EQ(nearest("tensorrt", kEngines), ""); }

TEST(Text, SuggestsTheNearestElseListsAll) {
  EXPECT_EQ(suggestion("x68", kEngines), "did you mean 'x86'?");
  EXPECT_EQ(suggestion("tensorrt", kEngines), "known: 'fbgemm', 'x86', 'qnnpack' and 'onednn'");
}

TEST(Text, FindsWholeWordsAlone) {
  EXPECT_EQ(split_words("bins dtype"), (std::vector<std::string_view>{"bins", "dtype"}));
  EXPECT_TRUE(has_word("bins dtype eps", "dtype"));
  EXPECT_FALSE(has_word("bins dtype eps", "type"));
  EXPECT_FALSE(has_word("", "eps"));
}

TEST(Text, TakesAPrefixAwayWhereThereIsOne) {
  EXPECT_EQ(without_prefix("torch.qint8", "torch."), "qint8");
  EXPECT_EQ(without_prefix("qint8", "torch."), "qint8");
}

TEST(Registry, KeepsTheOrderOfRegistrationAndTheLastValueOfAName) {
  Registry<int> registry;
  registry.set("b", 1);
  const std::string unnamed = registry.add_without_name(2);
  registry.set("a", 3);
  registry.set("b", 4);
  EXPECT_EQ(registry.names(), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(registry.find("b"), 4);
  EXPECT_EQ(registry.index_of("a"), 2u);
  EXPECT_EQ(registry.at(1), (std::pair<std::string, int>{unnamed, 2}));
  EXPECT_EQ(registry.find("c"), std::nullopt);
}

}  // namespace text_test
}  // namespace tsq
