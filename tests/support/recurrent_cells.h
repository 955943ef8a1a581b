#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

namespace tsq::testing {

/// Features and states of the cells.
constexpr int64_t kCellSize = 8;

/// A cell of torch.nn.modules.rnn with random parameters for so many gates, and its forward's source.
torch::jit::Module recurrent_cell(const std::string& name, int64_t gates, const std::string& forward);

/// As scripting writes them: they take a batch, or one sample without the dimension.
torch::jit::Module lstm_cell();
torch::jit::Module gru_cell();

}  // namespace tsq::testing
