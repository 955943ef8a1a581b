#pragma once

#include <tsq/backend_config.h>
#include <tsq/custom_config.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/quantize.h>
#include <tsq/recipe.h>

/// Quantization-aware training of a TorchScript model.
namespace tsq {

/// prepare_qat_fx: captures `model` (which is not modified), fuses it in training form, puts fake quantize
/// modules in. The prepared module trains in any LibTorch and, saved, in Python: its parameters and buffers
/// have the names and values of the model's, train() and eval() work as in it. A mapping for training is
/// default_qat_qconfig_mapping(backend). After training, convert and lower take the stage, or the file that
/// torch.jit.save wrote, as they take a calibrated model. Throws Error(BadModel) for a model without
/// parameters, Error(BadConfig), and Error(Unsupported) for what has no form that trains.
Prepared prepare_qat(const torch::jit::Module& model, const QConfigMapping& mapping,
                     const BackendConfig& backend, const PrepareOptions& options = {});

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
