#include "backends/backends.h"
#include "backends/rows.h"

namespace tsq {

// Source: torch/ao/quantization/backend_config/tensorrt.py. LibTorch has no kernels for it: the reference
// model is what is exported.
BackendConfig tensorrt_backend_config() {
  return BackendConfig("tensorrt")
      .set_backend_pattern_configs(conv_rows({kWeightedSignedInt8}))
      .set_backend_pattern_configs(
          with_columns({{.pattern = fn::addmm, .inputs = {{"bias", 0}, {"input", 1}, {"weight", 2}}}},
                       kOwnObserver, {kWeightedSignedInt8}))
      .set_backend_pattern_configs(cat_rows({kSignedInt8}))
      .set_backend_pattern_configs(linear_rows({kWeightedSignedInt8}))
      .set_backend_pattern_configs(binary_rows({kWeightedSignedInt8}))
      .set_backend_pattern_configs(share_qparams_rows({kSignedInt8}))
      .set_backend_pattern_configs(tensor_info_rows({kSignedInt8}));
}

}  // namespace tsq
