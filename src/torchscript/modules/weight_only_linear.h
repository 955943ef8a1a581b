#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <string_view>

#include "ir/weighted.h"

namespace tsq::torchscript {

/// [rows, columns] → [rows · groups, group_size]; the last group of a row is filled up with zeros.
at::Tensor weight_in_groups(const at::Tensor& weight, int64_t group_size);

/// Whether a kernel takes the weight's qparams.
[[nodiscard]] bool takes_weight_only(const ir::Weighted& weighted);

/// A linear layer that reads int8 weights with a scale for each row, or int4 weights with a scale and zero
/// point for each group of columns, and computes in bfloat16: the kernels for other dtypes are many times
/// slower than float. The layout of packed int4 weights depends on the CPU, so that files hold plain ones,
/// which are packed when they are loaded. For what takes_weight_only.
torch::jit::Module weight_only_linear(const ir::Weighted& weighted);

/// The kernel of such a layer.
std::string_view weight_only_kernel(const ir::Weighted& weighted);

}  // namespace tsq::torchscript
