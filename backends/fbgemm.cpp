#include "backends/backends.h"
#include "backends/rows.h"

namespace tsq {

// Source: torch/ao/quantization/backend_config/fbgemm.py.
BackendConfig fbgemm_backend_config() { return cpu_backend_config("fbgemm", {}); }

}  // namespace tsq
