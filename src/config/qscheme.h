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

/// What a symmetric scheme has become where there is a zero point (K-13).
constexpr c10::QScheme affine_form(c10::QScheme qscheme) {
  if (!is_symmetric(qscheme)) return qscheme;
  return is_per_channel(qscheme) ? c10::kPerChannelAffine : c10::kPerTensorAffine;
}

}  // namespace tsq
