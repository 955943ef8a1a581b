#include "backends/backends.h"
#include "backends/rows.h"

namespace tsq {

// Source: torch/ao/quantization/backend_config/qnnpack.py. The symmetric dtypes are XNNPACK's, which the
// engine uses where it can.
BackendConfig qnnpack_backend_config() {
  const DTypes conv{kWeightedSymmetricInt8, kWeightedInt8};
  const DTypes linear{kWeightedSymmetricInt8, kWeightedInt8, kDynamicInt8, kDynamicFloat16};
  const DTypes plain{kSymmetricInt8, kInt8};
  const DTypes dynamic{kDynamicInt8, kDynamicFloat16};
  const DTypes embedding{kWeightOnlyQUInt8, kWeightOnlyQUInt4x2};
  return BackendConfig("qnnpack")
      .set_backend_pattern_configs(conv_rows(conv))
      .set_backend_pattern_configs(linear_rows(linear))
      .set_backend_pattern_configs(binary_rows(plain))
      .set_backend_pattern_configs(cat_rows(plain))
      .set_backend_pattern_configs(default_rows(plain))
      .set_backend_pattern_configs(fixed_qparams_rows(plain))
      .set_backend_pattern_configs(share_qparams_rows(plain))
      .set_backend_pattern_configs(batch_norm_rows(plain))
      .set_backend_pattern_configs(rnn_rows(dynamic))
      .set_backend_pattern_configs(embedding_rows(embedding));
}

}  // namespace tsq
