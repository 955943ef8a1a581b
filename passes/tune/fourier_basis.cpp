#include "passes/tune/fourier_basis.h"

#include <ATen/ATen.h>

#include <array>
#include <numbers>

namespace tsq::passes {
namespace {

/// Of the largest filter: 100 dB below, where cosines of angles in single precision are.
constexpr double kTolerance = 1e-5;

/// [frequencies, length]: 2π·frequency·sample/length.
at::Tensor phases(int64_t length) {
  const at::Tensor frequencies = at::arange(length / 2 + 1, at::kLong).unsqueeze(1);
  const at::Tensor samples = at::arange(length, at::kLong).unsqueeze(0);
  return (frequencies * samples).remainder(length).to(at::kDouble) *
         (2 * std::numbers::pi / static_cast<double>(length));
}

/// The window of least squared error that makes `filters` of the waves, where it makes them exactly.
std::optional<at::Tensor> window_between(const at::Tensor& waves, const at::Tensor& filters) {
  const at::Tensor energy = waves.square().sum(0);
  const at::Tensor window =
      at::where(energy > kTolerance, (waves * filters).sum(0) / energy, at::zeros_like(energy));
  const auto error = (waves * window - filters).abs().max().item<double>();
  if (error > kTolerance * filters.abs().max().item<double>()) return std::nullopt;
  return window.to(at::kFloat);
}

}  // namespace

std::optional<FourierBasis> fourier_basis(const at::Tensor& filters) {
  constexpr int64_t kShortest = 4;
  const int64_t length = filters.size(2);
  const int64_t frequencies = length / 2 + 1;
  const bool has_both = filters.size(0) == 2 * frequencies;
  if (length < kShortest || (!has_both && filters.size(0) != frequencies)) return std::nullopt;

  const at::Tensor phase = phases(length);
  const at::Tensor rows = filters.squeeze(1).to(at::kDouble);
  if (rows.abs().max().item<double>() == 0) return std::nullopt;
  const auto basis = [&](bool has_cosines, bool has_sines) {
    std::vector<at::Tensor> waves;
    if (has_cosines) waves.push_back(phase.cos());
    if (has_sines) waves.push_back(-phase.sin());
    const auto window = window_between(at::cat(waves), rows);
    return window ? std::optional(FourierBasis{*window, has_cosines, has_sines}) : std::nullopt;
  };
  if (has_both) return basis(true, true);
  auto cosines = basis(true, false);
  return cosines ? cosines : basis(false, true);
}

}  // namespace tsq::passes
