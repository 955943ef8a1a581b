#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/observer.h>
#include <tsq/symbol.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/embedding_table.h"
#include "ir/module_call.h"

namespace tsq::torchscript {

/// For a traced EmbeddingBag, whose arguments come in the order in which tracing met them: which input of the
/// call, counted from 1, is the indices, the offsets and the weights; 0 where there is none. Empty where
/// this cannot be told, as in scripted modules, which take them in PyTorch's order.
std::vector<int64_t> traced_bag_arguments(const ir::ModuleCall& call);

/// Whether a module class is torch.nn.Embedding or torch.nn.EmbeddingBag.
[[nodiscard]] bool is_embedding(Symbol type);

/// The table of such a module, from its attributes and constants, or, in a traced file, from the arguments of
/// the operator in its forward. Empty when they cannot be told. `max_norm` changes nothing: TorchScript
/// leaves it out of scripted files, and a traced module with it has no table here.
std::optional<ir::EmbeddingTable> embedding_table(const ir::ModuleCall& call);

/// Why a table stays float; empty when nothing is against quantizing it with `qparams`.
std::string unquantizable(const ir::EmbeddingTable& table, const QParams& qparams);

/// Modules with the signatures of torch.nn.Embedding and torch.nn.EmbeddingBag. The float one computes with
/// the weight as it is; the reference one rounds it first; the quantized one keeps rows of 8, 4 or 2 bits,
/// each with its scale and smallest value after it, in one byte tensor that any LibTorch loads.
torch::jit::Module float_embedding(const ir::EmbeddingTable& table);
torch::jit::Module reference_embedding(const ir::EmbeddingTable& table);
/// `rows` is what packed_rows returns; several modules may share it.
torch::jit::Module quantized_embedding(const ir::EmbeddingTable& table, const at::Tensor& rows);

/// The rows as the kernels `quantized::embedding_bag_*_rowwise_offsets` read them: codes, the lowest bits
/// first, then scale and smallest value (float32 after 8-bit codes, float16 after others). Odd rows are
/// filled up to whole bytes; the row of padding_idx of a bag is zero.
at::Tensor packed_rows(const ir::EmbeddingTable& table);
/// The rows of a table of 8 bits: codes, and for each row a scale and what is added to their product.
struct RowCodes {
  at::Tensor codes{};
  at::Tensor scales{};
  at::Tensor addends{};
};
/// Empty for tables of fewer bits.
std::optional<RowCodes> row_codes(const ir::EmbeddingTable& table);
/// How many bytes a row of packed_rows has, for codes of `dtype`.
int64_t bytes_of_row(int64_t columns, c10::ScalarType dtype);
/// Whether packed_rows returns the same for both.
[[nodiscard]] bool has_same_rows(const ir::EmbeddingTable& a, const ir::EmbeddingTable& b);

/// The kernel of a quantized table.
std::string embedding_kernel(const ir::EmbeddingTable& table);

}  // namespace tsq::torchscript
