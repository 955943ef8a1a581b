#include "support/recurrent_cells.h"

#include <torch/script.h>

namespace tsq::testing {

using torch::jit::Module;

Module recurrent_cell(const std::string& name, int64_t gates, const std::string& forward) {
  Module module("__torch__.torch.nn.modules.rnn." + name);
  module.register_attribute("training", c10::BoolType::get(), false);
  for (const char* weight : {"weight_ih", "weight_hh"})
    module.register_parameter(weight, torch::randn({gates * kCellSize, kCellSize}) / 3, false);
  for (const char* bias : {"bias_ih", "bias_hh"})
    module.register_parameter(bias, torch::randn({gates * kCellSize}), false);
  module.define(forward);
  return module;
}

Module lstm_cell() {
  return recurrent_cell(
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
  return recurrent_cell(
      "GRUCell", 3,
      "def forward(self, x, hx):\n"
      "  h = hx\n"
      "  if x.dim() == 1:\n"
      "    x, h = x.unsqueeze(0), h.unsqueeze(0)\n"
      "  return torch.gru_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)\n");
}

}  // namespace tsq::testing
