#pragma once

#include <tsq/backend_config.h>

#include <string_view>
#include <vector>

namespace tsq {

/// A shipped table: "native", "fbgemm", "x86", "qnnpack", "onednn", "executorch", "tensorrt", "qnnpack_pt2e".
/// Throws Error(BadConfig) with the nearest known name.
BackendConfig backend_config(std::string_view name);

/// The table with the rows for weight-only quantization that PyTorch's lacks: linear layers with 8-bit and
/// 4-bit weights, embeddings with 8, 4 and 2 bits, as modules and functions. Its kernels are those of
/// LibTorch itself, whatever the engine.
BackendConfig with_weight_only(BackendConfig backend);

/// One shipped table, for listings.
struct BackendEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view
      engine;  ///< the kernel set in LibTorch that its lowered models need; empty: reference model only
  BackendConfig (*table)();
};
/// All of them, the one that most programs take first.
const std::vector<BackendEntry>& backend_entries();

/// Whether a backend's kernels are made for this machine's kind of processor: qnnpack's are made for ARM, and
/// times that they take on x86 tell nothing.
bool is_made_for_this_processor(const BackendConfig& backend);

}  // namespace tsq
