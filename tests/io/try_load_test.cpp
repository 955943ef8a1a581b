// Files that end the process that loads them end a child.
#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/try_load.h>

#include <string>

#include "io/archive_file.h"
#include "support/temporary_folder.h"

namespace tsq::testing {
namespace try_load_test {

using ::testing::HasSubstr;

class TryLoad : public ::testing::Test {
 protected:
  std::string path() const { return folder_.file("m.pt"); }

  std::string refusal(const LoadLimits& limits) const {
    return refusal_of([&] { try_load(path(), limits); });
  }
  std::string refusal() const { return refusal(load_limits(path())); }

  /// A model that does `work` when it is loaded.
  void save_working(const std::string& work) const {
    torch::jit::Module module("M");
    module.register_attribute("k", c10::IntType::get(), std::int64_t{5});
    module.define("def __getstate__(self):\n  return self.k\ndef __setstate__(self, k: int):\n" + work +
                  "  self.k = k\n");
    module.save(path());
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(TryLoad, ASoundFileLoads) {
  save_model(path());
  EXPECT_EQ(refusal(), "");
}

TEST_F(TryLoad, WhatLoadSaysIsSaid) { EXPECT_THAT(refusal(), HasSubstr("does not exist; check the path")); }

TEST_F(TryLoad, CodeThatEndsTheParserEndsTheChild) {
  save_changed(path(), [](Records& records) {
    for (auto& [name, bytes] : records) {
      if (name.ends_with(".py"))
        replace(bytes, "return ",
                "return " + std::string(200000, '(') + "x" + std::string(200000, ')') + " + ");
    }
  });
  EXPECT_THAT(refusal(), HasSubstr("LibTorch ends by signal 11 (Segmentation fault) when it loads '"));
}

TEST_F(TryLoad, CodeThatDoesNotEndIsEnded) {
  save_working("  while k > 0:\n    k = k + 1 - 1\n");
  EXPECT_THAT(refusal({.bytes = 1'000'000'000, .seconds = 1}),
              HasSubstr("takes more than 1 s of processor time"));
}

TEST_F(TryLoad, CodeThatTakesTooMuchMemoryGetsNone) {
  save_working("  k = k + int(torch.zeros([2000000000]).numel()) * 0\n");
  EXPECT_THAT(refusal({.bytes = 200'000'000, .seconds = 20}), HasSubstr("memory"));
}

}  // namespace try_load_test
}  // namespace tsq::testing
