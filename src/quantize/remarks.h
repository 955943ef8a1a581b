#pragma once

#include <tsq/quantize_model.h>

#include <cstdint>

namespace tsq::detail {

/// Whether times are measured: not where a profile says what kernels take.
[[nodiscard]] inline bool measures_times(const QuantizeOptions& options) {
  return options.times && options.machine == nullptr && options.target_cpu == TargetCpu::Native;
}

/// Writes into a quantized model what disappoints in it and what is worth knowing.
void add_remarks(Quantized& quantized, uint64_t float_bytes, const QuantizeOptions& options);

}  // namespace tsq::detail
