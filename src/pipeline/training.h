#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/qconfig.h>

#include <map>
#include <string>

#include "ir/graph_module.h"

namespace tsq::detail {

struct Stage;

/// What a stage of a model that trains has beside the others.
struct Training {
  std::map<std::string, torch::jit::Module> weight_fake_quants{};  ///< by the path of their layer
  bool is_finished{false};  ///< convert has taken over: the graph is in evaluation mode
};

/// A copy of a float model in training mode, whose parameters require gradients where the model's do; a
/// traced one follows its mode, a frozen one has parameters.
torch::jit::Module copy_to_train(const torch::jit::Module& model);

/// Fresh fake quantize modules for the weights of the layers that train, by path.
std::map<std::string, torch::jit::Module> make_weight_fake_quants(
    const ir::GraphModule& gm, const std::map<std::string, QConfig>& qconfigs);

/// Fresh instances of the graph's observers, sized for the weights that they see.
std::vector<torch::jit::Module> make_training_observers(const ir::GraphModule& gm);

/// The executable form of such a stage. It holds what convert needs, so that Python's torch.jit.save, which
/// drops an archive's extra files, loses nothing: the configuration and the float model without its values.
torch::jit::Module trained_module(const Stage& stage);

/// Whether a loaded module is one.
bool is_training_module(const torch::jit::Module& module);
/// The configuration that it was prepared with, as JSON text.
std::string training_configuration(const torch::jit::Module& module);
/// The float model with the values that training gave it; shares tensors with `module`.
torch::jit::Module trained_float_model(const torch::jit::Module& module);
/// The trained observers and fake quantize modules of `module` in place of the stage's fresh ones.
void take_trained_observers(Stage& stage, const torch::jit::Module& module);

}  // namespace tsq::detail
