#pragma once

#include <tsq/backend_config.h>
#include <tsq/qconfig.h>
#include <tsq/symbol.h>

#include <optional>

#include "ir/module_call.h"

namespace tsq::match {

/// The module that a call is swapped by when its weight is quantized, or that its first member is: the root's
/// in the map over the whole table, get_root_module_to_quantized_reference_module. None: it stays as it is.
/// Containers of fusions are known by the `fused_module`s of the table alone. A layer that fake-quantizes its
/// weight counts as the class that it trains in place of, which it becomes at convert.
std::optional<Symbol> reference_module_of(const BackendConfig& backend, const ir::ModuleCall& call);

/// Whether a call is of a class with a weight, which none of the table's reference modules stands for.
[[nodiscard]] bool lacks_reference_module(const BackendConfig& backend, const ir::ModuleCall& call);

/// Whether a call's row takes the dtypes of its QConfig, the weight's among them, and the table has a
/// reference module for its root, where that is a module.
[[nodiscard]] bool takes_quantized_weight(const BackendConfig& backend, const ir::ModuleCall& call,
                                          const QConfig& qconfig);

}  // namespace tsq::match
