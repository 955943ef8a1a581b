// The passes of the room place that both recipes run: what the table, the caller and calibration say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/quantize.h>

#include "observers/observer_module.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"
#include "passes/place/uncalibrated.h"
#include "support/before_pass.h"
#include "support/small_models.h"

namespace tsq {
namespace place_by_table_test {

using ir::Placement;
using ir::Reason;
using testing::CalibratedModel;
using testing::call_node;
using testing::input_observer;
using testing::output_observer;
using torch::jit::Module;

constexpr const char* kObserver = "prim::tsq_observer";

/// x → one → two.
Module two_convolutions() {
  torch::manual_seed(1);
  Module model = testing::user_module("Two");
  model.register_module("one", testing::conv2d(3, 3, 1));
  model.register_module("two", testing::conv2d(3, 3, 1));
  model.define("def forward(self, x):\n  return self.two.forward(self.one.forward(x))\n");
  return model;
}

QConfigMapping mapping_with(const char* path, MaybeQConfig qconfig) {
  return default_qconfig_mapping("x86").set_module_name(path, std::move(qconfig));
}

/// As recipe fx prepares it.
Prepared prepared(const QConfigMapping& mapping = default_qconfig_mapping("x86"),
                  PrepareCustomConfig custom = {}) {
  return prepare(two_convolutions(), mapping, backend_config("x86"),
                 {.custom = std::move(custom), .recipe = Recipe::Fx});
}

Prepared calibrated(const QConfigMapping& mapping = default_qconfig_mapping("x86"),
                    PrepareCustomConfig custom = {}) {
  Prepared result = prepared(mapping, std::move(custom));
  calibrate(result, std::vector<Sample>{{torch::randn({2, 3, 6, 6})}});
  return result;
}

ir::NodeRecord& record(CalibratedModel& result, const std::string& path) {
  return *ir::record_of(result.model, call_node(result.model, path));
}

/// As an observer was before calibration.
void forget_data(CalibratedModel& result, const ir::Node* observer) {
  ir::ObserverEntry& entry = ir::observer_of(result.model, observer);
  entry.module = make_observer(entry.spec);
}

void meet_other_dtype(CalibratedModel& result, const ir::Node* observer) {
  ir::observer_of(result.model, observer).module->setattr("saw_other_dtype", true);
}

TEST(LeaveUnreached, WhatHasNoRangeStaysFloat) {
  CalibratedModel result = testing::before_pass(calibrated(), "leave_unreached");
  record(result, "two").reason = Reason::NotReached;
  EXPECT_TRUE(passes::leave_unreached(result.model, result.context));
  const ir::NodeRecord& two = record(result, "two");
  EXPECT_FALSE(two.observed);
  EXPECT_FALSE(two.lookup.qconfig);
  EXPECT_EQ(two.placement, Placement::Float);
  EXPECT_FALSE(two.decision.quantized);
  EXPECT_THAT(two.decision.reason, ::testing::StartsWith("no calibration sample reached it"));
  EXPECT_EQ(two.decision.remedy, "add samples that reach it");
  EXPECT_EQ(record(result, "one").placement, Placement::Undecided);
  EXPECT_FALSE(passes::leave_unreached(result.model, result.context));
}

TEST(LeaveUnreached, ChangesNothingWhereEachHasARange) {
  CalibratedModel result = testing::before_pass(calibrated(), "leave_unreached");
  EXPECT_FALSE(passes::leave_unreached(result.model, result.context));
  EXPECT_TRUE(record(result, "two").observed);
}

TEST(NormaliseInFloat, WhatReadASampleIsComputedBetweenDequantizeAndQuantize) {
  CalibratedModel result = testing::before_pass(calibrated(), "normalise_in_float");
  record(result, "two").reason = Reason::OfSample;
  EXPECT_TRUE(passes::normalise_in_float(result.model, result.context));
  const ir::NodeRecord& two = record(result, "two");
  EXPECT_EQ(two.placement, Placement::Reference);
  EXPECT_TRUE(two.observed);
  EXPECT_FALSE(two.decision.quantized);
  EXPECT_THAT(two.decision.reason, ::testing::HasSubstr("its kernel takes batches only"));
  EXPECT_FALSE(passes::normalise_in_float(result.model, result.context));
}

TEST(NormaliseInFloat, ChangesNothingForBatches) {
  CalibratedModel result = testing::before_pass(calibrated(), "normalise_in_float");
  EXPECT_FALSE(passes::normalise_in_float(result.model, result.context));
}

TEST(ApplyConvertMapping, TakesTheQConfigAwayWhereItHasNone) {
  CalibratedModel result =
      testing::before_pass(calibrated(mapping_with("one", default_qconfig("x86"))), "apply_convert_mapping");
  result.context.convert_mapping = mapping_with("one", std::nullopt);
  EXPECT_TRUE(passes::apply_convert_mapping(result.model, result.context));
  EXPECT_FALSE(record(result, "one").lookup.qconfig);
  EXPECT_EQ(record(result, "one").reason, Reason::ConvertMapping);
  EXPECT_TRUE(record(result, "two").lookup.qconfig);
  passes::place_by_table(result.model, result.context);
  EXPECT_EQ(record(result, "one").placement, Placement::Float);
  EXPECT_EQ(record(result, "one").reason, Reason::ConvertMapping);
}

TEST(ApplyConvertMapping, WithoutOneNothingChanges) {
  CalibratedModel result = testing::before_pass(calibrated(), "apply_convert_mapping");
  EXPECT_FALSE(passes::apply_convert_mapping(result.model, result.context));
  EXPECT_TRUE(record(result, "one").lookup.qconfig);
}

TEST(ApplyConvertMapping, RefusesAnotherQConfig) {
  CalibratedModel result =
      testing::before_pass(calibrated(mapping_with("one", default_qconfig("x86"))), "apply_convert_mapping");
  result.context.convert_mapping = mapping_with("one", qconfig("default_dynamic_qconfig"));
  EXPECT_THROW(passes::apply_convert_mapping(result.model, result.context), Error);
}

TEST(ExplainCalibrated, NotesWhatNoSampleReached) {
  CalibratedModel result = testing::before_pass(calibrated(), "explain_calibrated");
  forget_data(result, output_observer(call_node(result.model, "two")));
  EXPECT_TRUE(passes::explain_calibrated(result.model, result.context));
  EXPECT_THAT(record(result, "two").decision.notes,
              ::testing::Contains(::testing::HasSubstr("no calibration sample reached it")));
  EXPECT_TRUE(record(result, "one").decision.notes.empty());
  EXPECT_TRUE(passes::find_unobserved_layers(result.model, result.context));
  EXPECT_EQ(result.model.unobserved_layers, std::vector<std::string>{"two"});
}

TEST(ExplainCalibrated, NotesWhatWasNotFinite) {
  CalibratedModel result = testing::before_pass(calibrated(), "explain_calibrated");
  ir::observer_of(result.model, output_observer(call_node(result.model, "two")))
      .module->setattr("tensors_not_finite", int64_t{3});
  EXPECT_TRUE(passes::explain_calibrated(result.model, result.context));
  EXPECT_THAT(record(result, "two").decision.notes,
              ::testing::ElementsAre(::testing::StartsWith(
                  "what it returns held NaN or infinite values in 3 tensors of calibration")));
  EXPECT_TRUE(record(result, "one").decision.notes.empty());
}

TEST(ExplainCalibrated, SaysWhatHasNoFloatTensors) {
  CalibratedModel result = testing::before_pass(calibrated(), "explain_calibrated");
  const ir::Node* two = call_node(result.model, "two");
  meet_other_dtype(result, input_observer(two));
  meet_other_dtype(result, output_observer(two));
  EXPECT_TRUE(passes::explain_calibrated(result.model, result.context));
  EXPECT_FALSE(record(result, "two").decision.quantized);
  EXPECT_EQ(record(result, "two").reason, Reason::OtherDtype);
  EXPECT_TRUE(record(result, "one").decision.quantized);
}

TEST(ExplainCalibrated, HasNothingToSayOfWhatWasReached) {
  CalibratedModel result = testing::before_pass(calibrated(), "explain_calibrated");
  EXPECT_FALSE(passes::explain_calibrated(result.model, result.context));
  EXPECT_FALSE(passes::find_unobserved_layers(result.model, result.context));
  EXPECT_TRUE(result.model.unobserved_layers.empty());
}

TEST(ExplainCalibrated, NotesNothingWhereThereWasNoData) {
  CalibratedModel result = testing::before_pass(prepared(), "explain_calibrated");
  EXPECT_TRUE(passes::is_uncalibrated(result.model));
  EXPECT_FALSE(passes::explain_calibrated(result.model, result.context));
  EXPECT_TRUE(record(result, "one").decision.notes.empty());
  EXPECT_TRUE(passes::find_unobserved_layers(result.model, result.context));
  EXPECT_EQ(result.model.unobserved_layers.size(), result.model.observers.size());
}

TEST(IsUncalibrated, IsWrongOnceAnObserverSawData) {
  EXPECT_FALSE(passes::is_uncalibrated(testing::calibrated_model(calibrated()).model));
}

TEST(DropIdleObservers, RemovesThoseBetweenOperatorsWithoutQConfig) {  // K-03
  CalibratedModel result = testing::before_pass(calibrated(), "drop_idle_observers");
  record(result, "two").lookup.qconfig.reset();
  EXPECT_TRUE(passes::drop_idle_observers(result.model, result.context));
  EXPECT_EQ(output_observer(call_node(result.model, "two")), nullptr);
  EXPECT_NE(input_observer(call_node(result.model, "two")), nullptr) << "what 'one' returns is rounded";
}

TEST(DropIdleObservers, RemovesThoseOfOtherDtypes) {
  CalibratedModel result = testing::before_pass(calibrated(), "drop_idle_observers");
  meet_other_dtype(result, input_observer(call_node(result.model, "one")));
  EXPECT_TRUE(passes::drop_idle_observers(result.model, result.context));
  EXPECT_EQ(call_node(result.model, "one")->input(0)->node()->kind(), c10::prim::Param);
}

TEST(DropIdleObservers, KeepsThoseThatRound) {
  CalibratedModel result = testing::before_pass(calibrated(), "drop_idle_observers");
  const std::size_t before = testing::count(result.model, kObserver);
  EXPECT_FALSE(passes::drop_idle_observers(result.model, result.context));
  EXPECT_EQ(testing::count(result.model, kObserver), before);
}

TEST(DropIdleObservers, LeavesThoseOfChannelsToEqualization) {
  Module model = testing::user_module("Equalized");
  model.register_module("one", testing::linear(5, 8));
  model.define("def forward(self, x):\n  return self.one.forward(x)\n");
  const EqualizationMapping everything = EqualizationMapping().set_global(default_equalization_qconfig());
  Prepared equalized = prepare(model, QConfigMapping().set_global(qconfig("default_qconfig")),
                               backend_config("x86"), {.equalization = everything, .recipe = Recipe::Fx});
  calibrate(equalized, std::vector<Sample>{{torch::randn({16, 5})}});
  CalibratedModel result = testing::before_pass(equalized, "drop_idle_observers");
  EXPECT_FALSE(passes::drop_idle_observers(result.model, result.context));
  const ir::Node* one = call_node(result.model, "one");
  ASSERT_TRUE(passes::is_channel_observer(result.model, one->input(0)->node()));
  EXPECT_TRUE(passes::is_rounded(result.model, result.context, one->input(0)));
}

TEST(PlaceByTable, WhatItsRowTakesIsInt8) {
  CalibratedModel result = testing::before_pass(calibrated(), "place_by_table");
  EXPECT_TRUE(passes::place_by_table(result.model, result.context));
  for (const char* path : {"one", "two"}) {
    EXPECT_EQ(record(result, path).placement, Placement::Int8);
    EXPECT_NE(passes::int8_layer(result.model, result.context, call_node(result.model, path)), nullptr);
  }
}

TEST(PlaceByTable, WithoutAQConfigAnOperatorIsFloat) {
  CalibratedModel result =
      testing::before_pass(calibrated(mapping_with("two", std::nullopt)), "place_by_table");
  passes::place_by_table(result.model, result.context);
  EXPECT_EQ(record(result, "one").placement, Placement::Int8);
  EXPECT_EQ(record(result, "two").placement, Placement::Float);
  EXPECT_NE(record(result, "two").reason, Reason::None);
}

TEST(PlaceByTable, WhatIsWrittenInMemoryStaysWhereItIs) {
  CalibratedModel result = testing::before_pass(calibrated(), "place_by_table");
  record(result, "two").placement = Placement::Written;
  passes::place_by_table(result.model, result.context);
  EXPECT_EQ(record(result, "two").placement, Placement::Written);
}

TEST(Rounding, InputsThatArriveQuantizedAreRounded) {
  const auto is_input_rounded = [](const PrepareCustomConfig& custom) {
    const CalibratedModel result =
        testing::before_pass(calibrated(default_qconfig_mapping("x86"), custom), "place_by_table");
    return passes::is_rounded(result.model, result.context, result.model.graph->inputs()[1]);
  };
  EXPECT_TRUE(is_input_rounded(PrepareCustomConfig().set_input_quantized_indexes({0})));
  EXPECT_FALSE(is_input_rounded({}));
}

}  // namespace place_by_table_test
}  // namespace tsq
