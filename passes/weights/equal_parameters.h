#pragma once

#include "ir/model.h"

namespace tsq::passes {

/// Equal parameters of the calls of one layer become one tensor. Whether there were any.
bool join_equal_parameters(ir::Model& model);

}  // namespace tsq::passes
