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

/// What a table without kernels in LibTorch has in the place of an engine. PyTorch's name for it, too.
inline constexpr std::string_view kNoEngine = "none";

/// The engine of PyTorch's table of that name, which names none itself; empty for other names.
constexpr std::string_view engine_of_pytorch_table(std::string_view name) {
  if (is_known_engine(name)) return name;
  if (name == "native") return "fbgemm";  // the patterns that FBGEMM and QNNPACK share
  constexpr std::array<std::string_view, 3> kWithoutKernels{"executorch", "tensorrt",
                                                            "qnnpack_pytorch_2.0_export"};
  return std::ranges::count(kWithoutKernels, name) > 0 ? kNoEngine : std::string_view();
}

/// Whether an engine's kernels are FBGEMM's, x86's in part.
constexpr bool runs_fbgemm(std::string_view engine) { return engine == "x86" || engine == "fbgemm"; }

}  // namespace tsq
