#pragma once

#include <array>
#include <string_view>

namespace tsq {

/// The quantized engines that have kernels in LibTorch and default QConfigs in PyTorch, by PyTorch's names.
constexpr std::array<std::string_view, 4> known_engines() { return {"x86", "fbgemm", "qnnpack", "onednn"}; }

}  // namespace tsq
