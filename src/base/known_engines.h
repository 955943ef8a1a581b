#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace tsq {

/// The quantized engines that have kernels in LibTorch and default QConfigs in PyTorch, by PyTorch's names.
constexpr std::array<std::string_view, 4> known_engines() { return {"x86", "fbgemm", "qnnpack", "onednn"}; }

constexpr bool is_known_engine(std::string_view name) {
  return std::ranges::count(known_engines(), name) > 0;
}

/// Whether an engine's kernels are FBGEMM's, x86's in part.
constexpr bool runs_fbgemm(std::string_view engine) { return engine == "x86" || engine == "fbgemm"; }

}  // namespace tsq
