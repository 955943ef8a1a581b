#pragma once

#include <tsq/backend_config.h>

/// One function a shipped table. Row order is the order in which patterns are tried where their lengths are
/// equal (C-01).
namespace tsq {

BackendConfig native_backend_config();
BackendConfig fbgemm_backend_config();
BackendConfig x86_backend_config();
BackendConfig qnnpack_backend_config();
BackendConfig onednn_backend_config();
BackendConfig executorch_backend_config();
BackendConfig tensorrt_backend_config();
BackendConfig qnnpack_pt2e_backend_config();

}  // namespace tsq
