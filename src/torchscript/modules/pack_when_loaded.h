#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <string_view>

#include "ir/weighted.h"

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

/// Whether pack_matrix_when_loaded can give a weight its codes: a linear layer's in int8 around zero, with
/// one scale or one for each row.
bool can_pack_matrix(const ir::Weighted& weighted);

/// The same of a linear layer whose weight is made of a quantized matrix, which its saved state is: of its
/// values, or of their transpose, with columns of zeros after them. The weight's own scales give these values
/// the codes that the weight has.
torch::jit::Module pack_matrix_when_loaded(const ir::Weighted& weighted, const at::Tensor& matrix,
                                           bool is_transposed, int64_t zero_columns);

}  // namespace tsq::torchscript
