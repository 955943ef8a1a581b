// Numbers of values: what has one, and what keeps it.

#include "ir/value_numbers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ir/analysis.h"
#include "ir/define_method.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "support/graph_model.h"

namespace tsq::ir {
namespace value_numbers_test {

using testing::node_named;

Model looped() {
  Model model = testing::model_of_graph("%x : Tensor, %n : int, %m : Tensor?", R"(
  %sum : Tensor = prim::Loop(%n, %yes, %x)
    block0(%i : int, %carried : Tensor):
      %next : Tensor = aten::add(%carried, %x, %one)
      -> (%yes, %next)
  %list : Tensor[] = aten::chunk(%sum, %two, %zero)
  %a : Tensor, %b : Tensor = prim::ListUnpack(%list)
  %y : Tensor = aten::relu(%b)
  return (%y))");
  EXPECT_TRUE(number_values(*model.graph));
  return model;
}

TEST(ValueNumbers, EachValueThatMayBeATensorHasItsOwn) {
  const Model model = looped();
  std::set<std::size_t> numbers;
  for (const NumberedValue& numbered : numbered_values(*model.graph)) {
    EXPECT_TRUE(numbers.insert(numbered.number).second) << numbered.value->debugName();
    EXPECT_EQ(value_number(numbered.value), numbered.number);
  }
  EXPECT_EQ(numbers.size(), 8U) << "x, m, sum, carried, next, a, b, y";
  EXPECT_EQ(value_number(model.graph->inputs().at(1)), 1U);
  EXPECT_EQ(value_number(model.graph->inputs().at(2)), std::nullopt) << "a number";
  EXPECT_EQ(value_number(node_named(model, "list")->output()), std::nullopt) << "a list";
}

TEST(ValueNumbers, ACopyOfTheGraphHasTheSame) {
  const Model model = looped();
  const Model copy = model.copy();
  const auto own = numbered_values(*model.graph);
  const auto copied = numbered_values(*copy.graph);
  ASSERT_EQ(own.size(), copied.size());
  for (std::size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i].number, copied[i].number);
}

TEST(ValueNumbers, WhatTakesThePlaceOfANodeTakesItsNumber) {
  Model model = looped();
  Node* relu = node_named(model, "y");
  const auto number = value_number(relu->output());
  Value* made = insert_before(relu, "aten::tanh", {relu->input(0)});
  EXPECT_EQ(value_number(made), std::nullopt) << "it was made later";
  passes::replace_node(relu, made);
  EXPECT_EQ(value_number(made), number);
}

TEST(ValueNumbers, WhatIsReadInsteadOfANodeThatIsGoneKeepsItsOwn) {
  Model model = looped();
  Node* relu = node_named(model, "y");
  Value* read = relu->input(0);
  const auto number = value_number(read);
  passes::bypass(relu);
  EXPECT_EQ(value_number(read), number);
}

TEST(ValueNumbers, AValueThatHasBecomeAnotherLosesIt) {
  Model model = looped();
  Value* y = node_named(model, "y")->output();
  const auto number = value_number(y);
  drop_number(y);
  EXPECT_EQ(value_number(y), std::nullopt);
  EXPECT_NE(number, std::nullopt);
}

TEST(ValueNumbers, StayWhereTheOtherMarksGoOnlyIfThatIsAskedFor) {
  Model model = looped();
  set_scope(node_named(model, "y"), 0);
  strip_marks(*model.graph, /*keeps_value_numbers=*/true);
  EXPECT_EQ(scope_index(node_named(model, "y")), std::nullopt);
  EXPECT_NE(value_number(node_named(model, "y")->output()), std::nullopt);
  strip_marks(*model.graph);
  EXPECT_EQ(value_number(node_named(model, "y")->output()), std::nullopt);
}

TEST(ValueNumbers, FactsAreThoseOfTheValue) {
  Model model = looped();
  const Value* y = node_named(model, "y")->output();
  EXPECT_EQ(facts_of(model, y), nullptr);
  note(model.facts, value_number(y).value(), at::zeros({2, 3}));
  const ValueFacts* facts = facts_of(model, y);
  ASSERT_NE(facts, nullptr);
  EXPECT_EQ(facts->calls, 1);
  EXPECT_EQ(facts_of(model.copy(), y), nullptr) << "of another graph";
}

}  // namespace value_numbers_test
}  // namespace tsq::ir
