// What may not stand in a model after a room is named; what may is not.

#include "passes/legality.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <string>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "support/before_pass.h"
#include "support/calibrated_model.h"
#include "support/graph_model.h"
#include "support/small_models.h"

namespace tsq {
namespace legality_test {

using passes::illegal_after;
using passes::Room;

Prepared calibrated() {
  torch::jit::Module model = testing::user_module("Two");
  for (const char* name : {"one", "two"}) model.register_module(name, testing::linear(8, 8));
  model.define("def forward(self, x):\n  return self.two.forward(torch.relu(self.one.forward(x)))\n");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend_config("x86"), {});
  calibrate(prepared, std::vector<Sample>{{at::linspace(-1, 1, 32).view({4, 8})}});
  return prepared;
}

void expect_illegal(Room room, const ir::Model& model, const std::string& what) {
  const std::string illegal = illegal_after(room, model);
  EXPECT_TRUE(illegal.starts_with(what)) << what << ": '" << illegal << "'";
}

TEST(Legality, ObserversStandBetweenObserveAndNumerics) {
  const ir::Model model = testing::calibrated_model(calibrated()).model;
  EXPECT_EQ(illegal_after(Room::Observe, model), "");
  EXPECT_EQ(illegal_after(Room::Ranges, model), "");
  expect_illegal(Room::Convert, model, "an observer after the room convert");
}

TEST(Legality, AfterPlaceEachObservedOperatorIsPlaced) {
  ir::Model model = testing::before_pass(calibrated(), "equalize_across_layers").model;
  EXPECT_EQ(illegal_after(Room::Place, model), "");
  for (ir::NodeRecord& record : model.records) record.placement = ir::Placement::Undecided;
  expect_illegal(Room::Place, model, "an observed operator that is not placed after the room place");
}

TEST(Legality, NothingIsInInt8BeforeItIsPlaced) {
  ir::Model model = testing::calibrated_model(calibrated()).model;
  for (ir::NodeRecord& record : model.records) record.placement = ir::Placement::Int8;
  expect_illegal(Room::Ranges, model, "an operator that is placed in int8 after the room ranges");
}

TEST(Legality, MatchesEndWithPlace) {
  ir::Model model = testing::model_of_graph("%x : Tensor", "  %y : Tensor = aten::relu(%x)\n  return (%y)\n");
  EXPECT_EQ(illegal_after(Room::Pack, model), "");
  testing::quantized_record(model, "y").match = 0;
  expect_illegal(Room::Rewrite, model, "an operator with a match after the room rewrite");
  expect_illegal(Room::Convert, model, "an operator with a match after the room convert");
}

TEST(Legality, WeightsAreRoundedNoEarlierThanTrained) {
  ir::Model model = testing::model_of_graph("%x : Tensor", "  %y : Tensor = aten::relu(%x)\n  return (%y)\n");
  testing::put_call(model, "y", testing::linear_call(testing::rounded_linear(8, 8)));
  EXPECT_EQ(illegal_after(Room::Convert, model), "");
  expect_illegal(Room::Match, model, "a layer with a rounded weight after the room match");
}

TEST(Legality, ProgramsAreMadeByLower) {
  ir::Model model = testing::model_of_graph("%x : Tensor", "  %y : Tensor = aten::relu(%x)\n  return (%y)\n");
  ir::Node* relu = testing::node_named(model, "y");
  ir::Node* run = model.graph->create(c10::Symbol::fromQualString("tsq::run"), {relu->input(0)});
  run->insertBefore(relu);
  EXPECT_EQ(illegal_after(Room::Lower, model), "");
  expect_illegal(Room::Convert, model, "a fused program after the room convert");
}

}  // namespace legality_test
}  // namespace tsq
