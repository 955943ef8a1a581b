#include "backends/backends.h"
#include "backends/rows.h"

namespace tsq {

// Source: torch/ao/quantization/backend_config/native.py: what fbgemm and qnnpack both have, PyTorch's table
// when none is given.
BackendConfig native_backend_config() { return cpu_backend_config("native", {.has_layer_norm = true}); }

}  // namespace tsq
