#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/quantize.h>

namespace tsq::testing {

/// The lowered module; `report`, where it is not null, gets what became of each operator.
inline torch::jit::Module lowered(const Reference& reference, const BackendConfig& backend, Report* report) {
  const Lowered result = lower(reference, backend);
  if (report != nullptr) *report = result.report();
  return result.module();
}

}  // namespace tsq::testing
