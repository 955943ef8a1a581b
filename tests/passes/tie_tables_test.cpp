// Tables of embeddings that are the weight of a linear layer, too.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/engine_lock.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "backends/kernels/engine.h"
#include "passes/ranges/passes.h"
#include "passes/weights/passes.h"
#include "support/best_model.h"
#include "support/calibrated_model.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"

namespace tsq {
namespace tie_tables_test {

using torch::jit::Module;

constexpr int64_t kWords = 400;
constexpr int64_t kWidth = 64;

struct Options {
  bool has_own_head{false};
  double outlier{1};  ///< what one channel of the norm is multiplied with
  std::string lookup{"torch.embedding(self.table, x)"};
  std::string head{"torch.linear(y, self.head)"};
};

/// Words, a norm, and a head whose weight they are.
Module language_model(const Options& options = {}) {
  torch::manual_seed(51);
  Module model = testing::user_module("Language");
  const at::Tensor table = torch::randn({kWords, kWidth}) * 0.3;
  Module norm = testing::layer_norm(kWidth);
  norm.attr("weight").toTensor().detach()[5] = options.outlier;
  model.register_parameter("table", table, false);
  model.register_parameter("head", options.has_own_head ? torch::randn({kWords, kWidth}) : table, false);
  model.register_module("norm", norm);
  model.define(fmt::format("def forward(self, x):\n  y = self.norm.forward({})\n  return {}\n",
                           options.lookup, options.head));
  return model;
}

at::Tensor ids() {
  torch::manual_seed(52);
  return torch::randint(kWords, {4, 60});
}

Module quantized(const Module& model, const QConfigMapping& mapping, const std::string& engine) {
  const BackendConfig backend = with_weight_only(backend_config(engine));
  Prepared prepared = prepare(model, mapping, backend, {.machine = testing::slow_in_float()});
  calibrate(prepared, std::vector<Sample>{{ids()}});
  return convert(prepared, backend);
}

std::string saved(const Module& module) {
  std::ostringstream file;
  module.save(file);
  return file.str();
}

Module loaded(const std::string& bytes) {
  std::istringstream file(bytes);
  return torch::jit::load(file);
}

/// How often the numbers of the table fit into a file, a byte each.
int64_t tables_in(const Module& module) {
  return static_cast<int64_t>(saved(module).size()) / (kWords * kWidth);
}

testing::CalibratedModel reference_of(const Module& model) {
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), with_weight_only(backend_config("x86")),
                              {.machine = testing::slow_in_float()});
  calibrate(prepared, std::vector<Sample>{{ids()}});
  testing::CalibratedModel result = testing::calibrated_model(prepared);
  passes::take_channel_statistics(result.model, result.context);
  passes::take_input_products(result.model, result.context);
  testing::make_reference(result);
  return result;
}

const ir::EmbeddingTable& table_of(const ir::Model& model) {
  const auto found = std::ranges::find_if(
      model.calls, [](const ir::ModuleCall& call) { return call.embedding.has_value(); });
  if (found == model.calls.end()) throw std::runtime_error("no table");
  return *found->embedding;
}

TEST(TieTables, ATableTakesTheCodesOfItsHead) {
  auto [model, context] = reference_of(language_model());
  ASSERT_EQ(table_of(model).weight_qparams->dtype, c10::ScalarType::QUInt8);
  EXPECT_TRUE(passes::tie_tables(model, context));
  EXPECT_EQ(table_of(model).weight_qparams->dtype, c10::ScalarType::QInt8);
  EXPECT_FALSE(passes::tie_tables(model, context)) << "it is tied already";
}

TEST(TieTables, ATableWithoutAHeadKeepsItsCodes) {
  auto [model, context] = reference_of(language_model({.has_own_head = true}));
  EXPECT_FALSE(passes::tie_tables(model, context));
  EXPECT_EQ(table_of(model).weight_qparams->dtype, c10::ScalarType::QUInt8);
}

TEST(TieTables, AFileHoldsWordsAndHeadOnce) {
  for (const char* head : {"torch.linear(y, self.head)", "torch.matmul(y, self.head.t())"}) {
    const Module model = language_model({.head = head});
    const at::Tensor wanted = testing::run(model, ids());
    for (const std::string engine : {"x86", "fbgemm", "onednn", "qnnpack"}) {
      const EngineHold hold(engine_of(backend_config(engine)));
      for (const QConfigMapping& mapping : {best_qconfig_mapping(engine), best_dynamic_qconfig_mapping()}) {
        const Module result = quantized(model, mapping, engine);
        EXPECT_EQ(tables_in(result), 1) << engine << head;
        const Module again = loaded(saved(result));
        EXPECT_TRUE(at::equal(testing::run(result, ids()), testing::run(again, ids()))) << engine << head;
        EXPECT_TRUE(at::equal(testing::run(result, ids()), testing::run(loaded(saved(again)), ids())));
        EXPECT_GT(testing::sqnr(wanted, testing::run(again, ids())), 30) << engine << head;
      }
    }
  }
}

TEST(TieTables, AHeadWithAWeightOfItsOwnKeepsIt) {
  const Module model = language_model({.has_own_head = true});
  EXPECT_EQ(tables_in(quantized(model, best_qconfig_mapping("x86"), "x86")), 2);
}

TEST(TieTables, ATableThatStaysFloatLeavesTheHeadAsItIs) {
  QConfigMapping mapping = best_qconfig_mapping("x86");
  mapping.set_object_type("torch.nn.functional.embedding", std::nullopt)
      .set_object_type("torch.nn.Embedding", std::nullopt);
  EXPECT_EQ(tables_in(quantized(language_model(), mapping, "x86")), 4 + 1);
}

TEST(TieTables, TheRowOfPaddingOfABagIsNoRowOfTheWeight) {
  const Module model = language_model({.lookup = "torch.embedding_bag(self.table, x.reshape([-1]), "
                                                 "torch.arange(0, x.numel(), x.size(1)), False, 0, "
                                                 "False, None, False, 7)[0]"});
  const Module result = quantized(model, best_qconfig_mapping("x86"), "x86");
  EXPECT_EQ(tables_in(result), 2);
  EXPECT_GT(testing::sqnr(testing::run(model, ids()), testing::run(loaded(saved(result)), ids())), 30);
}

TEST(TieTables, OutliersInFrontOfTheHeadAreSmoothedAllTheSame) {
  const Module model = language_model({.outlier = 40});
  const Module result = quantized(model, best_qconfig_mapping("x86"), "x86");
  EXPECT_EQ(tables_in(result), 2) << "a scaled weight is another one";
  EXPECT_GT(testing::sqnr(testing::run(model, ids()), testing::run(result, ids())), 30);
}

}  // namespace tie_tables_test
}  // namespace tsq
