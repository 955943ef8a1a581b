// What tells the dtype of a tensor: what made it, what reads it, and what calibration saw.

#include "operators/known_dtypes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <tsq/qconfig.h>

#include <string>

#include "ir/edit.h"
#include "ir/value_numbers.h"
#include "support/graph_model.h"

namespace tsq::operators {
namespace known_dtypes_test {

using testing::model_of_graph;
using testing::node_named;
using Dtype = std::optional<c10::ScalarType>;

constexpr Dtype kUnknown{};
constexpr Dtype kFloat = at::kFloat;
constexpr Dtype kLong = at::kLong;
constexpr Dtype kBool = at::kBool;

Dtype dtype_of(const ir::Model& model, const std::string& name, Grounds grounds = Grounds::FloatOperators) {
  return known_dtype(known_dtypes(model, grounds), node_named(model, name)->output());
}

Dtype dtype_of_input(const ir::Model& model, std::size_t index, Grounds grounds = Grounds::FloatOperators) {
  return known_dtype(known_dtypes(model, grounds), model.graph->inputs().at(index));
}

constexpr const char* kNumbers = R"(
  %float : int = prim::Constant[value=6]()
  %long : int = prim::Constant[value=4]()
  %sizes : int[] = prim::ListConstruct(%two, %two))";

TEST(KnownDtypes, WhatTakesFloatsAloneReadsAndReturnsThem) {
  const ir::Model model = model_of_graph("%x : Tensor, %w : Tensor", R"(
  %sizes : int[] = prim::ListConstruct(%two, %two)
  %moved : Tensor = aten::reshape(%x, %sizes)
  %y : Tensor = aten::linear(%moved, %w, %none)
  %turned : Tensor = aten::transpose(%y, %zero, %one)
  %z : Tensor = aten::cos(%turned)
  return (%z))");
  EXPECT_EQ(dtype_of_input(model, 1), kFloat);
  EXPECT_EQ(dtype_of_input(model, 2), kUnknown) << "nothing asks for the dtype of a second operand";
  for (const char* value : {"moved", "y", "turned", "z"}) {
    EXPECT_EQ(dtype_of(model, value), kFloat) << value;
    EXPECT_EQ(dtype_of(model, value, Grounds::Certain), kUnknown) << value << " could be in double";
  }
}

TEST(KnownDtypes, WhatTellsADtypeMayBeAnyNumberOfOperatorsAway) {
  std::string text = "  %v0 : Tensor = aten::linear(%x, %w, %none)\n";
  for (int i = 0; i < 40; ++i) {
    text +=
        "  %v" + std::to_string(i + 1) + " : Tensor = aten::unsqueeze(%v" + std::to_string(i) + ", %zero)\n";
  }
  const ir::Model model = model_of_graph("%x : Tensor, %w : Tensor", text + "  return (%v40)");
  EXPECT_EQ(dtype_of(model, "v40"), kFloat);
}

TEST(KnownDtypes, ALayerHasTheDtypeOfItsParameters) {
  ir::Model model = model_of_graph("%x : Tensor", R"(
  %y : Tensor = aten::relu(%x)
  %z : Tensor = aten::relu(%y)
  return (%z))");
  testing::put_call(model, "y", testing::linear_call(testing::rounded_linear(4, 4)));
  EXPECT_EQ(dtype_of(model, "z", Grounds::Certain), kFloat);
  EXPECT_EQ(dtype_of_input(model, 1, Grounds::Certain), kFloat);
}

TEST(KnownDtypes, ARecurrentLayerOfRoundedWeightsReadsFloatsAsItsInputAndStates) {
  ir::Model model = model_of_graph("%x : Tensor, %h : Tensor, %c : Tensor", R"(
  %states : (Tensor, Tensor) = prim::TupleConstruct(%h, %c)
  %y : Tensor = aten::foo(%x, %states)
  return (%y))");
  EXPECT_EQ(dtype_of_input(model, 2), kUnknown);
  testing::put_call(model, "y", {.type = symbol("torch.nn.LSTM"), .recurrent_qparams = {QParams{}}});
  for (const std::size_t input : {1U, 2U, 3U}) EXPECT_EQ(dtype_of_input(model, input), kFloat) << input;
}

TEST(KnownDtypes, ATableIsLookedUpInItsOwnDtype) {
  ir::Model model = model_of_graph("%x : Tensor", R"(
  %y : Tensor = aten::relu(%x)
  return (%y))");
  testing::put_call(
      model, "y",
      {.type = symbol("torch.nn.Embedding"), .embedding = ir::EmbeddingTable{.weight = at::zeros({3, 4})}});
  EXPECT_EQ(dtype_of(model, "y", Grounds::Certain), kFloat);
  EXPECT_EQ(dtype_of_input(model, 1), kUnknown);
}

TEST(KnownDtypes, ACastHasTheDtypeThatItIsAskedFor) {
  const ir::Model model = model_of_graph("%x : Tensor, %w : Tensor", std::string(kNumbers) + R"(
  %y : Tensor = aten::linear(%x, %w, %none)
  %its : int = prim::dtype(%y)
  %named : Tensor = aten::to(%w, %float, %no, %no, %none)
  %whole : Tensor = aten::to(%w, %long, %no, %no, %none)
  %as_another : Tensor = aten::to(%w, %its, %no, %no, %none)
  %by_another : Tensor = aten::type_as(%w, %y)
  %unknown : int = prim::dtype(%w)
  %as_unknown : Tensor = aten::to(%y, %unknown, %no, %no, %none)
  return (%y))");
  EXPECT_EQ(dtype_of(model, "named", Grounds::Certain), kFloat);
  EXPECT_EQ(dtype_of(model, "whole"), kLong);
  EXPECT_EQ(dtype_of(model, "as_another"), kFloat);
  EXPECT_EQ(dtype_of(model, "by_another"), kFloat);
  EXPECT_EQ(dtype_of(model, "as_unknown"), kUnknown);
}

TEST(KnownDtypes, WhatIsMadeOfNumbersHasTheDefaultDtypeUnlessItIsTold) {
  const ir::Model model = model_of_graph("%x : Tensor", std::string(kNumbers) + R"(
  %zeros : Tensor = aten::zeros(%sizes, %none, %none, %none, %none)
  %whole : Tensor = aten::zeros(%sizes, %long, %none, %none, %none)
  %full : Tensor = aten::full(%sizes, %scale, %none, %none, %none, %none)
  %of_whole : Tensor = aten::full(%sizes, %one, %none, %none, %none, %none)
  %like : Tensor = aten::zeros_like(%whole, %none, %none, %none, %none, %none)
  %like_told : Tensor = aten::zeros_like(%x, %float, %none, %none, %none, %none)
  return (%zeros))");
  EXPECT_EQ(dtype_of(model, "zeros", Grounds::Certain), kFloat);
  EXPECT_EQ(dtype_of(model, "whole"), kLong);
  EXPECT_EQ(dtype_of(model, "full"), kFloat);
  EXPECT_EQ(dtype_of(model, "of_whole"), kUnknown);
  EXPECT_EQ(dtype_of(model, "like"), kLong);
  EXPECT_EQ(dtype_of(model, "like_told"), kFloat);
}

TEST(KnownDtypes, ArithmeticIsAsWideAsItsWidestOperand) {
  const ir::Model model = model_of_graph("%x : Tensor", std::string(kNumbers) + R"(
  %floats : Tensor = aten::zeros(%sizes, %float, %none, %none, %none)
  %whole : Tensor = aten::zeros(%sizes, %long, %none, %none, %none)
  %sum : Tensor = aten::add(%whole, %floats, %one)
  %unknown : Tensor = aten::add(%floats, %x, %one)
  %quotient : Tensor = aten::div(%whole, %whole)
  %scaled : Tensor = aten::mul(%whole, %scale)
  %exponent : Tensor = aten::exp(%whole)
  %exponents : Tensor = aten::exp(%floats)
  %list : Tensor[] = prim::ListConstruct(%floats, %whole)
  %joined : Tensor = aten::cat(%list, %zero)
  return (%sum))");
  EXPECT_EQ(dtype_of(model, "sum", Grounds::Certain), kFloat);
  EXPECT_EQ(dtype_of(model, "unknown"), kFloat) << "it is likely to be no wider";
  EXPECT_EQ(dtype_of(model, "unknown", Grounds::Certain), kUnknown);
  EXPECT_EQ(dtype_of(model, "quotient"), kUnknown);
  EXPECT_EQ(dtype_of(model, "scaled"), kUnknown);
  EXPECT_EQ(dtype_of(model, "exponent"), kUnknown);
  EXPECT_EQ(dtype_of(model, "exponents"), kFloat);
  EXPECT_EQ(dtype_of(model, "joined"), kFloat);
  EXPECT_EQ(dtype_of(model, "list"), kUnknown) << "its elements differ";
}

TEST(KnownDtypes, PartsHaveTheDtypeOfTheWhole) {
  const ir::Model model = model_of_graph("%x : Tensor", std::string(kNumbers) + R"(
  %floats : Tensor = aten::zeros(%sizes, %float, %none, %none, %none)
  %parts : Tensor[] = aten::chunk(%floats, %two, %zero)
  %a : Tensor, %b : Tensor = prim::ListUnpack(%parts)
  %c : Tensor = aten::relu(%b)
  return (%c))");
  EXPECT_EQ(dtype_of(model, "c", Grounds::Certain), kFloat);
}

TEST(KnownDtypes, ComparisonsAndBitsOfTruthsAreTruths) {
  const ir::Model model = model_of_graph("%x : Tensor, %n : Tensor", R"(
  %less : Tensor = aten::lt(%x, %zero)
  %opposite : Tensor = aten::logical_not(%x)
  %moved : Tensor = aten::unsqueeze(%less, %zero)
  %both : Tensor = aten::bitwise_and(%moved, %n)
  %turned : Tensor = aten::bitwise_not(%both)
  %bits : Tensor = aten::bitwise_not(%n)
  return (%turned))");
  for (const char* value : {"less", "opposite", "moved", "both", "turned"})
    EXPECT_EQ(dtype_of(model, value), kBool) << value;
  EXPECT_EQ(dtype_of(model, "bits"), kUnknown);
}

TEST(KnownDtypes, MasksAreTruths) {
  const ir::Model model = model_of_graph("%x : Tensor, %mask : Tensor, %where : Tensor", R"(
  %moved : Tensor = aten::unsqueeze(%mask, %one)
  %y : Tensor = aten::masked_fill(%x, %moved, %scale)
  %z : Tensor = aten::where(%where, %y, %x)
  %opposite : Tensor = aten::bitwise_not(%mask)
  return (%z))");
  EXPECT_EQ(dtype_of_input(model, 2), kBool);
  EXPECT_EQ(dtype_of_input(model, 3), kBool);
  EXPECT_EQ(dtype_of(model, "opposite"), kBool);
  EXPECT_EQ(dtype_of_input(model, 1), kUnknown);
}

TEST(KnownDtypes, BranchesThatAgreeTellTheDtypeOfWhatTheyReturn) {
  const ir::Model model = model_of_graph("%c : bool, %x : Tensor", std::string(kNumbers) + R"(
  %floats : Tensor = aten::zeros(%sizes, %float, %none, %none, %none)
  %whole : Tensor = aten::zeros(%sizes, %long, %none, %none, %none)
  %alike : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::neg(%floats)
      -> (%a)
    block1():
      -> (%floats)
  %mixed : Tensor = prim::If(%c)
    block0():
      -> (%floats)
    block1():
      -> (%whole)
  return (%alike))");
  EXPECT_EQ(dtype_of(model, "alike", Grounds::Certain), kFloat);
  EXPECT_EQ(dtype_of(model, "mixed"), kUnknown);
}

TEST(KnownDtypes, WhatIsQuantizedIsFloatAndSoIsWhatIsDequantized) {
  const ir::Model model = model_of_graph("%x : Tensor, %q : Tensor", R"(
  %codes : Tensor = aten::quantize_per_tensor(%x, %scale, %zero, %quint8)
  %back : Tensor = aten::dequantize(%codes)
  %other : Tensor = aten::dequantize(%q)
  return (%back))");
  EXPECT_EQ(dtype_of_input(model, 1, Grounds::Certain), kFloat);
  EXPECT_EQ(dtype_of(model, "back", Grounds::Certain), kFloat);
  EXPECT_EQ(dtype_of_input(model, 2), kUnknown);
}

TEST(KnownDtypes, AnAttributeHasThatOfItsTensor) {
  ir::Model model = model_of_graph("%x : Tensor, %steps : Tensor", R"(
  %y : Tensor = aten::neg(%steps)
  return (%y))");
  testing::put_attribute(model, "steps", at::zeros({3}, at::kLong));
  EXPECT_EQ(known_dtype(known_dtypes(model, Grounds::Certain), node_named(model, "y")->input(0)), kLong);
}

/// A graph whose values have numbers, and facts of one of them.
ir::Model with_facts(const std::set<c10::ScalarType>& dtypes) {
  ir::Model model = model_of_graph("%x : Tensor", R"(
  %y : Tensor = aten::matmul(%x, %x)
  %z : Tensor = aten::neg(%y)
  %t : Tensor = aten::lt(%y, %zero)
  return (%z))");
  ir::number_values(*model.graph);
  for (const char* value : {"y", "t"})
    ir::facts_at(model.facts, ir::value_number(node_named(model, value)->output()).value()) = {
        .calls = 1, .dtypes = dtypes};
  return model;
}

TEST(KnownDtypes, WhatCalibrationSawCountsWhereThatIsReasonEnough) {
  const ir::Model model = with_facts({at::kFloat});
  EXPECT_EQ(dtype_of(model, "y", Grounds::Calibration), kFloat);
  EXPECT_EQ(dtype_of(model, "z", Grounds::Calibration), kFloat);
  EXPECT_EQ(dtype_of(model, "y", Grounds::FloatOperators), kUnknown);
  EXPECT_EQ(dtype_of(model, "t", Grounds::Calibration), kFloat) << "before what its operator tells";
  EXPECT_EQ(dtype_of(model, "t", Grounds::FloatOperators), kBool);
}

TEST(KnownDtypes, OfAValueThatHadSeveralDtypesNoneIsKnown) {
  const ir::Model model = with_facts({at::kFloat, at::kLong});
  EXPECT_EQ(dtype_of(model, "y", Grounds::Calibration), kUnknown);
  EXPECT_EQ(dtype_of(model, "z", Grounds::Calibration), kUnknown);
  EXPECT_EQ(dtype_of(model, "t", Grounds::Calibration), kUnknown);
}

TEST(KnownDtypes, WhatAnObserverSawIsCertainForItWillBeRounded) {
  ir::Model model = with_facts({at::kFloat});
  ir::Value* seen = node_named(model, "y")->output();
  model.observers.push_back({.spec = default_qconfig("x86").activation});
  ir::insert_observer(model, seen, 0);
  EXPECT_EQ(dtype_of(model, "y", Grounds::Certain), kFloat);
  EXPECT_EQ(dtype_of(model, "z", Grounds::Certain), kFloat);
  model.observers.front().spec = {.observer = "PlaceholderObserver"};
  EXPECT_EQ(dtype_of(model, "y", Grounds::Certain), kUnknown);
}

}  // namespace known_dtypes_test
}  // namespace tsq::operators
