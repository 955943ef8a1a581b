#pragma once

#include <ATen/core/Tensor.h>
#include <tsq/backend_config.h>
#include <tsq/custom_config.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/quantize.h>
#include <tsq/recipe.h>
#include <tsq/sample.h>

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

namespace torch::jit {
struct Module;
}

/// Quantization-aware training of a TorchScript model.
namespace tsq {

/// prepare_qat_fx: captures `model` (which is not modified), fuses it in training form, puts fake quantize
/// modules in. The prepared module trains in any LibTorch and, saved, in Python: its parameters and buffers
/// have the names and values of the model's, train() and eval() work as in it. A mapping for training is
/// default_qat_qconfig_mapping(backend) in recipe Fx and best_qat_qconfig_mapping(backend) in Best. After
/// training, convert and lower take the stage, or the file that torch.jit.save wrote, as they take a
/// calibrated model. Throws Error(BadModel) for a model without parameters or with others than float32,
/// Error(BadConfig), in recipe Best also for a mapping by which nothing would be rounded, and
/// Error(Unsupported) for what has no form that trains.
Prepared prepare_qat(const torch::jit::Module& model, const QConfigMapping& mapping,
                     const BackendConfig& backend, const PrepareOptions& options = {});

/// A mapping for training without the layers that recipe `best` would leave float: it quantizes `model` by
/// calibration on `samples`, and sets None for each layer that computes in float then. Such a layer would
/// train with roundings that the model in use does not have. Throws as prepare and calibrate.
QConfigMapping without_float_layers(QConfigMapping mapping, const torch::jit::Module& model,
                                    const BackendConfig& backend, std::span<const Sample> samples,
                                    const PrepareOptions& options = {});

/// Whether some QConfig of a mapping fake-quantizes. By another mapping, one for calibration, training rounds
/// nothing; FX takes it all the same.
bool rounds_in_training(const QConfigMapping& mapping);

/// A reference model that trains, in recipe Best mostly what is most accurate: it begins with what
/// quantization after training has found, ranges and scales stay, and the weights and biases of its layers
/// are parameters. Rounding hands gradients on (fake_quantize_per_tensor_affine and
/// fake_quantize_per_channel_affine). It is in evaluation mode and stays so, for batch norms are folded, and
/// is saved by LibTorch or Python. Throws Error(Unsupported) for a model with standalone modules.
torch::jit::Module reference_to_train(const Reference& reference);
/// The reference model with the parameters that training has given `trained`, which reference_to_train made;
/// lower takes it. Reference::load does the same with a file. Throws Error(BadModel) for another module, and
/// for parameters that are gone or hold NaN or infinity.
Reference trained_reference(const torch::jit::Module& trained);
/// Whether a module, loaded or just made, is one that reference_to_train has made.
bool is_reference_to_train(const torch::jit::Module& module);

/// What an optimizer of torch::optim takes: the parameters of a prepared module that require gradients, each
/// once.
std::vector<at::Tensor> parameters_to_train(const torch::jit::Module& module);

/// What a loaded module that trains was prepared with, as read_metadata says it of files: Python's
/// torch.jit.save keeps the module alone. Null for other modules.
nlohmann::json training_metadata(const torch::jit::Module& module);

/// Whether observers of a prepared module, loaded or just made, follow what they see.
void enable_observer(const torch::jit::Module& module);
void disable_observer(const torch::jit::Module& module);
/// Whether its fake quantize modules round.
void enable_fake_quant(const torch::jit::Module& module);
void disable_fake_quant(const torch::jit::Module& module);
/// Whether batch norms that train inside of a layer use their running statistics and leave them as they are,
/// in training mode too.
void freeze_bn_stats(const torch::jit::Module& module);
void update_bn_stats(const torch::jit::Module& module);

}  // namespace tsq
