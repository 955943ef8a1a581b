// Which outputs are scores, and how many of their decisions are the same.
#include "pipeline/decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <tsq/error.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/binomial.h"
#include "config/expect_error.h"
#include "support/small_models.h"

namespace tsq::detail {
namespace decisions_test {

using at::Tensor;
using ::testing::HasSubstr;
using torch::jit::Module;

/// A model of this forward, with a linear layer of 8 features and 5 classes and a convolution of 8 channels
/// and 6 classes.
Module model_of(const std::string& forward) {
  Module model = testing::user_module("Scores");
  model.register_module("linear", testing::linear(8, 5));
  model.register_module("conv", testing::conv2d(8, 6, 1));
  model.define(forward);
  model.eval();
  return model;
}

constexpr const char* kAnyModel = "def forward(self, x):\n  return torch.sin(x) * 3.0\n";

/// What is found of the first output when it has these numbers in a sample each.
JudgedDecisions judged(const Module& model, const std::vector<std::pair<Tensor, Tensor>>& samples,
                       std::vector<NamedDecisions> named = {}, const std::string& place = "output") {
  OutputDecisions decisions(model, std::move(named));
  for (const auto& [wanted, got] : samples) decisions.add(place, wanted, got);
  return decisions.of(place);
}

/// Rows in each of which one of `classes` stands out, along the last dimension.
Tensor clear_rows(std::vector<int64_t> shape, int64_t classes) {
  const Tensor best = torch::randint(classes, shape);
  shape.push_back(classes);
  return torch::randn(shape) + 9 * torch::nn::functional::one_hot(best, classes).to(at::kFloat);
}

JudgedDecisions judged(const std::string& forward, const Tensor& output,
                       const std::string& place = "output") {
  return judged(model_of(forward), {{output, output}}, {}, place);
}

TEST(Decisions, ASoftmaxTellsTheDimensionThroughWhatMovesItsRows) {
  torch::manual_seed(1);
  const Tensor output = clear_rows({2, 7}, 6).softmax(-1);
  const JudgedDecisions found = judged(
      "def forward(self, x):\n"
      "  y = torch.softmax(self.conv.forward(x), 1)\n"
      "  return y.squeeze(3).transpose(1, 2).contiguous()\n",
      output);
  EXPECT_EQ(found.by, ScoresBy::Softmax);
  EXPECT_EQ(found.dim, 2);
  EXPECT_EQ(found.all.rows, 14U);
}

TEST(Decisions, ALogSoftmaxOverDimensionOneIsReadAlongIt) {
  torch::manual_seed(1);
  const Tensor output = clear_rows({2, 7}, 6).log_softmax(-1).transpose(1, 2);
  const JudgedDecisions found = judged(
      "def forward(self, x):\n  return torch.log_softmax(self.conv.forward(x), 1).flatten(2)\n", output);
  EXPECT_EQ(found.by, ScoresBy::LogSoftmax);
  EXPECT_EQ(found.dim, 1);
  EXPECT_EQ(found.all.rows, 14U);
}

TEST(Decisions, OneClassOfASoftmaxIsNoRow) {
  EXPECT_FALSE(judged("def forward(self, x):\n  return torch.softmax(self.linear.forward(x), 1)[:, 1]\n",
                      torch::rand({8}))
                   .is_judged());
}

TEST(Decisions, WhatIsMaskedAfterASoftmaxStaysScores) {
  torch::manual_seed(1);
  const JudgedDecisions found = judged(
      "def forward(self, x):\n"
      "  y = torch.softmax(self.linear.forward(x), -1)\n"
      "  return y * (x[:, :, :1] != 0).to(y.dtype)\n",
      clear_rows({2, 7}, 5).softmax(-1));
  EXPECT_EQ(found.by, ScoresBy::Softmax);
}

TEST(Decisions, AnArgmaxOrATopkTells) {
  torch::manual_seed(1);
  for (const std::string reader : {"y.argmax(1)", "torch.topk(y, 2, 1)[1]", "torch.max(y, 1)[1]"}) {
    const JudgedDecisions found =
        judged("def forward(self, x):\n  y = torch.sin(self.conv.forward(x))\n  return y, " + reader + "\n",
               torch::randn({2, 6, 4, 4}), "output[0]");
    EXPECT_EQ(found.by, ScoresBy::Compared) << reader;
    EXPECT_EQ(found.dim, 1) << reader;
    EXPECT_EQ(found.all.rows, 32U) << reader;
  }
  EXPECT_FALSE(judged("def forward(self, x):\n  y = torch.sin(x)\n  return y, torch.max(y, 1)[0]\n",
                      torch::randn({2, 6, 4, 4}), "output[0]")
                   .is_judged());
}

TEST(Decisions, LabelsAreComparedOneByOne) {
  const Tensor wanted = torch::tensor({3, 1, 4, 1}, at::kLong);
  const Tensor got = torch::tensor({3, 1, 2, 1}, at::kLong);
  for (const std::string labels : {"argmax(y, -1)", "max(y, -1)[1]", "topk(y, 1, -1)[1].squeeze(-1)"}) {
    const std::string forward =
        "def forward(self, x):\n  y = self.linear.forward(x)\n  return torch." + labels + "\n";
    const JudgedDecisions found = judged(model_of(forward), {{wanted, got}, {wanted, wanted}});
    EXPECT_EQ(found.by, ScoresBy::Labels) << labels;
    EXPECT_EQ(found.all.rows, 8U);
    EXPECT_EQ(found.all.agreed, 7U);
    EXPECT_EQ(found.clear.rows, 0U);
    EXPECT_THAT(found.to_text(), HasSubstr("7 of 8 as in float"));
    EXPECT_THAT(found.to_text(), Not(HasSubstr("clear")));
  }
  const JudgedDecisions mask =
      judged(model_of("def forward(self, x):\n  return torch.sigmoid(self.linear.forward(x)) > 0.5\n"),
             {{torch::tensor({true, false}), torch::tensor({true, true})}});
  EXPECT_EQ(mask.by, ScoresBy::Labels);
  EXPECT_EQ(mask.all.agreed, 1U);
}

TEST(Decisions, OtherWholeNumbersAreLabelsOnlyWhereTheUserSaysSo) {
  const Tensor lengths = torch::tensor({3, 1}, at::kLong);
  const Module model = model_of("def forward(self, x):\n  return x.size(0) * x.long()\n");
  EXPECT_FALSE(judged(model, {{lengths, lengths}}).is_judged());
  EXPECT_EQ(judged(model, {{lengths, lengths}}, {{.output = "output"}}).by, ScoresBy::Labels);
}

TEST(Decisions, RowsOfALayerAreFoundInTheListsOfALoop) {
  torch::manual_seed(1);
  for (const std::string loop : {"  rows = []\n"
                                 "  for t in range(x.size(1)):\n"
                                 "    rows.append(self.linear.forward(x[:, t]))\n"
                                 "  return torch.stack(rows, 1)\n",
                                 "  rows = torch.zeros([2, 7, 5])\n"
                                 "  for t in range(x.size(1)):\n"
                                 "    rows[:, t] = self.linear.forward(x[:, t])\n"
                                 "  return rows\n"}) {
    const JudgedDecisions found = judged("def forward(self, x):\n" + loop, clear_rows({2, 7}, 5));
    EXPECT_EQ(found.by, ScoresBy::Rows) << loop;
    EXPECT_EQ(found.dim, 2) << loop;
  }
}

TEST(Decisions, ADictionaryAndATupleNameTheirOutputs) {
  torch::manual_seed(1);
  const std::string forward =
      "def forward(self, x):\n"
      "  y = self.linear.forward(x)\n"
      "  return {'logits': torch.softmax(y, -1), 'state': torch.sin(y)}\n";
  EXPECT_EQ(judged(forward, clear_rows({9}, 5).softmax(-1), "output['logits']").by, ScoresBy::Softmax);
  EXPECT_EQ(judged(forward, torch::randn({9, 5}), "output['state']").by, ScoresBy::Nothing);
}

TEST(Decisions, WeightsOfAttentionAreNone) {
  const JudgedDecisions found = judged(
      "def forward(self, x):\n"
      "  a = torch.softmax(torch.matmul(x, x.transpose(1, 2)), -1)\n"
      "  return torch.matmul(a, x), a\n",
      torch::rand({2, 4, 4}).softmax(-1), "output[1]");
  EXPECT_FALSE(found.is_judged());
  EXPECT_THAT(found.to_text(),
              HasSubstr("not judged as decisions: its softmax weighs the values of attention"));
}

TEST(Decisions, EachNumberOfASigmoidIsAnAnswer) {
  const std::string forward = "def forward(self, x):\n  return torch.sigmoid(self.linear.forward(x))\n";
  const Tensor wanted = torch::tensor({{0.95, 0.02, 0.03}, {0.4, 0.01, 0.99}});
  const Tensor got = torch::tensor({{0.60, 0.03, 0.04}, {0.6, 0.45, 0.01}});
  const JudgedDecisions found = judged(model_of(forward), {{wanted, got}});
  EXPECT_EQ(found.by, ScoresBy::Sigmoid);
  EXPECT_FALSE(found.dim.has_value());
  EXPECT_EQ(found.all.rows, 6U);
  EXPECT_EQ(found.all.agreed, 4U);
  EXPECT_EQ(found.clear.rows, 5U);
  EXPECT_EQ(found.clear.agreed, 4U);
  // What is multiplied with it, or with a number, is no answer.
  for (const std::string other : {"x[:, :5]", "256.0"})
    EXPECT_FALSE(
        judged("def forward(self, x):\n  return torch.sigmoid(self.linear.forward(x)) * " + other + "\n",
               10 * wanted)
            .is_judged())
        << other;
  // Coordinates between zero and one, and a mask that is never set.
  EXPECT_FALSE(judged(forward, torch::linspace(0, 1, 50)).is_judged());
  EXPECT_FALSE(judged(forward, torch::linspace(0, 0.01, 50)).is_judged());
}

TEST(Decisions, CoordinatesOffsetsBoxesAndImagesAreNone) {
  torch::manual_seed(1);
  const std::string linear = "def forward(self, x):\n  return self.linear.forward(x)\n";
  const std::string conv = "def forward(self, x):\n  return self.conv.forward(x)\n";
  EXPECT_TRUE(judged(linear, clear_rows({40}, 9)).is_judged());
  // A classifier that is seldom sure, and one that was taught with smooth labels.
  EXPECT_TRUE(judged(linear, 3 * torch::randn({40, 5})).is_judged());
  EXPECT_TRUE(judged(linear, clear_rows({40}, 1000) / 9).is_judged());
  // Pixels, with depths around zero or without; numbers between zero and one; standardized ones; boxes.
  EXPECT_THAT(judged(linear, 256 * torch::rand({40, 195}) - 64).reason, HasSubstr("span more than 104"));
  EXPECT_THAT(judged(linear, 90 * torch::rand({40, 195})).reason, HasSubstr("hardly a number is negative"));
  EXPECT_THAT(judged(linear, torch::rand({40, 195})).reason, HasSubstr("hardly a number is negative"));
  EXPECT_THAT(judged(linear, torch::randn({40, 195})).reason,
              HasSubstr("in hardly a row a number stands apart"));
  EXPECT_THAT(judged(linear, 6 * torch::randn({1, 40, 195})).reason, HasSubstr("in most of its rows"));
  EXPECT_THAT(judged(linear, 9 * torch::randn({1, 40, 4})).reason, HasSubstr("points or boxes"));
  EXPECT_THAT(judged(conv, clear_rows({1, 8, 8}, 6).movedim(-1, 1)).reason,
              HasSubstr("channels of an image"));
  // Where something is computed of a layer's outputs, nothing tells.
  EXPECT_FALSE(
      judged("def forward(self, x):\n  return 3.0 * torch.sin(self.linear.forward(x))\n", clear_rows({40}, 9))
          .is_judged());
}

TEST(Decisions, RowsThatAddUpToOneAreProbabilities) {
  torch::manual_seed(1);
  const Tensor output = clear_rows({2, 4}, 6).softmax(-1).movedim(-1, 1);
  const JudgedDecisions found = judged(model_of(kAnyModel), {{output, output}, {output, output}});
  EXPECT_EQ(found.by, ScoresBy::Probabilities);
  EXPECT_EQ(found.dim, 1);
  EXPECT_FALSE(judged(model_of(kAnyModel), {{output, output}, {2 * output, output}}).is_judged());
}

TEST(Decisions, AllRowsAreCountedAndTheClearOnesBesideThem) {
  // Sure, sure, a near tie, sure; int8 ties, agrees, differs, differs.
  const Tensor logits =
      torch::tensor({{9.0, 0.0, -400.0}, {0.0, 9.0, 0.0}, {1.0, 1.1, 0.0}, {0.0, 0.0, 9.0}});
  const Tensor rounded =
      torch::tensor({{0.0, 0.0, -400.0}, {1.0, 7.0, 1.0}, {1.1, 1.0, 0.0}, {9.0, 0.0, 0.0}});
  const JudgedDecisions found = judged(model_of(kAnyModel), {{logits, rounded}}, {{.output = "output"}});
  EXPECT_EQ(found.all.rows, 4U);
  EXPECT_EQ(found.all.agreed, 1U);
  EXPECT_EQ(found.all.tied, 1U);
  EXPECT_EQ(found.clear.rows, 3U);
  EXPECT_EQ(found.clear.agreed, 1U);
  EXPECT_EQ(found.to_text(),
            "1 of 4 as in float (25.0 %, of further ones 4.6 to 69.9 %; 1 tied), of the clear ones 1 of 3; "
            "rows that --decisions names along "
            "dimension 1");
}

TEST(Decisions, ProbabilitiesTellThemselvesHowSureTheyAre) {
  const Tensor sure = torch::tensor({{0.95, 0.05}, {0.55, 0.45}, {0.2, 0.8}});
  EXPECT_EQ(judged(model_of(kAnyModel), {{sure, sure}}).clear.rows, 1U);
}

TEST(Decisions, PaddingAndRowsOfEqualNumbersAreLeftOut) {
  torch::manual_seed(1);
  const Tensor padding = torch::randn({6}) + torch::tensor({5.0, 0.0, 0.0, 0.0, 0.0, 0.0});
  std::vector<std::pair<Tensor, Tensor>> samples;
  for (int64_t letters = 3; letters < 9; ++letters) {
    Tensor wanted = clear_rows({1, 9}, 6);
    wanted[0].slice(0, letters) = padding;
    wanted[0][0] = 0;
    // All letters are decided otherwise.
    Tensor got = -wanted;
    got[0].slice(0, letters) = padding;
    samples.emplace_back(wanted, got);
  }
  const JudgedDecisions found = judged(model_of(kAnyModel), samples, {{.output = "output", .dim = -1}});
  EXPECT_EQ(found.all.rows, 2 + 3 + 4 + 5 + 6 + 7);
  EXPECT_EQ(found.all.agreed, 0U);
  EXPECT_EQ(found.left_out, 6 * 9 - found.all.rows);
  // The same words in one batch.
  std::vector<Tensor> wanted;
  std::vector<Tensor> got;
  for (const auto& [one, other] : samples) {
    wanted.push_back(one);
    got.push_back(other);
  }
  const JudgedDecisions batch =
      judged(model_of(kAnyModel), {{at::cat(wanted), at::cat(got)}}, {{.output = "output", .dim = 2}});
  EXPECT_EQ(batch.all.rows, found.all.rows);
}

TEST(Decisions, ThereIsNoneInARowWithNaN) {
  const Tensor rows = torch::tensor({{1.0F, std::nanf("")}, {-std::numeric_limits<float>::infinity(), 1.0F}});
  const JudgedDecisions found = judged(model_of(kAnyModel), {{rows, rows}}, {{.output = "output"}});
  EXPECT_EQ(found.all.rows, 1U);
  EXPECT_EQ(found.all.agreed, 1U);
}

TEST(Decisions, TheUserNamesOutputsAndDimensions) {
  const NamedDecisions named = NamedDecisions::parse("output['a:b']:-2");
  EXPECT_EQ(named.output, "output['a:b']");
  EXPECT_EQ(named.dim, -2);
  EXPECT_FALSE(NamedDecisions::parse("output['a:b']").dim.has_value());
  expect_error("decisions ':1' name no output; write OUTPUT or OUTPUT:DIM, as in output[1]:2",
               [] { (void)NamedDecisions::parse(":1"); });
  const Tensor output = torch::randn({2, 6, 4});
  const JudgedDecisions found =
      judged(model_of(kAnyModel), {{output, output}}, {{.output = "logits", .dim = 1}}, "output['logits']");
  EXPECT_EQ(found.by, ScoresBy::Named);
  EXPECT_EQ(found.all.rows, 8U);
  expect_error(
      "'output' has 3 dimensions, none of number 3; name the dimension along which classes are numbered",
      [&] {
        (void)judged(model_of(kAnyModel), {{output, output}}, {{.output = "output", .dim = 3}});
      });
  expect_error("the model has no output 'outptu'; name one of output[0], output[1]", [&] {
    const std::vector<std::string> places{"output[0]", "output[1]"};
    OutputDecisions(model_of(kAnyModel), {{.output = "outptu"}}).check_names(places);
  });
}

TEST(Decisions, AreToldAsJson) {
  const Tensor output = torch::tensor({{5.0, 0.0}, {0.0, 0.5}});
  const JudgedDecisions found = judged(model_of(kAnyModel), {{output, output}}, {{.output = "output"}});
  nlohmann::json json = found.to_json();
  EXPECT_NEAR(json["further"][0].get<double>(), 0.342, 1e-3);
  EXPECT_NEAR(json["further"][1].get<double>(), 1, 1e-9);
  json.erase("further");
  EXPECT_EQ(json, nlohmann::json({{"judged_by", "named"},
                                  {"dim", 1},
                                  {"rows", 2},
                                  {"agreed", 2},
                                  {"tied", 0},
                                  {"left_out", 0},
                                  {"clear", {{"rows", 1}, {"agreed", 1}, {"tied", 0}}}}));
  EXPECT_TRUE(judged(model_of(kAnyModel), {{output, output}}).to_json()["judged_by"].is_null());
}

TEST(Decisions, AShareIsExceededWhereChanceDoesNotExplainIt) {
  EXPECT_FALSE(is_more_than(0, 0, 0.01));
  EXPECT_FALSE(is_more_than(1, 16, 0.01));  // one or more of 16 in 15 cases of 100
  EXPECT_TRUE(is_more_than(2, 16, 0.01));   // two or more in 1.1
  EXPECT_FALSE(is_more_than(3, 100, 0.01));
  EXPECT_TRUE(is_more_than(4, 100, 0.01));
  EXPECT_FALSE(is_more_than(10100, 1000000, 0.01));
  EXPECT_TRUE(is_more_than(10300, 1000000, 0.01));
}

}  // namespace decisions_test
}  // namespace tsq::detail
