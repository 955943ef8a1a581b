#include "backends/backends.h"
#include "backends/rows.h"

namespace tsq {

// Source: torch/ao/quantization/backend_config/x86.py. Binary and fixed-range operators have the weighted
// dtypes there, as here.
BackendConfig x86_backend_config() {
  return cpu_backend_config("x86", {.binary = {kWeightedInt8}, .fixed_qparams = {kWeightedInt8}});
}

}  // namespace tsq
