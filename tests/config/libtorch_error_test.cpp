// What exceptions of LibTorch become in sentences for people.

#include "base/libtorch_error.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace tsq {
namespace libtorch_error_test {

std::string reason(const std::string& text) { return reason_of(std::runtime_error(text)); }

TEST(ReasonOf, SaysTheCauseWithoutThePlaceInLibTorch) {
  EXPECT_EQ(reason("[enforce fail at inline_container.cc:340] . file in archive is not in a subdirectory"),
            "file in archive is not in a subdirectory");
  EXPECT_EQ(reason("index < size INTERNAL ASSERT FAILED at \"/a/b.h\":56, please report a bug to PyTorch. no "
                   "such slot"),
            "no such slot");
  EXPECT_EQ(reason("index < size INTERNAL ASSERT FAILED at \"/a/b.h\":56, please report a bug to PyTorch. "),
            "index < size");
}

TEST(ReasonOf, IsTheFirstLineWithoutAFullStop) { EXPECT_EQ(reason("\n  one.\ntwo"), "one"); }

TEST(ReasonOf, ShortensWhatADamagedFileMakesLong) {
  EXPECT_EQ(reason(std::string(5000, 'a')), std::string(200, 'a') + "…");
  const std::string letters = reason(std::string(199, 'a') + "ä" + std::string(50, 'b'));
  EXPECT_EQ(letters, std::string(199, 'a') + "…");
}

}  // namespace libtorch_error_test
}  // namespace tsq
