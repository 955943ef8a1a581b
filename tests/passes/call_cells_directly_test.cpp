// Recurrent cells that recipe best leaves in float.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include "passes/tune/passes.h"
#include "support/best_model.h"
#include "support/calibrated_model.h"
#include "support/pass_model.h"
#include "support/recurrent_cells.h"
#include "support/small_models.h"

namespace tsq {
namespace call_cells_directly_test {

using testing::count;
using testing::gru_cell;
using testing::lstm_cell;
using torch::jit::Module;

/// `body` computes y from self.cell and x.
Module network(const Module& cell, const std::string& body) {
  torch::manual_seed(1);
  Module model = testing::user_module("Network");
  model.register_module("cell", cell);
  model.define("def forward(self, x):\n" + body + "  return y\n");
  return model;
}

at::Tensor input() {
  torch::manual_seed(2);
  return torch::randn({16, testing::kCellSize});
}

/// What recipe best makes of a network whose cells a mapping leaves float.
Module with_float_cells(const Module& model) {
  const BackendConfig backend = backend_config("x86");
  QConfigMapping mapping = best_qconfig_mapping("x86");
  for (const char* type : {"torch.nn.LSTMCell", "torch.nn.GRUCell"})
    mapping.set_object_type(type, std::nullopt);
  Prepared prepared = prepare(model, mapping, backend, {.recipe = Recipe::Best});
  calibrate(prepared, std::vector<Sample>{{input()}});
  return convert(prepared, backend);
}

const std::string kLstm = "  h, c = self.cell.forward(x, (x, x))\n  y = h + c\n";
const std::string kGru = "  y = self.cell.forward(x, x)\n";

TEST(CallCellsDirectly, TheirOperatorRunsWithoutQuestionsForABatch) {
  for (const auto& [model, op] : {std::pair{network(lstm_cell(), kLstm), "aten::lstm_cell"},
                                  std::pair{network(gru_cell(), kGru), "aten::gru_cell"}}) {
    const Module lowered = with_float_cells(model);
    EXPECT_EQ(count(lowered, op), 2U) << op;  // one of them with the questions
    EXPECT_TRUE(at::equal(testing::run(model, input()), testing::run(lowered, input()))) << op;
  }
}

TEST(CallCellsDirectly, OneSampleWithoutABatchIsTakenAsBefore) {
  for (const Module& model : {network(lstm_cell(), kLstm), network(gru_cell(), kGru)}) {
    const Module lowered = with_float_cells(model);
    const at::Tensor one = input()[0];
    EXPECT_TRUE(at::equal(testing::run(model, one), testing::run(lowered, one)));
  }
}

/// A network whose cell makes its own state.
Module network_without_states() {
  return network(testing::recurrent_cell("GRUCell", 3,
                                         "def forward(self, x, hx: Optional[Tensor] = None):\n"
                                         "  h = torch.zeros_like(x) if hx is None else hx\n"
                                         "  return torch.gru_cell(x, h, self.weight_ih, self.weight_hh, "
                                         "self.bias_ih, self.bias_hh)\n"),
                 "  y = self.cell.forward(x)\n");
}

TEST(CallCellsDirectly, ACellThatMakesItsOwnStateIsCalledAsBefore) {
  const Module model = network_without_states();
  const Module lowered = with_float_cells(model);
  EXPECT_EQ(count(lowered, "aten::gru_cell"), 1U);
  EXPECT_TRUE(at::equal(testing::run(model, input()), testing::run(lowered, input())));
}

TEST(CallCellsDirectly, ThePassPutsTheOperatorBesideTheModule) {
  ir::Model model = testing::captured(network(gru_cell(), kGru));
  EXPECT_TRUE(passes::call_cells_directly(model, {}));
  EXPECT_EQ(count(model, "prim::If"), 1U);
  EXPECT_EQ(count(model, "aten::gru_cell"), 1U);
}

TEST(CallCellsDirectly, ThePassLeavesACellThatMakesItsOwnState) {
  ir::Model model = testing::captured(network_without_states());
  EXPECT_FALSE(passes::call_cells_directly(model, {}));
  EXPECT_EQ(count(model, "aten::gru_cell"), 0U);
}

}  // namespace call_cells_directly_test
}  // namespace tsq
