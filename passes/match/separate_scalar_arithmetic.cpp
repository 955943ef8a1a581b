// A sum or product with a number gets a range of its own. FX gives it that of what it was added to, which
// then counts both, or clips.
//   obs1(x), x + 3, obs1   becomes   obs1(x), x + 3, obs2
// Kernels with a number round nothing: they change zero point or scale.

#include <utility>

#include "passes/context/nodes.h"
#include "passes/match/passes.h"

namespace tsq::passes {

bool separate_scalar_arithmetic(ir::Model& model, const PassContext& /*context*/) {
  return change_each(model.matches, [](ir::Match& match) {
    const bool depends_on_arguments = !match.row->num_tensor_args_to_observation_type.empty();
    return depends_on_arguments && std::exchange(match.shares_observer, false);
  });
}

}  // namespace tsq::passes
