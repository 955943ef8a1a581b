#pragma once

#include <string>

#include "ir/model.h"

/// What the report calls operators.
namespace tsq::passes {

/// A call that capture could not look through, by what is called.
enum class OpaqueCall { None, ChosenModule, Method, Fork, HostOperator };
[[nodiscard]] OpaqueCall opaque_call(const ir::Node* node);

/// Whether the report has an entry for a node: operators of TorchScript and of the host program, calls of
/// modules, functions and methods; not what only moves values about.
[[nodiscard]] bool is_operator(const ir::Model& model, const ir::Node* node);

/// "torch.nn.Conv2d", "torch.jit.fork", "Settings.scale" of a method.
std::string readable_name(const ir::Model& model, const ir::Node* node);

/// The first tensor that a node reads: "the float result of torch.nn.SiLU ('block.act')".
std::string describe_input(const ir::Model& model, const ir::Node* node);

}  // namespace tsq::passes
