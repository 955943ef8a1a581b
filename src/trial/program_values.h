#pragma once

#include <vector>

#include "trial/captured.h"

namespace tsq::detail {

/// Whether an operator that ran called a fused program.
bool calls_program(const Captured& op);

/// What ran inside of a program. Sources are counted within it: operators are those of `operations`,
/// arguments the tensors that the program was given.
struct ProgramOperations {
  std::vector<Captured> operations{};
  std::vector<Source> results{};  ///< of what the program returns, in its order
};

/// What the operations of a program compute when it is called as `call` was, in their order: from the
/// program's own constants, by programs that return what is inside of it. An operation stands together with
/// the activation and the rounding that nothing else comes before, as a kernel has them; views and
/// conversions are left out. A recurrent layer is one operation, with all steps as its output, as in models.
ProgramOperations operations_within(const Captured& call);

}  // namespace tsq::detail
