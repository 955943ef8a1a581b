#include <gtest/gtest.h>
#include <sys/resource.h>
#include <tsq/runner.h>
#include <unistd.h>

#include <filesystem>

#include "support/small_models.h"

namespace tsq {
namespace {

class RunnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = (std::filesystem::temp_directory_path() / ("tsq-runner-" + std::to_string(getpid()))).string();
  }
  void TearDown() override { std::filesystem::remove(file_); }
  std::string file_;
};

TEST_F(RunnerTest, ResultsEqualThoseOfForward) {
  torch::manual_seed(0);
  torch::jit::Module model = testing::conv_bn_relu();
  model.save(file_);
  model.eval();
  for (const RunnerOptions options :
       {RunnerOptions{}, RunnerOptions{.keep_memory = false}, RunnerOptions{.threads = 1}}) {
    Runner runner(file_, options);
    for (int i = 0; i < 3; ++i) {
      const at::Tensor x = torch::randn({4, 3, 16, 16});
      EXPECT_TRUE(runner({x}).toTensor().equal(model.forward({x}).toTensor()));
    }
  }
}

TEST_F(RunnerTest, ChannelsLastChangesTheOrderOfInputsAlone) {
  torch::manual_seed(0);
  torch::jit::Module model = testing::conv_bn_relu();
  model.save(file_);
  model.eval();
  Runner runner(file_, {.channels_last = true});
  const at::Tensor x = torch::randn({4, 3, 16, 16});
  const at::Tensor got = runner({x}).toTensor();
  EXPECT_TRUE(got.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::allclose(got, model.forward({x}).toTensor(), 1e-5, 1e-6));
}

/// Pages that this process has touched for the first time.
long faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST_F(RunnerTest, AFreedPieceOfAnySizeIsThereForTheNextCall) {
  keep_freed_memory();
  // More than glibc ever keeps by itself: as it comes, each of these is mapped and faulted in anew.
  constexpr int64_t kNumbers = int64_t{16} << 20;
  // glibc keeps the small remainders of seven aligned pieces apart before it joins them to larger ones again.
  constexpr int kCallsBefore = 16;
  for (int i = 0; i < kCallsBefore; ++i) at::ones({kNumbers});
  const long before = faults();
  for (int i = 0; i < 4; ++i) at::ones({kNumbers});
  EXPECT_LT(faults() - before, 40);
}

TEST_F(RunnerTest, TheEngineIsTheOneThatTheFileNames) {
  torch::jit::Module model = testing::conv_bn_relu();
  for (const char* text :
       {R"({"engine": "onednn", "stage": "quantized"})", R"({"engine":"onednn","stage":"quantized"})"}) {
    model.save(file_, {{"tsq.json", text}});
    at::globalContext().setQEngine(at::QEngine::FBGEMM);
    EXPECT_EQ(Runner(file_).engine(), at::QEngine::ONEDNN);
  }
  model.save(file_);
  at::globalContext().setQEngine(at::QEngine::FBGEMM);
  EXPECT_EQ(Runner(file_).engine(), at::QEngine::FBGEMM);
}

}  // namespace
}  // namespace tsq
