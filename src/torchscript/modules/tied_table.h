#pragma once

#include <torch/csrc/jit/api/module.h>

#include "ir/model.h"

namespace tsq::torchscript {

/// Whether `weight` is the table of an embedding, too, whose rows are or will be quantized: the head of a
/// language model, tied to its words.
[[nodiscard]] bool is_quantized_table(const ir::Model& model, const at::Tensor& weight);

/// Whether a weight is rounded to int8 with a scale for each row, and zero to zero.
[[nodiscard]] bool are_symmetric_rows(const QParams& qparams);

/// What a linear layer multiplies with, out of the rows that an embedding looks up.
struct TiedLinear {
  at::Tensor rows{};   ///< as packed_rows returns them, of symmetric codes
  at::Tensor scale{};  ///< of each row
  at::Tensor bias{};   ///< undefined: none
  c10::IValue packed{};
};
/// A module whose attribute `packed` is the packed weight of a linear layer, and whose saved state are the
/// rows, which a file holds once for both: it packs when it is loaded.
torch::jit::Module tied_linear(const TiedLinear& linear);

/// The codes in rows of 8 bits, from -128 on.
at::Tensor codes_of_rows(const at::Tensor& rows);

}  // namespace tsq::torchscript
