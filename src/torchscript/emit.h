#pragma once

#include "ir/model.h"

namespace tsq::torchscript {

/// Where the attributes of an emitted module are.
enum class Layout {
  Flat,    ///< on the module itself, layers as operators of its forward
  OfUser,  ///< under modules at the user's paths; linear layers and convolutions are modules, which are
           ///< called
  OfFx,    ///< the same, with the keys of FX's state_dict: layers of fused modules are "0" in them, shared
           ///< observers have all their names, and quantize operators read buffers
};

/// The executable module of a graph: module calls and observers become calls of sub-modules and plain
/// operators, attributes that the graph reads become attributes of the result. Observers are those of
/// ObserverEntry::module, not copies. Every result has classes of its own, so it shares no code with the
/// user's module. The nodes of a graph with observers keep the numbers of their values: calibration takes
/// note of them (CalibrationRun).
torch::jit::Module emit(const ir::Model& model, Layout layout = Layout::Flat);

}  // namespace tsq::torchscript
