#include "backends/kernels/engine_packing.h"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace tsq::kernels {

at::IValue run_with_engine(const torch::jit::Module& module, at::QEngine engine,
                           std::vector<at::IValue> inputs) {
  const at::NoGradGuard no_grad;
  const EnginePacking packing(engine);
  return module.get_method("forward")(std::move(inputs));
}

}  // namespace tsq::kernels
