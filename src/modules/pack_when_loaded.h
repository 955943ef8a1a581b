#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string_view>

#include "ir/graph_module.h"

namespace tsq::modules {

/// A TorchScript module whose attribute `packed` holds the packed params of a convolution of three
/// dimensions, and whose saved state is the quantized weight with the convolution's numbers: it packs when it
/// is loaded. For engines whose packed params cannot be saved. `prepack` is the packing operator,
/// "quantized::conv3d_prepack". Throws Error(Unsupported) as modules::pack does.
torch::jit::Module pack_when_loaded(std::string_view prepack, const ir::Weighted& weighted);

}  // namespace tsq::modules
