#pragma once

#include <tsq/recipe.h>

namespace tsq::kernels {

/// Whether the processor multiplies and adds bytes in 32 bits (AVX-512 VNNI).
bool has_vnni(TargetCpu cpu);

}  // namespace tsq::kernels
