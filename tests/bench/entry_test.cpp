#include <gmock/gmock.h>
#include <tsq/bench/entry.h>
#include <tsq/error.h>

#include <nlohmann/json.hpp>

namespace tsq::bench {
namespace entry_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(name_of(entry));
  return names;
}

TEST(Entries, SettingsStandAfterTheLastAt) {
  const Setting setting =
      setting_from("a/model.pt@onednn,threads=2,batch=16,memory=system,channels_last,frozen");
  EXPECT_EQ(setting.path, "a/model.pt");
  EXPECT_EQ(setting.engine, "onednn");
  EXPECT_EQ(setting.threads, 2);
  EXPECT_EQ(setting.batch, 16);
  EXPECT_EQ(setting.memory, Memory::System);
  EXPECT_TRUE(setting.channels_last);
  EXPECT_EQ(setting.form, Form::Frozen);
  EXPECT_FALSE(setting_from("model.pt").form.has_value());
}

TEST(Entries, AnAtWithinAPathIsPartOfThePath) {
  EXPECT_EQ(setting_from("me@home/model.pt").path, "me@home/model.pt");
  EXPECT_EQ(setting_from("model@v2.pt").path, "model@v2.pt");
  EXPECT_EQ(setting_from("model@v2.pt@x86").path, "model@v2.pt");
}

TEST(Entries, AnUnknownSettingIsRefusedWithWhatThereIs) {
  for (const char* text : {"m.pt@fast", "m.pt@threads=0", "m.pt@threads=two", "m.pt@batch=", "m.pt@x86,"}) {
    try {
      setting_from(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("is no setting of a model")) << text;
    }
  }
}

TEST(Entries, AFloatFileIsMeasuredAsFastAsLibTorchMakesItAndAsItIs) {
  const Choice choice{.settings = {setting_from("float.pt"), setting_from("int8.pt")}, .threads = 1};
  const std::vector<Entry> entries = entries_of(choice, {true, false});
  EXPECT_THAT(names_of(entries),
              ElementsAre("float.pt optimized, threads 1", "float.pt, threads 1", "int8.pt, threads 1"));
  EXPECT_TRUE(entries[0].is_optional);
  EXPECT_FALSE(entries[1].is_optional);
}

TEST(Entries, TheOptimizedFormIsReadUnderItsEarlierName) {
  EXPECT_EQ(setting_from("float.pt@fused").form, Form::Optimized);
  nlohmann::json old = to_json(Entry{.setting = setting_from("float.pt@optimized")});
  old["form"] = "fused";
  EXPECT_EQ(name_of(entry_from(old)), "float.pt optimized");
}

TEST(Entries, AFormThatWasAskedForIsTheOnlyOneAndNotOptional) {
  const Choice choice{.settings = {setting_from("float.pt@frozen")}};
  const std::vector<Entry> entries = entries_of(choice, {true});
  EXPECT_THAT(names_of(entries), ElementsAre("float.pt frozen"));
  EXPECT_FALSE(entries[0].is_optional);
}

TEST(Entries, EachBatchAndConcurrencyHasABaselineOfItsOwn) {
  const Choice choice{.settings = {setting_from("a.pt@as_saved"), setting_from("b.pt")},
                      .batches = {1, 16},
                      .concurrency = {1, 4}};
  const std::vector<Entry> entries = entries_of(choice, {true, false});
  EXPECT_THAT(names_of(entries), ElementsAre("a.pt, batch 1", "b.pt, batch 1", "a.pt, batch 1, 4 at once",
                                             "b.pt, batch 1, 4 at once", "a.pt, batch 16", "b.pt, batch 16",
                                             "a.pt, batch 16, 4 at once", "b.pt, batch 16, 4 at once"));
  for (std::size_t i = 0; i < entries.size(); ++i) EXPECT_EQ(baseline_of(entries, i), i - i % 2);
}

TEST(Entries, ABatchOfItsOwnIsMeasuredOnceAndComparedWithTheFirst) {
  const Choice choice{.settings = {setting_from("a.pt@as_saved"), setting_from("b.pt@batch=8")},
                      .batches = {1, 16}};
  const std::vector<Entry> entries = entries_of(choice, {true, false});
  EXPECT_THAT(names_of(entries), ElementsAre("a.pt, batch 1", "b.pt, batch 8", "a.pt, batch 16"));
  EXPECT_EQ(baseline_of(entries, 1), 1U) << "nothing else has its batch size";
}

TEST(Entries, JsonKeepsAnEntry) {
  Entry entry{.setting = setting_from("m.pt@onednn,threads=2,memory=system,channels_last,optimized"),
              .batch = 4,
              .concurrency = 3};
  EXPECT_EQ(name_of(entry_from(to_json(entry))), name_of(entry));
  EXPECT_EQ(to_json(entry_from(to_json(Entry{.setting = setting_from("m.pt")}))),
            to_json(Entry{.setting = setting_from("m.pt")}));
}

}  // namespace entry_test
}  // namespace tsq::bench
