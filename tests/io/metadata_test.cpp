// The record that tsq writes into its files is a stranger's, too.
#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/quantize.h>

#include <nlohmann/json.hpp>
#include <string>

#include "io/archive_file.h"
#include "support/temporary_folder.h"

namespace tsq::testing {
namespace metadata_test {

using ::testing::HasSubstr;

class Metadata : public ::testing::Test {
 protected:
  std::string refusal(const std::string& record) const {
    const std::string path = folder_.file("m.pt");
    save_changed(path, [&](Records& records) { records["extra/tsq.json"] = record; });
    return refusal_of([&] { read_metadata(path); });
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Metadata, IsAnObjectWithMembersOfTheirTypes) {
  EXPECT_EQ(refusal(R"({"stage": "quantized", "engine": "x86", "unknown": 1})"), "");
  EXPECT_THAT(refusal("[]"), HasSubstr("its record 'tsq.json' holds no object"));
  EXPECT_THAT(refusal(R"({"stage": 7})"), HasSubstr("its record 'tsq.json' has a number as 'stage'"));
  EXPECT_THAT(refusal(R"({"engine": []})"), HasSubstr("has a array as 'engine'"));
  EXPECT_THAT(refusal(R"({"training": "yes"})"), HasSubstr("has a string as 'training'"));
}

TEST_F(Metadata, IsJsonOfABoundedKind) {
  EXPECT_THAT(refusal("{"), HasSubstr("its record 'tsq.json' is not JSON"));
  EXPECT_THAT(refusal(R"({"a": 1e400})"), HasSubstr("a number that is larger than any double"));
  EXPECT_THAT(refusal(R"({"a": )" + std::string(4000, '9') + "}"), HasSubstr("larger than any double"));
  EXPECT_THAT(refusal(std::string(100000, '[')), HasSubstr("nests deeper than 64 levels"));
  EXPECT_THAT(refusal("{}" + std::string(40 << 20, ' ')),
              HasSubstr("has 41.9 MB, and no more than 33.6 MB are read"));
}

}  // namespace metadata_test
}  // namespace tsq::testing
