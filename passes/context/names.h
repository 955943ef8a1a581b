#pragma once

#include <c10/core/ScalarType.h>
#include <torch/csrc/jit/api/module.h>

#include "ir/model.h"

/// What passes speak of all the time.
namespace tsq::passes {

using c10::ScalarType;
using c10::TypeKind;
using ir::Model;
using ir::Node;
using ir::Value;
using torch::jit::Module;

}  // namespace tsq::passes
