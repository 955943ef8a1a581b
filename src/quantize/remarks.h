#pragma once

#include <tsq/quantize_model.h>

#include <cstdint>

namespace tsq::detail {

/// Writes into a quantized model what disappoints in it and what is worth knowing.
void add_remarks(Quantized& quantized, uint64_t float_bytes, const QuantizeOptions& options);

}  // namespace tsq::detail
