// NaN and infinity that arise inside a model, from calibrate to convert.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/agreement.h>
#include <tsq/observer.h>
#include <tsq/quantize.h>
#include <tsq/recipe.h>

#include <cmath>
#include <limits>

#include "config/expect_error.h"
#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace non_finite_test {

using ::testing::HasSubstr;
using torch::jit::Module;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// x of [batch, 6, 32] with a padding mask: attention whose scores are -infinity at padding, which is NaN
/// where all is padding; `last` clears that from y.
Module attention(const std::string& last) {
  torch::manual_seed(3);
  Module model = testing::user_module("Attention");
  for (const char* name : {"query", "key", "out", "head"})
    model.register_module(name, testing::linear(32, 32));
  model.define(
      "def forward(self, x, padding):\n"
      "  x = self.query.forward(x)\n"
      "  scores = torch.matmul(x, torch.transpose(self.key.forward(x), 1, 2)) / 6.0\n"
      "  weights = torch.softmax(torch.masked_fill(scores, torch.unsqueeze(padding, 1), -float('inf')), -1)\n"
      "  y = self.head.forward(torch.relu(self.out.forward(torch.matmul(weights, x))))\n"
      "  return " +
      last + "\n");
  model.eval();
  return model;
}

constexpr const char* kByNaN = "torch.masked_fill(y, torch.isnan(y), 0.0)";
constexpr const char* kByMask = "torch.masked_fill(y, torch.unsqueeze(padding.all(1), 1).unsqueeze(1), 0.0)";

enum class Padding { InPart, OfWholeItems };

/// With `OfWholeItems`, every second has an item that is all padding.
std::vector<Sample> samples(Padding kind = Padding::OfWholeItems) {
  torch::manual_seed(4);
  std::vector<Sample> result;
  for (int i = 0; i < 8; ++i) {
    at::Tensor padding = torch::zeros({3, 6}, at::kBool);
    padding[0].slice(0, 4).fill_(true);
    if (kind == Padding::OfWholeItems && i % 2 == 1) padding[2].fill_(true);
    result.push_back({torch::randn({3, 6, 32}), padding});
  }
  return result;
}

Lowered quantized(const Module& model, Recipe recipe, Padding kind = Padding::OfWholeItems) {
  const QConfigMapping mapping =
      recipe == Recipe::Best ? best_qconfig_mapping("x86") : default_qconfig_mapping("x86");
  // Of so small a model, machines have different layers in int8.
  Prepared prepared = prepare(model, mapping, backend_config("x86"),
                              {.recipe = recipe, .machine = testing::slow_in_float(), .decibel_price = 0});
  calibrate(prepared, samples(kind));
  return convert(prepared, backend_config("x86"));
}

double sqnr(const Module& model, const Lowered& lowered, Padding kind = Padding::OfWholeItems) {
  const at::NoGradGuard no_grad;
  Agreement agreement;
  for (const Sample& sample : samples(kind))
    agreement.add(Module(model).forward(sample).toTensor(),
                  Module(lowered.module()).forward(sample).toTensor());
  return agreement.sqnr_db();
}

const Decision& decision(const Lowered& lowered, const std::string& layer) {
  for (const Decision& each : lowered.report().decisions) {
    if (each.layer == layer) return each;
  }
  throw std::runtime_error("no entry of " + layer);
}

TEST(NonFinite, RowsThatAreMaskedLaterAreLeftOutOfRangesAndNoted) {
  const Module model = attention(kByMask);
  for (const Recipe recipe : {Recipe::Best, Recipe::Fx}) {
    const Lowered lowered = quantized(model, recipe);
    EXPECT_TRUE(decision(lowered, "out").quantized);
    EXPECT_THAT(decision(lowered, "out").notes,
                ::testing::Contains(HasSubstr("what it reads held NaN or infinite values in 4 tensors")));
    EXPECT_THAT(decision(lowered, "query").notes, ::testing::Not(::testing::Contains(HasSubstr("NaN"))));
    const double without = sqnr(model, quantized(model, recipe, Padding::InPart), Padding::InPart);
    EXPECT_NEAR(sqnr(model, lowered), without, 1.5);
  }
}

