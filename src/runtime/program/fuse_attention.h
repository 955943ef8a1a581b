#pragma once

#include "runtime/program/resolve.h"

namespace tsq::runtime {

/// Products of queries and keys, their softmax and its product with values become one attention, where
/// nothing is rounded between them and nobody else reads them. It runs before other operations are fused.
ResolvedModel with_fused_attention(ResolvedModel resolved);

}  // namespace tsq::runtime
