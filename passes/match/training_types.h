#pragma once

#include <tsq/backend_config.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/symbol.h>

#include "ir/module_call.h"

namespace tsq::passes {

/// The row that names the class by which a class of layers trains; null where there is none.
[[nodiscard]] const BackendPatternConfig* row_to_train(const BackendConfig& table, Symbol type);

/// Whether the weight of such a call is rounded in training. The table of an embedding has a float zero point
/// for each row (QT-40); FX stops the model for others.
[[nodiscard]] bool trains_weight(const ir::ModuleCall& call, const QConfig& qconfig);

/// A mapping whose entries of float types hold for the types that train in their places, too (QT-12).
/// Source: _update_qconfig_for_qat.
[[nodiscard]] QConfigMapping with_training_types(const QConfigMapping& mapping, const BackendConfig& table);

}  // namespace tsq::passes
