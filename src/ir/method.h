#pragma once

#include <ATen/core/function_schema.h>

#include <memory>
#include <string>

#include "ir/graph.h"

namespace tsq::ir {

/// A method of the user's model other than forward. It stays in float, everything inlined, and works on the
/// same attributes.
struct Method {
  std::string name{};
  std::shared_ptr<Graph> graph{};  ///< input 0 is self
  c10::FunctionSchema schema{"", "", {}, {}};
};

}  // namespace tsq::ir
