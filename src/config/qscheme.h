#pragma once

#include <c10/core/QScheme.h>

namespace tsq {

constexpr bool is_per_channel(c10::QScheme qscheme) {
  return qscheme == c10::kPerChannelAffine || qscheme == c10::kPerChannelSymmetric ||
         qscheme == c10::kPerChannelAffineFloatQParams;
}

constexpr bool is_symmetric(c10::QScheme qscheme) {
  return qscheme == c10::kPerTensorSymmetric || qscheme == c10::kPerChannelSymmetric;
}

}  // namespace tsq
