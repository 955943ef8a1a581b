#pragma once

#include "ir/graph.h"
#include "ir/weighted.h"

namespace tsq::operators {

/// What a convolution's kernel reads when the padding is not its own: the quantized tensor, padded. New nodes
/// are put in front of `before`.
ir::Value* padded_input(const ir::Weighted& weighted, ir::Value* input, ir::Node* before);

/// The addend of a convolution of two dimensions in the shape of the convolution's output: the kernel reads
/// as much of it as that has. `input` is what the convolution reads.
ir::Value* expanded_addend(const ir::Weighted& weighted, ir::Value* input, ir::Value* addend,
                           ir::Node* before);

}  // namespace tsq::operators
