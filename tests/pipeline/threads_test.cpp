// Verbs in several threads at once, each for an engine of its own, make what they make one after another.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>
#include <tsq/recipe.h>

#include <array>
#include <sstream>
#include <string>
#include <thread>

#include "support/small_models.h"

namespace tsq {
namespace threads_test {

using torch::jit::Module;

constexpr std::array<const char*, 4> kEngines{"x86", "fbgemm", "qnnpack", "onednn"};

std::vector<Sample> samples() {
  torch::manual_seed(5);
  std::vector<Sample> result;
  for (int i = 0; i < 4; ++i) result.push_back({torch::randn({2, 3, 8, 8})});
  return result;
}

/// The bytes of the lowered model.
std::string quantized(const Module& model, const std::string& engine, Recipe recipe,
                      const std::vector<Sample>& data) {
  const BackendConfig backend = backend_config(engine);
  const QConfigMapping mapping =
      recipe == Recipe::Best ? best_qconfig_mapping(engine) : default_qconfig_mapping(engine);
  Prepared prepared =
      prepare(model, mapping, backend, {.recipe = recipe, .target_cpu = TargetCpu::WithoutVnni});
  calibrate(prepared, data);
  std::ostringstream file;
  convert(prepared, backend).module().save(file);
  return file.str();
}

TEST(Threads, OfDifferentEnginesMakeWhatTheyMakeOneAfterAnother) {
  torch::manual_seed(3);
  const Module model = testing::conv_bn_relu();
  const std::vector<Sample> data = samples();
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    const at::QEngine before = at::globalContext().qEngine();
    std::array<std::string, kEngines.size()> alone;
    for (std::size_t i = 0; i < kEngines.size(); ++i) alone[i] = quantized(model, kEngines[i], recipe, data);
    constexpr std::size_t kThreads = 8;
    std::array<std::string, kThreads> together;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i)
      threads.emplace_back(
          [&, i] { together[i] = quantized(model, kEngines[i % kEngines.size()], recipe, data); });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < kThreads; ++i)
      EXPECT_EQ(together[i], alone[i % kEngines.size()]) << kEngines[i % kEngines.size()];
    EXPECT_EQ(at::globalContext().qEngine(), before) << "nobody's engine is left";
  }
}

}  // namespace threads_test
}  // namespace tsq
