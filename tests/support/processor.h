#pragma once

#include <tsq/qconfig_mapping.h>

#include <string>

namespace tsq::testing {

/// Whether this processor adds products of bytes in 32 bits. Where it does not, the kernels of x86, fbgemm
/// and onednn add pairs of them in 16 bits, which saturate. Recipe best keeps weights from it there: their
/// codes are as little as half as many, which costs up to 6 dB. Recipe fx does not.
bool has_vnni();

/// PyTorch's QConfig and mapping for an engine, with which sums do not overflow on this processor: without
/// VNNI, onednn takes that of x86, whose activations have 7 bits, since its own leaves them 8.
QConfig default_qconfig_here(const std::string& engine);
QConfigMapping default_mapping_here(const std::string& engine);

}  // namespace tsq::testing
