#include <fmt/format.h>
#include <tsq/backends.h>
#include <tsq/error.h>

#include <algorithm>

#include "backends/backends.h"
#include "base/text.h"

namespace tsq {

const std::vector<BackendEntry>& backend_entries() {
  static const std::vector<BackendEntry> entries{
      {"x86", "x86 CPUs: FBGEMM and oneDNN, whichever is faster for a layer", "x86", x86_backend_config},
      {"fbgemm", "x86 CPUs with AVX2 or later", "fbgemm", fbgemm_backend_config},
      {"onednn", "x86 CPUs with VNNI or AMX: oneDNN alone, with more fusions", "onednn",
       onednn_backend_config},
      {"qnnpack", "ARM and x86 CPUs: QNNPACK and XNNPACK", "qnnpack", qnnpack_backend_config},
      {"native", "the patterns that FBGEMM and QNNPACK share; PyTorch's own default", "fbgemm",
       native_backend_config},
      {"executorch", "reference models for ExecuTorch", "", executorch_backend_config},
      {"tensorrt", "reference models for TensorRT", "", tensorrt_backend_config},
      {"qnnpack_pt2e", "overloads of torch.ops.aten for QNNPACK, as exported graphs have them", "",
       qnnpack_pt2e_backend_config},
  };
  return entries;
}

BackendConfig backend_config(std::string_view name) {
  const auto& entries = backend_entries();
  const auto found = std::ranges::find(entries, name, &BackendEntry::name);
  if (found != entries.end()) return found->table();
  throw Error(ErrorCode::BadConfig, fmt::format("there is no backend '{}'", name),
              suggestion(name, names_of(entries, &BackendEntry::name)));
}

bool is_made_for_this_processor(const BackendConfig& backend) {
#if defined(__aarch64__) || defined(__arm__)
  constexpr bool kIsArm = true;
#else
  constexpr bool kIsArm = false;
#endif
  return kIsArm || backend.engine() != "qnnpack";
}

}  // namespace tsq
