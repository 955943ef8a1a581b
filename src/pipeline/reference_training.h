#pragma once

#include <torch/csrc/jit/api/module.h>

#include <map>
#include <string>

#include "pipeline/stage.h"

/// Reference models that train: what quantization after training has found stays, and weights learn.
namespace tsq::detail {

/// The attribute that holds what such a model was made with, as JSON text.
constexpr const char* kReferenceToTrain = "tsq_reference_to_train";

/// A reference's module in which rounding has a gradient (fake quantize operators), and the weights and
/// biases of its layers are parameters. The ranges and the scales of weights stay as they are.
torch::jit::Module module_to_train(const Stage& reference);

/// The parameters that training has changed, by their names in such a module, in the place of the
/// reference's. Throws Error(BadModel) for what is no longer there, has another size or is not finite.
void take_parameters(Stage& reference, const std::map<std::string, at::Tensor>& trained);

}  // namespace tsq::detail