TEST(NonFinite, WhatIsMaskedByItsNaNStaysFloat) {
  const Module model = attention(kByNaN);
  const Lowered lowered = quantized(model, Recipe::Best);
  EXPECT_FALSE(decision(lowered, "out").quantized);
  EXPECT_THAT(decision(lowered, "out").reason, HasSubstr("NaN"));
  EXPECT_TRUE(decision(lowered, "query").quantized);
  const Module by_mask = attention(kByMask);
  EXPECT_GT(sqnr(model, lowered), sqnr(by_mask, quantized(by_mask, Recipe::Best)) - 0.5);
}

TEST(NonFinite, ATensorWithoutAFiniteValueIsUnobserved) {
  torch::manual_seed(5);
  Module model = testing::user_module("Nothing");
  model.register_module("one", testing::linear(32, 32));
  model.register_module("two", testing::linear(32, 32));
  model.define(
      "def forward(self, x, padding):\n  return self.two.forward(self.one.forward(x) * float('nan'))\n");
  model.eval();
  for (const Recipe recipe : {Recipe::Best, Recipe::Fx}) {
    const Lowered lowered = quantized(model, recipe);
    EXPECT_EQ(decision(lowered, "two").quantized, recipe == Recipe::Fx);  // FX takes 1 for the scale
    EXPECT_THAT(decision(lowered, "two").notes, ::testing::Contains(HasSubstr("NaN or infinite")));
    EXPECT_EQ(lowered.report().unobserved_layers.empty(), recipe == Recipe::Best);
  }
}

TEST(NonFinite, AnObserverThatFailsIsNamed) {
  register_observer("mine.Refuses", R"(class Refuses(Module):
  seen : int
  def forward(self, x: Tensor) -> Tensor:
    if torch.numel(x) == 3 * 6 * 32:
      ops.prim.RaiseException("too many values", "builtins.Exception")
    return x
  def calculate_qparams(self) -> Tuple[Tensor, Tensor]:
    return torch.ones([1]), torch.zeros([1], dtype=4)
)");
  QConfig qconfig = default_qconfig_mapping("x86").global_qconfig().value();
  qconfig.activation = {.observer = "mine.Refuses"};
  Prepared prepared = prepare(attention(kByMask), QConfigMapping().set_module_name("out", qconfig),
                              backend_config("x86"), {.recipe = Recipe::Fx});
  try {
    calibrate(prepared, samples());
    FAIL() << "it did not fail";
  } catch (const Error& error) {
    EXPECT_THAT(error.problem(), HasSubstr("the observer of 'matmul.1' fails"));
    EXPECT_THAT(error.problem(), HasSubstr("too many values"));
  }
}

TEST(Agreement, LeavesOutWhatIsNotFiniteInFloat) {
  const at::Tensor wanted =
      at::tensor({1.0F, 2.0F, kNaN, 3.0F, -kInfinity, 1.0F, 1.0F, 2.0F, 4.0F}).view({3, 3});
  const at::Tensor got = at::tensor({1.0F, 2.0F, 9.0F, 3.0F, -7.0F, 1.0F, 1.0F, 2.0F, 4.0F}).view({3, 3});
  Agreement agreement;
  agreement.add(wanted, got);
  EXPECT_EQ(agreement.sqnr_db(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(agreement.largest_error(), 0);
  EXPECT_EQ(agreement.numbers(), 7U);
  EXPECT_NEAR(agreement.row_cosine().value(), 1, 1e-6);
  EXPECT_FALSE(agreement.equal_bits());
}

TEST(Agreement, IsNotANumberWhereOnlyTheOtherIs) {
  Agreement agreement;
  agreement.add(at::ones({2, 2}), at::full({2, 2}, kNaN));
  EXPECT_TRUE(std::isnan(agreement.sqnr_db()));
}

}  // namespace non_finite_test
}  // namespace tsq
