// What calibration knows of values: dtypes and sizes of each, in branches and loops too, whatever way it ran,
// and after a file was written and read.

#include "ir/facts.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/quantize.h>
#include <tsq/recipe.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "ir/analysis.h"
#include "ir/observer_results.h"
#include "ir/value_numbers.h"
#include "observers/observer_module.h"
#include "pipeline/stage.h"
#include "support/before_pass.h"
#include "support/calibrated_model.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace facts_test {

using ir::Facts;
using ir::SizesSeen;
using ir::ValueFacts;
using torch::jit::Module;
using Dtypes = std::set<c10::ScalarType>;

Module network(const std::string& forward) {
  torch::manual_seed(3);
  Module model = testing::user_module("Network");
  model.register_module("layer", testing::linear(8, 16));
  model.register_module("last", testing::linear(16, 16));
  model.register_buffer("gain", torch::full({16}, 2.0));
  model.define(forward);
  model.eval();
  return model;
}

Module of_rows() {
  return network(
      "def forward(self, x, words):\n"
      "  y = torch.cumsum(self.layer.forward(x), 1)\n"
      "  return self.last.forward(y), words.flip([0])\n");
}

/// Of a length each.
std::vector<Sample> samples(const std::vector<std::int64_t>& lengths) {
  torch::manual_seed(4);
  std::vector<Sample> made;
  for (const std::int64_t length : lengths)
    made.push_back({torch::randn({2, length, 8}), torch::randint(9, {length})});
  return made;
}

Prepared prepared_of(const Module& model, Recipe recipe = Recipe::Best) {
  return prepare(model, best_qconfig_mapping("x86"), backend_config("x86"), {.recipe = recipe});
}

const Facts& facts_in(const Prepared& prepared) { return detail::stage_of(prepared).model.facts; }

Facts facts_after(const std::vector<Sample>& data) {
  Prepared prepared = prepared_of(of_rows());
  calibrate(prepared, data);
  return facts_in(prepared);
}

/// Of the first value that a node of a kind makes; empty where nothing is known.
ValueFacts facts_of_kind(const ir::Model& model, const std::string& kind) {
  const ir::ValueFacts* facts = ir::facts_of(model, testing::node_of_kind(model, kind)->output(0));
  return facts == nullptr ? ValueFacts() : *facts;
}

TEST(Facts, CalibrationKnowsDtypesAndSizesOfEachValueInBothRecipes) {
  for (const Recipe recipe : {Recipe::Best, Recipe::Fx}) {
    Prepared prepared = prepared_of(of_rows(), recipe);
    calibrate(prepared, samples({5, 9}));
    const auto calibrated = testing::calibrated_model(prepared);
    const ValueFacts sum = facts_of_kind(calibrated.model, "aten::cumsum");
    EXPECT_EQ(sum.calls, 2);
    EXPECT_EQ(sum.dtypes, Dtypes{at::kFloat});
    ASSERT_TRUE(sum.sizes.contains(3));
    EXPECT_EQ(sum.sizes.at(3), (SizesSeen{.smallest = {2, 5, 16}, .largest = {2, 9, 16}}));
    EXPECT_EQ(facts_of_kind(calibrated.model, "aten::flip").dtypes, Dtypes{at::kLong});
    const ValueFacts& x = facts_in(prepared).values.at(1);
    EXPECT_EQ(x.sizes.at(3), (SizesSeen{.smallest = {2, 5, 8}, .largest = {2, 9, 8}}));
    const ir::ValueFacts* layer =
        ir::facts_of(calibrated.model, testing::call_node(calibrated.model, "layer")->output());
    ASSERT_NE(layer, nullptr);
    EXPECT_EQ(layer->calls, 2);
  }
}

TEST(Facts, TheNoiseOfCodesFollowsFromWhatTheirObserverHasCounted) {
  Prepared prepared = prepared_of(of_rows(), Recipe::Fx);
  calibrate(prepared, samples({5, 9}));
  const auto calibrated = testing::calibrated_model(prepared);
  const ir::Node* layer = testing::call_node(calibrated.model, "layer");
  const ir::ObserverEntry& observer = ir::observer_of(calibrated.model, layer->input(0)->node());
  const auto noise = ir::noise_of(observer);
  ASSERT_TRUE(noise);
  const double step = calculate_qparams(*observer.module).scale.item<double>();
  EXPECT_NEAR(noise->squared_error / (step * step / 12), 1, 0.2) << "even within a step";
  Prepared unseen = prepared_of(of_rows(), Recipe::Fx);
  EXPECT_FALSE(ir::noise_of(detail::stage_of(unseen).model.observers.front()));
}

