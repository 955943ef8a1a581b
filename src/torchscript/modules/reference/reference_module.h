#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/backend_config.h>
#include <tsq/error.h>
#include <tsq/observer.h>
#include <tsq/reference_module.h>
#include <tsq/symbol.h>

#include <cstddef>
#include <optional>

#include "ir/module_call.h"
#include "torchscript/modules/reference/reference_kind.h"

namespace tsq::torchscript {

/// Throws Error(BadConfig) with the known names where a row names a reference module that nobody registered.
void check_reference_modules(const BackendConfig& backend);

/// The class of torch.nn that one of PyTorch's reference modules computes as; none for others.
[[nodiscard]] std::optional<Symbol> pytorch_class_of(Symbol reference);

/// The reference module of PyTorch's for a call of torch.nn; null for others.
[[nodiscard]] const ReferenceKind* reference_kind_of(const ir::ModuleCall& call);

/// Makes a call of a user's class one of the class that one of PyTorch's reference modules stands for, by its
/// attributes. False where it lacks some.
bool read_as(Symbol reference, ir::ModuleCall& root);

/// Whether a reference module is the user's.
[[nodiscard]] bool is_registered_reference(Symbol reference);

/// The user's reference module of a float module, filled as register_reference_module promises. It is called
/// with `values` tensors. Throws Error(BadConfig) with the place where its function throws or it takes
/// another number.
torch::jit::Module registered_reference(Symbol reference, const torch::jit::Module& float_module,
                                        const QParams& weight, std::size_t values, const Where& where);

}  // namespace tsq::torchscript
