#pragma once

#include <optional>
#include <string_view>

#include "backends/kernels/kernel_faults.h"
#include "backends/kernels/kernel_limits.h"
#include "backends/kernels/operands.h"
#include "backends/kernels/target.h"
#include "ir/model.h"

namespace tsq::kernels {

/// A kernel as lowering is about to use it.
struct KernelUse {
  const Target& target;
  const ir::Model& model;
  const ir::Node* op{};            ///< the float operator that it stands for
  std::string_view kernel{};       ///< the kernel, or the operator's name where it runs itself
  std::optional<Operand> input{};  ///< the first tensor of bytes that it reads
  const ir::Weighted* weighted{};  ///< its weight, null when it has none
};

/// The first fault of the engine that asks for `precaution` here; null: none.
const kernels::KernelFault* fault_of(const KernelUse& use, kernels::Precaution precaution);

/// A layer as the tables of kernels' limits know it.
kernels::WeightedShape weighted_shape(const ir::Weighted& weighted, bool is_transposed = false);

}  // namespace tsq::kernels