TEST(Facts, AValueIsConstantWhereAllOfItsNumbersAreOne) {
  Facts facts;
  EXPECT_FALSE(ir::was_constant(ir::facts_at(facts, 0)));
  for (const double number : {3.0, 3.0}) {
    ir::note(facts, 0, torch::full({2, 2}, number));
    ir::note_range(facts, 0, torch::full({2, 2}, number));
  }
  EXPECT_TRUE(ir::was_constant(facts.values[0]));
  ir::note(facts, 0, torch::full({1}, 4.0));
  ir::note_range(facts, 0, torch::full({1}, 4.0));
  EXPECT_FALSE(ir::was_constant(facts.values[0]));
}

TEST(Facts, TheReportSaysWhichOperatorsReadTheSameNumberEverywhere) {
  const Module model = network(
      "def forward(self, x, mask):\n  return self.last.forward(self.layer.forward(x) * self.gain + mask)\n");
  for (const double other : {0.0, -2.5}) {
    Prepared prepared = prepared_of(model, Recipe::Fx);
    calibrate(prepared, std::vector<Sample>{{torch::randn({4, 8}), torch::zeros({16})},
                                            {torch::randn({4, 8}), torch::full({16}, other)}});
    const Report report = convert(prepared, backend_config("x86")).report();
    std::string notes;
    for (const Decision& decision : report.decisions)
      notes += fmt::format("{}", fmt::join(decision.notes, ""));
    EXPECT_EQ(notes.find("was 2 everywhere"), std::string::npos) << "a parameter is no sample's";
    EXPECT_EQ(notes.find("was 0 everywhere in all samples") != std::string::npos, other == 0) << notes;
  }
}

TEST(Facts, ValuesInBranchesAndLoopsAreSeenAsOftenAsTheyAreComputed) {
  const Module model = network(
      "def forward(self, x, steps: int):\n"
      "  y = self.layer.forward(x)\n"
      "  for i in range(steps):\n"
      "    y = torch.sin(y)\n"
      "  if steps > 2:\n"
      "    y = torch.cos(y)\n"
      "  return self.last.forward(y)\n");
  Prepared prepared = prepared_of(model);
  calibrate(prepared, std::vector<Sample>{{torch::randn({4, 8}), 2}, {torch::randn({6, 8}), 3}});
  const auto calibrated = testing::calibrated_model(prepared);
  EXPECT_EQ(facts_of_kind(calibrated.model, "aten::sin").calls, 5);
  EXPECT_EQ(facts_of_kind(calibrated.model, "aten::cos").calls, 1);
  EXPECT_EQ(facts_of_kind(calibrated.model, "prim::Loop").calls, 2);
  EXPECT_EQ(facts_of_kind(calibrated.model, "prim::If").calls, 2);
  const ir::Node* sin = testing::node_of_kind(calibrated.model, "aten::sin");
  const ir::ValueFacts* carried = ir::facts_of(calibrated.model, sin->owningBlock()->inputs().at(1));
  ASSERT_NE(carried, nullptr);
  EXPECT_EQ(carried->calls, 5);
  EXPECT_EQ(carried->dtypes, Dtypes{at::kFloat});
}

TEST(Facts, OfPartsOfTheDataAreJoinedInAnyOrderToThoseOfTheWhole) {
  const std::vector<Sample> data = samples({5, 9, 3, 7});
  const Facts whole = facts_after(data);
  const Facts first = facts_after({data[0]});
  const Facts second = facts_after({data[1], data[2]});
  const Facts third = facts_after({data[3]});
  for (const auto& order : {std::vector{&first, &second, &third}, std::vector{&third, &first, &second},
                            std::vector{&second, &third, &first}}) {
    Facts joined;
    for (const Facts* part : order) ir::join(joined, *part);
    EXPECT_EQ(joined, whole);
  }
  Facts of_last = second;
  ir::join(of_last, third);
  Facts nested = first;
  ir::join(nested, of_last);
  EXPECT_EQ(nested, whole);
}

TEST(Facts, JoinRangesAndWhetherAllWasFinite) {
  ValueFacts value{.dtypes = {at::kFloat}, .range = ir::RangeSeen{.lowest = -1, .highest = 2}};
  ir::join(value,
           {.dtypes = {at::kHalf}, .range = ir::RangeSeen{.lowest = 0, .highest = 3}, .is_finite = true});
  EXPECT_EQ(value.range, (ir::RangeSeen{.lowest = -1, .highest = 3}));
  EXPECT_EQ(value.is_finite, true);
  EXPECT_EQ(ir::only_dtype(value), std::nullopt);
  ir::join(value, {.is_finite = false});
  EXPECT_EQ(value.is_finite, false);
  ir::join(value, {});
  EXPECT_EQ(value.is_finite, false);
}

TEST(Facts, TensorsOfSeveralRanksAreKeptApart) {
  Facts facts;
  for (const auto& sizes : {std::vector<std::int64_t>{}, {4}, {2, 3}, {5, 1}})
    ir::note(facts, 2, torch::zeros(sizes));
  const ValueFacts& value = facts.values.at(2);
  EXPECT_EQ(value.calls, 4);
  EXPECT_EQ(value.sizes.size(), 3U);
  EXPECT_EQ(value.sizes.at(2), (SizesSeen{.smallest = {2, 1}, .largest = {5, 3}}));
  EXPECT_EQ(facts.values.at(0), ValueFacts());
}

