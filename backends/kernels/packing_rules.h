#pragma once

#include <string>
#include <string_view>

#include "backends/kernels/target.h"
#include "ir/weighted.h"

namespace tsq::kernels {

/// Why the engine will not pack a weight that has its qparams; empty where no rule says that it will not.
/// Source: qlinear_prepack.cpp and qconv_prepack.cpp of LibTorch 2.13.
[[nodiscard]] std::string packing_refusal(const Target& target, std::string_view prepack,
                                          const ir::Weighted& weighted);

}  // namespace tsq::kernels
