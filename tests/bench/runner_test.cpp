#include <gtest/gtest.h>
#include <sys/resource.h>
#include <tsq/engine_lock.h>
#include <tsq/runner.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/known_engines.h"
#include "support/best_model.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace runner_test {

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
       {RunnerOptions{}, RunnerOptions{.keep_memory = true}, RunnerOptions{.threads = 1}}) {
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
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have an allocator of their own";
#endif
  keep_freed_memory();
  // More than glibc ever keeps by itself: by default, each of these is mapped and faulted in anew.
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
    EXPECT_EQ(at::globalContext().qEngine(), at::QEngine::FBGEMM);
  }
  model.save(file_);
  at::globalContext().setQEngine(at::QEngine::FBGEMM);
  EXPECT_EQ(Runner(file_).engine(), at::QEngine::FBGEMM);
}

/// A quantized file of an engine, the data that it is called with, and what it returns in a single call.
struct EngineCase {
  std::string file;
  at::Tensor input;
  at::Tensor wanted;
};

/// One file for each engine, which differ in their kernels and packed weights.
class RunnersOfAllEngines : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(1);
    for (const std::string_view engine : known_engines()) {
      const std::string name(engine);
      torch::jit::Module model = testing::conv_relu_with_skip();
      model.eval();
      const at::Tensor input = torch::randn({2, 3, 16, 16});
      const std::string file = folder_.file(name + ".pt");
      save(testing::best_model(model, input, name), file);
      cases_.push_back({.file = file, .input = input, .wanted = Runner(file)({input}).toTensor()});
    }
    at::globalContext().setQEngine(at::QEngine::FBGEMM);
  }
  void TearDown() override { at::globalContext().setQEngine(former_); }

  /// Runs `work(case)` in four threads a case, all at once; the number of times that it was right.
  template <typename Work>
  std::vector<int> right(const Work& work) {
    constexpr std::size_t kThreads = 4;
    std::vector<int> counts(kThreads * cases_.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < counts.size(); ++i)
      threads.emplace_back([&, i] { counts[i] = work(i % cases_.size()); });
    for (std::thread& thread : threads) thread.join();
    return counts;
  }

  testing::TemporaryFolder folder_{};
  std::vector<EngineCase> cases_{};

 private:
  at::QEngine former_{at::globalContext().qEngine()};
};

TEST_F(RunnersOfAllEngines, CalledAtOnceReturnWhatSingleCallsReturn) {
  constexpr int kCalls = 200;
  std::vector<Runner> runners;
  for (const EngineCase& each : cases_) runners.emplace_back(each.file);
  const std::vector<int> counts = right([&](std::size_t index) {
    int equal = 0;
    try {
      for (int i = 0; i < kCalls; ++i)
        equal += runners[index]({cases_[index].input}).toTensor().equal(cases_[index].wanted) ? 1 : 0;
    } catch (const std::exception& error) {
      ADD_FAILURE() << cases_[index].file << ": " << error.what();
    }
    return equal;
  });
  EXPECT_EQ(counts, std::vector<int>(counts.size(), kCalls));
  EXPECT_EQ(at::globalContext().qEngine(), at::QEngine::FBGEMM);
}

TEST_F(RunnersOfAllEngines, LoadedAtOncePackTheirOwnWeights) {
  constexpr int kLoads = 20;
  const std::vector<int> counts = right([&](std::size_t index) {
    int equal = 0;
    try {
      for (int i = 0; i < kLoads; ++i) {
        Runner runner(cases_[index].file);
        equal += runner({cases_[index].input}).toTensor().equal(cases_[index].wanted) ? 1 : 0;
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << cases_[index].file << ": " << error.what();
    }
    return equal;
  });
  EXPECT_EQ(counts, std::vector<int>(counts.size(), kLoads));
  EXPECT_EQ(at::globalContext().qEngine(), at::QEngine::FBGEMM);
}

TEST_F(RunnersOfAllEngines, FilesOfTheLibraryLoadAtOnceToo) {
  constexpr int kLoads = 10;
  const std::vector<int> counts = right([&](std::size_t index) {
    int equal = 0;
    try {
      const at::QEngine engine = engine_of_file(cases_[index].file);
      for (int i = 0; i < kLoads; ++i) {
        torch::jit::Module module = load(cases_[index].file);
        module.eval();
        const EngineHold hold(engine);
        equal += module.forward({cases_[index].input}).toTensor().equal(cases_[index].wanted) ? 1 : 0;
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << cases_[index].file << ": " << error.what();
    }
    return equal;
  });
  EXPECT_EQ(counts, std::vector<int>(counts.size(), kLoads));
}

}  // namespace runner_test
}  // namespace tsq
