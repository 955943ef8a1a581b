#pragma once

#include <tsq/backend_config.h>

#include <optional>

#include "ir/model.h"

namespace tsq::match {

/// The module that a call is swapped by when its weight is quantized, or that its first member is: the root's
/// in the map over the whole table, get_root_module_to_quantized_reference_module. None: it stays as it is.
/// Containers of fusions are known by the `fused_module`s of the table alone.
std::optional<Symbol> reference_module_of(const BackendConfig& backend, const ir::ModuleCall& call);

/// Whether a call is of a class with a weight, which none of the table's reference modules stands for.
[[nodiscard]] bool lacks_reference_module(const BackendConfig& backend, const ir::ModuleCall& call);

}  // namespace tsq::match
