#pragma once

#include <cstdint>
#include <vector>

#include "ir/weighted.h"

namespace tsq::operators {

/// How much F.pad adds on each side, innermost dimension first, when padding is not the kernel's own
/// (padding_mode, padding='same').
std::vector<int64_t> explicit_padding(const ir::Weighted& weighted);
/// Whether the input has to be padded before the kernel.
[[nodiscard]] bool pads_outside(const ir::Weighted& weighted);
/// How much a convolution's kernel pads itself on both sides of each dimension.
[[nodiscard]] std::vector<int64_t> kernel_padding(const ir::Weighted& weighted);

}  // namespace tsq::operators
