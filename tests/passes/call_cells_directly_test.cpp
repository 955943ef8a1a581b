// Recurrent cells that recipe best leaves in float.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace {

using testing::count;
using torch::jit::Module;

constexpr int64_t kSize = 8;

/// A cell of torch.nn as scripting writes it: it takes a batch, or one sample without the dimension.
Module cell(const std::string& name, int64_t gates, const std::string& forward) {
  Module module("__torch__.torch.nn.modules.rnn." + name);
  module.register_attribute("training", c10::BoolType::get(), false);
  for (const char* weight : {"weight_ih", "weight_hh"})
    module.register_parameter(weight, torch::randn({gates * kSize, kSize}) / 3, false);
  for (const char* bias : {"bias_ih", "bias_hh"})
    module.register_parameter(bias, torch::randn({gates * kSize}), false);
  module.define(forward);
  return module;
}

Module lstm_cell() {
  return cell(
      "LSTMCell", 4,
      "def forward(self, x, hx: Tuple[Tensor, Tensor]):\n"
      "  h, c = hx\n"
      "  if x.dim() == 1:\n"
      "    x, h, c = x.unsqueeze(0), h.unsqueeze(0), c.unsqueeze(0)\n"
      "  h1, c1 = torch.lstm_cell(x, [h, c], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)\n"
      "  if x.dim() == 1:\n"
      "    h1, c1 = h1.squeeze(0), c1.squeeze(0)\n"
      "  return (h1, c1)\n");
}

Module gru_cell() {
  return cell("GRUCell", 3,
              "def forward(self, x, hx):\n"
              "  h = hx\n"
              "  if x.dim() == 1:\n"
              "    x, h = x.unsqueeze(0), h.unsqueeze(0)\n"
              "  return torch.gru_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)\n");
}

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
  return torch::randn({16, kSize});
}

/// What recipe best makes of a network whose cells a mapping leaves float.
Module with_float_cells(const Module& model) {
  const BackendConfig backend = backend_config("x86");
  QConfigMapping mapping = best_qconfig_mapping("x86");
  for (const char* type : {"torch.nn.LSTMCell", "torch.nn.GRUCell"})
    mapping.set_object_type(type, std::nullopt);
  Prepared prepared = prepare(model, mapping, backend, {}, {}, {.recipe = Recipe::Best});
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

TEST(CallCellsDirectly, ACellThatMakesItsOwnStateIsCalledAsBefore) {
  const Module no_state =
      cell("GRUCell", 3,
           "def forward(self, x, hx: Optional[Tensor] = None):\n"
           "  h = torch.zeros_like(x) if hx is None else hx\n"
           "  return torch.gru_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)\n");
  const Module model = network(no_state, "  y = self.cell.forward(x)\n");
  const Module lowered = with_float_cells(model);
  EXPECT_EQ(count(lowered, "aten::gru_cell"), 1U);
  EXPECT_TRUE(at::equal(testing::run(model, input()), testing::run(lowered, input())));
}

}  // namespace
}  // namespace tsq
