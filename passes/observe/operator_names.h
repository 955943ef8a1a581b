#pragma once

#include <string>

#include "ir/model.h"

/// What the report calls operators.
namespace tsq::passes {

/// "torch.nn.Conv2d", "torch.jit.fork", "Settings.scale" of a method.
std::string readable_name(const ir::Model& model, const ir::Node* node);

/// The first tensor that a node reads: "the float result of torch.nn.SiLU ('block.act')".
std::string describe_input(const ir::Model& model, const ir::Node* node);

}  // namespace tsq::passes
