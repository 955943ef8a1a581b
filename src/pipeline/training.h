#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <string>

#include "pipeline/stage.h"

namespace tsq::detail {

/// A copy of a float model in training mode, whose parameters require gradients where the model's do; a
/// traced one follows its mode, a frozen one has parameters.
torch::jit::Module copy_to_train(const torch::jit::Module& model);

/// The executable form of a stage that trains. It holds what convert needs, so that Python's torch.jit.save,
/// which drops an archive's extra files, loses nothing: the configuration and the float model without its
/// values.
torch::jit::Module trained_module(const Stage& stage);

/// A stage with parameters, observers and fake quantize modules of its own.
std::shared_ptr<Stage> independent_training_copy(const Stage& stage);

/// Whether a loaded module is one.
bool is_training_module(const torch::jit::Module& module);
/// Whether one was frozen or traced: it rounds, and convert finds nothing of what it needs.
bool is_rest_of_training(const torch::jit::Module& module);
/// The configuration that it was prepared with, as JSON text.
std::string training_configuration(const torch::jit::Module& module);
/// The float model with the values that training gave it; shares tensors with `module`.
torch::jit::Module trained_float_model(const torch::jit::Module& module);
/// The trained observers and fake quantize modules of `module` in place of the stage's fresh ones.
void take_trained_observers(Stage& stage, const torch::jit::Module& module);

}  // namespace tsq::detail
