// Tables of embeddings in static mode of recipe best, whose values need no calibration.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <limits>
#include <sstream>

#include "support/best_model.h"
#include "support/lowered.h"
#include "support/small_models.h"

namespace tsq {
namespace embeddings_test {

using ::testing::HasSubstr;
using torch::jit::Module;

constexpr int64_t kRows = 40;
constexpr int64_t kWidth = 16;

/// A table, and a layer of its width after `lookup`, an expression in `self.table` and `x`.
Module words(const at::Tensor& table, const std::string& lookup = "torch.embedding(self.table, x)") {
  Module model = testing::user_module("Words");
  model.register_parameter("table", table, false);
  model.register_module("layer", testing::linear(table.size(1), 8));
  model.define(fmt::format("def forward(self, x):\n  return self.layer.forward({})\n", lookup));
  return model;
}

at::Tensor random_table(int64_t width = kWidth) {
  torch::manual_seed(41);
  return torch::randn({kRows, width});
}

at::Tensor all_ids() { return torch::arange(kRows).reshape({4, -1}); }

struct Lowered {
  Module module;
  Report report;
};

Lowered quantized(const Module& model, Recipe recipe = Recipe::Best, const std::string& engine = "x86") {
  const BackendConfig backend = with_weight_only(backend_config(engine));
  const QConfigMapping mapping =
      recipe == Recipe::Best ? best_qconfig_mapping(engine) : default_qconfig_mapping(engine);
  Prepared prepared = prepare(model, mapping, backend, {.recipe = recipe});
  calibrate(prepared, std::vector<Sample>{{all_ids()}});
  Lowered result;
  result.module = testing::lowered(convert_to_reference(prepared, backend), backend, &result.report);
  return result;
}

const Decision& decision_of_table(const Report& report) {
  const auto found = std::ranges::find_if(report.decisions, [](const Decision& decision) {
    return decision.op.find("mbedding") != std::string::npos;
  });
  if (found == report.decisions.end()) throw std::out_of_range("no entry for a table");
  return *found;
}

std::size_t bytes_of(const Module& module) {
  std::stringstream file;
  module.save(file);
  return file.str().size();
}

TEST(Embeddings, RecipeBestQuantizesThemInStaticModeToo) {
  const Module model = words(random_table());
  for (const char* engine : {"x86", "fbgemm", "onednn", "qnnpack"}) {
    const Lowered result = quantized(model, Recipe::Best, engine);
    EXPECT_EQ(decision_of_table(result.report).kernel, "quantized::embedding_bag_byte_rowwise_offsets");
    EXPECT_GT(testing::sqnr(testing::run(model, all_ids()), testing::run(result.module, all_ids())), 35)
        << engine;
    EXPECT_LT(bytes_of(result.module), bytes_of(quantized(model, Recipe::Fx, engine).module)) << engine;
  }
}

TEST(Embeddings, RecipeFxLeavesThemFloatInStaticMode) {
  EXPECT_FALSE(decision_of_table(quantized(words(random_table()), Recipe::Fx).report).quantized);
}

TEST(Embeddings, RowsThatTakeMoreBytesInInt8StayFloat) {
  for (const int64_t width : {1, 2, 3}) {
    const Decision decision = decision_of_table(quantized(words(random_table(width))).report);
    EXPECT_EQ(decision.quantized, width == 3) << width;
    EXPECT_EQ(decision.reason.find("so short") != std::string::npos, width < 3) << width;
  }
}

TEST(Embeddings, ATableOfInfiniteValuesStaysFloat) {
  at::Tensor table = random_table();
  table[3].slice(0, 4).fill_(-std::numeric_limits<float>::infinity());
  const Module model = words(table, "torch.softmax(torch.embedding(self.table, x), -1)");
  const Lowered result = quantized(model);
  EXPECT_THAT(decision_of_table(result.report).reason, HasSubstr("infinite"));
  EXPECT_GT(testing::sqnr(testing::run(model, all_ids()), testing::run(result.module, all_ids())), 35);
}

TEST(Embeddings, ATableInFrontOfALogarithmStaysFloat) {
  const Module model = words(random_table().exp(), "torch.log(torch.embedding(self.table, x))");
  EXPECT_THAT(decision_of_table(quantized(model).report).reason, HasSubstr("logarithm"));
}

TEST(Embeddings, ATableThatIsWrittenThroughAViewIsReadAsItIs) {
  Module model = testing::user_module("Renormalised");
  model.register_parameter("table", random_table() * 4, false);
  model.register_module("layer", testing::linear(kWidth, 8));
  model.define(
      "def forward(self, x):\n"
      "  rows = torch.embedding_renorm_(torch.detach(self.table), x, 1.0, 2.0)\n"
      "  return self.layer.forward(torch.embedding(self.table, x))\n");
  const Lowered result = quantized(model.deepcopy());
  const at::Tensor wanted = testing::run(model.deepcopy(), all_ids());
  EXPECT_GT(testing::sqnr(wanted, testing::run(result.module, all_ids())), 30);
}

}  // namespace embeddings_test
}  // namespace tsq
