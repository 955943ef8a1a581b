// In every unit test: each test begins with the same random numbers, whichever tests ran before it.
#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace tsq {
namespace {

class SameSeed : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& /*test*/) override { at::manual_seed(0); }
};

[[maybe_unused]] const bool kSeeds = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new SameSeed);  // which owns it
  return true;
}();

}  // namespace
}  // namespace tsq
