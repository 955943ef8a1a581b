#include "backends/backends.h"
#include "backends/rows.h"

namespace tsq {

// Source: torch/ao/quantization/backend_config/fbgemm.py.
BackendConfig fbgemm_backend_config() {
  const DTypes linear{kWeightedInt8, kDynamicInt8, kDynamicFloat16};
  const DTypes dynamic{kDynamicInt8, kDynamicFloat16};
  const DTypes embedding{kWeightOnlyQUInt8, kWeightOnlyQUInt4x2};
  return BackendConfig("fbgemm")
      .set_backend_pattern_configs(conv_rows({kWeightedInt8}))
      .set_backend_pattern_configs(linear_rows(linear))
      .set_backend_pattern_configs(binary_rows({kInt8}))
      .set_backend_pattern_configs(cat_rows({kInt8}))
      .set_backend_pattern_configs(default_rows({kInt8}))
      .set_backend_pattern_configs(fixed_qparams_rows({kInt8}))
      .set_backend_pattern_configs(share_qparams_rows({kInt8}))
      .set_backend_pattern_configs(tensor_info_rows({kInt8}))
      .set_backend_pattern_configs(batch_norm_rows({kInt8}))
      .set_backend_pattern_configs(rnn_rows(dynamic))
      .set_backend_pattern_configs(embedding_rows(embedding));
}

}  // namespace tsq
