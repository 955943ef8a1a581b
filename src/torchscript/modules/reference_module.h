#pragma once

#include <tsq/backend_config.h>
#include <tsq/reference_module.h>

#include "ir/model.h"

namespace tsq::torchscript {

/// Throws Error(BadConfig) with the known names where a row names a reference module that nobody registered,
/// or one of PyTorch's that is of another class than its root module.
void check_reference_modules(const BackendConfig& backend);

/// Whether a reference module is the user's.
[[nodiscard]] bool is_registered_reference(Symbol reference);

/// The user's reference module of a float module, filled as register_reference_module promises.
torch::jit::Module registered_reference(Symbol reference, const torch::jit::Module& float_module,
                                        const QParams& weight);

}  // namespace tsq::torchscript
