// Archives are looked at before LibTorch reads them.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <torch/script.h>
#include <tsq/data.h>
#include <tsq/error.h>
#include <tsq/quantize.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "io/archive_file.h"
#include "support/temporary_folder.h"

namespace tsq::testing {
namespace archive_test {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Archives : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name); }

  /// What load says of a model whose records `change` has changed.
  std::string refusal(const std::function<void(Records&)>& change) const {
    save_changed(path("m.pt"), change);
    return refusal_of_file();
  }
  std::string refusal_of_file() const {
    return refusal_of([&] { load(path("m.pt")); });
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Archives, AWholeOneLoads) {
  EXPECT_EQ(refusal([](Records&) {}), "");
}

TEST_F(Archives, AStorageIsAsLongAsThePickleSays) {
  EXPECT_THAT(refusal([](Records& records) { records.at("data/0").resize(20); }),
              HasSubstr("its record 'data/0' has 20 bytes, and 24 belong there"));
  EXPECT_THAT(refusal([](Records& records) { records.at("data/0").clear(); }), HasSubstr("has 0 bytes"));
}

TEST_F(Archives, WhatLibTorchDoesNotReadIsLeftAlone) {
  EXPECT_EQ(refusal([](Records& records) {
              records["traced_inputs.pkl"] = records.at("data.pkl");
              records["traced_inputs/0"] = "";
              records["extra/mine.pkl"] = "no pickle";
            }),
            "");
}

TEST_F(Archives, APickleIsFollowedFirst) {
  EXPECT_THAT(
      refusal([](Records& records) { replace(records.at("data.pkl"), "K\x02K\x03t", "K\x02K\x07t"); }),
      HasSubstr("'data.pkl' has a tensor of the shape [2, 7] that reaches beyond its storage"));
  EXPECT_THAT(refusal([](Records& records) { records.at("data.pkl").resize(40); }),
              HasSubstr("is cut short"));
}

TEST_F(Archives, ATensorHoldsNumbers) {
  EXPECT_THAT(refusal([](Records& records) {
                replace(records.at("data.pkl"), "X\x03\0\0\0cpu"s, "X\x04\0\0\0meta"s);
              }),
              HasSubstr("'data.pkl' has a tensor on the device 'meta', which holds no numbers"));
}

TEST_F(Archives, AnAttributeHasTheTypeThatItsClassDeclares) {
  EXPECT_THAT(refusal([](Records& records) { replace(records.at("data.pkl"), "K\x05", "\x88"); }),
              HasSubstr("its attribute 'k' is a value of type bool, and its code declares int"));
  EXPECT_THAT(refusal([](Records& records) { replace(records.at("data.pkl"), "K\x05", "N"); }),
              HasSubstr("its attribute 'k'"));
}

TEST_F(Archives, SourcePositionsLieWithinTheirTexts) {
  const auto damage = [](Records& records) {
    for (auto& [name, bytes] : records) {
      if (name.ends_with(".debug_pkl")) bytes = "\x80\x02)."s;
    }
  };
  EXPECT_THAT(refusal(damage), HasSubstr("does not hold source positions"));
}

TEST_F(Archives, TheDirectoryAgreesWithTheRecords) {
  save_model(path("m.pt"));
  std::fstream file(path("m.pt"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8);  // the method of the first record, in its own header
  file.write("\x08", 1);
  file.close();
  EXPECT_THAT(refusal_of_file(), HasSubstr("is an archive that is cut short or damaged"));
  save_model(path("m.pt"));
  std::filesystem::resize_file(path("m.pt"), std::filesystem::file_size(path("m.pt")) - 30);
  EXPECT_THAT(refusal_of_file(), HasSubstr("cut short or damaged"));
}

TEST_F(Archives, APipeIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(path("m.pt").c_str(), 0600), 0);
  EXPECT_THAT(refusal_of_file(), HasSubstr("is not a regular file"));
}

TEST_F(Archives, DataIsLookedAtInTheSameWay) {
  save_changed(path("m.pt"), [](Records& records) {
    const std::string storage = records.at("data/0").substr(0, 8);
    const std::string pickle = records.at("data.pkl");
    const auto begin = pickle.find("ctorch._utils");
    records = {{"data.pkl", "\x80\x02" + pickle.substr(begin, pickle.find("tR", begin) + 2 - begin) + "."},
               {"data/0", storage},
               {"version", "3\n"}};
  });
  try {
    load_samples(path("m.pt"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadData);
    EXPECT_THAT(error.what(), HasSubstr("its record 'data/0' has 8 bytes, and 24 belong there"));
  }
}

}  // namespace archive_test
}  // namespace tsq::testing
