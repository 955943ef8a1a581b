#include "support/pass_model.h"

#include "passes/capture/passes.h"
#include "passes/plain/passes.h"

namespace tsq::testing {

ir::Model captured(const torch::jit::Module& module) {
  ir::Model model;
  passes::capture(model, {.source = module});
  return model;
}

ir::Model normalised(const torch::jit::Module& module) {
  ir::Model model = captured(module);
  passes::normalise(model, {});
  return model;
}

ir::Model lifted(const torch::jit::Module& module) {
  ir::Model model = captured(module);
  passes::untrace(model, {});
  passes::normalise(model, {});
  passes::lift(model, {});
  return model;
}

}  // namespace tsq::testing
