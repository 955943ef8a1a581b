#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace tsq::passes {

/// Filters that transform windows of a signal as torch.stft does: `window` times cosines, then `window` times
/// negative sines, or one of the two alone. https://docs.pytorch.org/docs/stable/generated/torch.stft.html
struct FourierBasis {
  at::Tensor window;  ///< [length], float
  bool has_cosines{};
  bool has_sines{};
};

/// The basis that filters [rows, 1, length] are but for rounding in single precision; empty where they are
/// none.
std::optional<FourierBasis> fourier_basis(const at::Tensor& filters);

}  // namespace tsq::passes
