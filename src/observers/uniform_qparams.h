#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/observer.h>
#include <tsq/qconfig.h>

#include <string_view>

#include "observers/observer_class.h"

namespace tsq {

/// The configuration of every observer that derives its qparams from a range (PyTorch's
/// UniformQuantizationObserverBase).
struct UniformConfig {
  c10::ScalarType dtype{};
  c10::QScheme qscheme{};
  bool reduce_range{};
  int64_t quant_min{};
  int64_t quant_max{};
  bool has_customized_qrange{};
  at::Tensor eps{};    ///< float32, shape [1]
  int64_t ch_axis{0};  ///< per-channel observers
};
/// Throws Error(BadConfig) when the resolved observer has no range.
UniformConfig uniform_config(const ResolvedObserver& config);
/// Reads the attributes of uniform_state().
UniformConfig uniform_config(const torch::jit::Module& observer);

/// The attributes of a UniformConfig under PyTorch's names, followed by `more`.
ObserverState uniform_state(const UniformConfig& config, const ObserverState& more);

/// The zero point of a symmetric scheme (M-02).
int64_t symmetric_zero_point(const UniformConfig& config);

/// UniformQuantizationObserverBase._calculate_qparams: the same tensor operations in the same order (M-01 …
/// M-06). Called without gradients.
QParams qparams_of_range(const UniformConfig& config, const at::Tensor& min_val, const at::Tensor& max_val);

/// A tensor, or what is finite of it, in a row.
at::Tensor finite_values(const at::Tensor& tensor);

/// A float32 scalar tensor: +infinity as the minimum and -infinity as the maximum of nothing.
at::Tensor minimum_of_nothing();
at::Tensor maximum_of_nothing();

/// The float value of a one-element state buffer of an observer.
float scalar_state(const torch::jit::Module& observer, const char* name);
/// Whether min_val and max_val of a per-tensor observer do not say "nothing seen" any more.
bool saw_range(const torch::jit::Module& observer);

/// Adds min_val and max_val of each channel, of observers of which `saw` tells whether they have them. `kind`
/// is theirs in messages.
void merge_channel_ranges(torch::jit::Module& into, const torch::jit::Module& from,
                          bool (*saw)(const torch::jit::Module& observer), std::string_view kind);

}  // namespace tsq
