#pragma once

#include "ir/model.h"

namespace tsq::operators {

/// A call that capture could not look through, by what is called.
enum class OpaqueCall {
  None,
  ChosenModule,  ///< a module that is chosen when the model runs
  Method,        ///< of a class that is no module
  Fork,
  HostOperator,  ///< an operator of the host program
};
[[nodiscard]] OpaqueCall opaque_call(const ir::Node* node);

/// Whether the report has an entry for a node: operators of TorchScript and of the host program, calls of
/// modules, functions and methods; not what only moves values about.
[[nodiscard]] bool is_operator(const ir::Model& model, const ir::Node* node);

}  // namespace tsq::operators
