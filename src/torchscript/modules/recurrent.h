#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/observer.h>
#include <tsq/symbol.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module_call.h"

namespace tsq::torchscript {

/// Whether a module class is a recurrent layer or cell of torch.nn that has dynamic kernels: LSTM, GRU,
/// LSTMCell, GRUCell, RNNCell.
[[nodiscard]] bool is_recurrent(Symbol type);

/// The weights of a recurrent module in pairs, of the input and of the hidden state, for each layer and
/// direction.
struct RecurrentWeights {
  std::vector<at::Tensor> weights{};
  std::vector<at::Tensor> biases{};  ///< of each weight; undefined: none
  std::string refusal{};             ///< why they cannot be quantized; then there are none
};

/// The weights out of the operators in the module's forward, so that scripted and traced files give the same.
RecurrentWeights recurrent_weights(const ir::ModuleCall& call);

/// What a recurrent layer computes of its input, its first states and its weights.
struct RecurrentForm {
  bool is_lstm{};
  int64_t layers{};
  bool both_ways{};
  bool batch_first{};
};

/// Empty for cells, for layers of packed sequences, and where the file does not show it.
std::optional<RecurrentForm> recurrent_form(const ir::ModuleCall& call);

/// The kernel that the module's recurrent operator has; empty: none.
std::string_view recurrent_kernel_of(const ir::ModuleCall& call);

/// The module with its weights rounded: the reference. `qparams` has an entry for each weight. Its method is
/// "forward"; weights that become float16 stay as they are, as in PyTorch's reference modules.
torch::jit::Module rounded_recurrent(const ir::ModuleCall& call, std::span<const QParams> qparams);

/// The module with the engine's dynamic kernels in place of its recurrent operators; all else is as it was
/// (shapes, packed sequences, states that are not given). Its method is "forward". `reduce_range`: what the
/// kernels of layers quantize to. `samples_when_empty`: kernels of layers get a sample where the batch is
/// empty, and lose it again. Throws Error(Unsupported) with LibTorch's reason when the engine cannot pack a
/// weight.
torch::jit::Module dynamic_recurrent(const ir::ModuleCall& call, std::span<const QParams> qparams,
                                     bool reduce_range, bool samples_when_empty = false);

/// How many weights the first of several layers has, the first ones in their order; 0 for a cell and for a
/// layer alone.
std::size_t weights_of_first_layer(const ir::ModuleCall& call);
/// The share of its first `count` weights in the values of all of them.
double share_of_first_weights(const ir::ModuleCall& call, std::size_t count);

}  // namespace tsq::torchscript