TEST(Facts, AreTheSameAfterTheyWereWrittenAsText) {
  Facts facts;
  for (const auto& sizes : {std::vector<std::int64_t>{}, {2, 3}, {5, 1}})
    ir::note(facts, 1, torch::zeros(sizes));
  ir::note(facts, 4, torch::zeros({0}, at::kBool));
  facts.values[4].range = {.lowest = std::numeric_limits<double>::denorm_min(), .highest = 1.0 / 3};
  facts.values[4].is_finite = false;
  const std::string text = ir::json_of(facts).dump();
  EXPECT_EQ(ir::facts_of_json(nlohmann::json::parse(text), 5), facts);
}

TEST(Facts, OfATextThatIsNoneAreRefused) {
  for (const char* text :
       {R"({"7": {"calls": 1}})", R"({"x": {"calls": 1}})", R"({"1": {"calls": 1, "dtypes": [99]}})",
        R"({"1": {"calls": 1, "sizes": [[[1], [1, 2]]]}})", R"({"1": {}})", R"({"1": 3})"}) {
    EXPECT_ANY_THROW(ir::facts_of_json(nlohmann::json::parse(text), 5)) << text;
  }
}

TEST(Facts, AFileOfAPreparedModelKeepsThem) {
  const testing::TemporaryFolder folder;
  Prepared prepared = prepared_of(of_rows());
  calibrate(prepared, samples({5, 9}));
  prepared.save(folder.file("prepared.pt"));
  Prepared loaded = Prepared::load(folder.file("prepared.pt"));
  EXPECT_FALSE(facts_in(prepared).values.empty());
  EXPECT_EQ(facts_in(loaded), facts_in(prepared));
  calibrate(prepared, samples({12}));
  calibrate(loaded, samples({12}));
  EXPECT_EQ(facts_in(loaded), facts_in(prepared)) << "calibration goes on";
}

TEST(Facts, AFileOfAReferenceKeepsThem) {
  const testing::TemporaryFolder folder;
  Prepared prepared = prepared_of(of_rows());
  calibrate(prepared, samples({5, 9}));
  const Reference reference = convert_to_reference(prepared, backend_config("x86"));
  reference.save(folder.file("reference.pt"));
  const Reference loaded = Reference::load(folder.file("reference.pt"));
  const Facts& facts = detail::stage_of(reference).model.facts;
  EXPECT_FALSE(facts.values.empty());
  EXPECT_EQ(detail::stage_of(loaded).model.facts, facts);
}

TEST(Facts, ObserversTellThoseOfAModelThatLibTorchRan) {
  const Prepared prepared = prepared_of(of_rows());
  Module module = prepared.module();
  const std::vector<Sample> data = samples({5, 9});
  for (const Sample& sample : data) module.forward(sample);
  EXPECT_TRUE(facts_in(prepared).values.empty());
  const auto [model, context] = testing::before_pass(prepared, "know_dtypes");
  const ValueFacts& x = model.facts.values.at(1);
  EXPECT_EQ(x.calls, 0);
  EXPECT_EQ(x.dtypes, Dtypes{at::kFloat});
  EXPECT_EQ(x.is_finite, true);
  ASSERT_TRUE(x.range.has_value());
  EXPECT_EQ(x.range->lowest,
            std::min(data[0][0].toTensor().min().item<float>(), data[1][0].toTensor().min().item<float>()));
  EXPECT_EQ(facts_of_kind(model, "aten::flip"), ValueFacts()) << "nothing observes whole numbers";
}

TEST(Facts, CopiesOfAPreparedModelHaveTheirOwn) {
  Prepared original = prepared_of(of_rows());
  calibrate(original, samples({5}));
  Prepared copy = original;
  EXPECT_EQ(facts_in(copy), facts_in(original));
  calibrate(copy, samples({9}));
  EXPECT_NE(facts_in(copy), facts_in(original));
}

TEST(Facts, TheInputsOfAnotherMethodAreNotThoseOfForward) {
  Module model = of_rows();
  model.define("def twice(self, x):\n  return torch.cumsum(self.last.forward(torch.sin(x)), 0)\n");
  Prepared prepared = prepared_of(model);
  calibrate(prepared, std::vector<Sample>{{torch::randn({3, 16})}}, {.method = "twice"});
  const Facts& facts = facts_in(prepared);
  EXPECT_TRUE(facts.values.size() < 2 || facts.values[1] == ValueFacts());
  const auto calibrated = testing::calibrated_model(prepared);
  EXPECT_EQ(facts_of_kind(calibrated.model, "aten::sin").calls, 1);
}

}  // namespace facts_test
}  // namespace tsq
