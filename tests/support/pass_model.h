#pragma once

#include <torch/csrc/jit/api/module.h>

#include "ir/model.h"

/// Models as passes see them.
namespace tsq::testing {

/// What capture makes of a module.
ir::Model captured(const torch::jit::Module& module);
/// The same with one spelling for each operation.
ir::Model normalised(const torch::jit::Module& module);
/// The same with calls in place of the operators that tracing or freezing made of modules.
ir::Model lifted(const torch::jit::Module& module);

}  // namespace tsq::testing
