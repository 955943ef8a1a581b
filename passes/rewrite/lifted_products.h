#pragma once

#include <tsq/qconfig_mapping.h>

#include "ir/model.h"

namespace tsq::passes {

/// Puts linear layers in the place of products with a constant to which the mapping gives a QConfig that the
/// product would not have by itself. Whether there were any.
bool put_layers_for_products(ir::Model& model, const QConfigMapping& mapping);

}  // namespace tsq::passes
