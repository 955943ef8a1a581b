#pragma once

#include "ir/graph_module.h"

namespace tsq::torchscript {

/// Where the attributes of an emitted module are.
enum class Layout {
  Flat,    ///< on the module itself, layers as operators of its forward
  OfUser,  ///< under modules at the user's paths; linear layers and convolutions are modules, which are
           ///< called
};

/// The executable module of a graph: module calls and observers become calls of sub-modules and plain
/// operators, attributes that the graph reads become attributes of the result. `observers` holds the
/// instances of gm.observers (empty where the graph has none). Every result has classes of its own, so it
/// shares no code with the user's module.
torch::jit::Module emit(const ir::GraphModule& gm, std::span<const torch::jit::Module> observers = {},
                        Layout layout = Layout::Flat);

}  // namespace tsq::torchscript
