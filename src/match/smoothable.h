#pragma once

#include "ir/model.h"

namespace tsq::match {

/// The LayerNorm (module or function) that produces `value`, looked for after observers, Dropout and
/// Identity; null when something else produces it.
ir::Node* layer_norm_after(const ir::Model& model, ir::Value* value);

}  // namespace tsq::match
