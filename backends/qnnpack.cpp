#include "backends/backends.h"
#include "backends/rows.h"

namespace tsq {

// Source: torch/ao/quantization/backend_config/qnnpack.py. The symmetric dtypes are XNNPACK's, which the
// engine uses where it can.
BackendConfig qnnpack_backend_config() {
  const DTypes plain{kSymmetricInt8, kInt8};
  return cpu_backend_config("qnnpack",
                            {.conv = {kWeightedSymmetricInt8, kWeightedInt8},
                             .linear = {kWeightedSymmetricInt8, kWeightedInt8, kDynamicInt8, kDynamicFloat16},
                             .binary = plain,
                             .fixed_qparams = plain,
                             .plain = plain,
                             .has_tensor_info = false});
}

}  // namespace tsq
