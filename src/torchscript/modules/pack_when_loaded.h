#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string_view>

#include "ir/model.h"

namespace tsq::torchscript {

/// A TorchScript module whose attribute `packed` holds the packed weight of a convolution or a linear layer,
/// and whose saved state is the plain weight with the convolution's numbers: it packs when it is loaded. For
/// packed weights that cannot be saved, and for those that would be saved once for each call. `prepack` is
/// the packing operator: "quantized::conv3d_prepack", or "onednn::qconv_prepack", which packs otherwise for
/// inputs with a zero point that is not 0, and comes with the attributes `scale`, `zero_point` and `bias`,
/// which its kernels read besides. Throws Error(Unsupported) as kernels::pack does. `quantized`: the weight,
/// where it is quantized already.
torch::jit::Module pack_when_loaded(std::string_view prepack, const ir::Weighted& weighted,
                                    bool input_has_zero_point, const at::Tensor& quantized = {});

}  // namespace tsq::torchscript
