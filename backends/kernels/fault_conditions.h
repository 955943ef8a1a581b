#pragma once

#include <tsq/qconfig.h>

#include <string>

#include "backends/kernels/kernel_faults.h"
#include "backends/kernels/kernel_limits.h"
#include "backends/kernels/target.h"
#include "ir/model.h"

namespace tsq::kernels {

/// A kernel as lowering is about to use it.
struct KernelUse {
  const Target& target;
  const ir::Model& model;
  const ir::Node* op{};            ///< the float operator that it stands for
  std::string_view kernel{};       ///< the kernel, or the operator's name where it runs itself
  const ir::Value* input{};        ///< the quantized tensor that it reads
  const ir::Weighted* weighted{};  ///< its weight, null when it has none
};

/// The first fault of the engine that asks for `precaution` here; null: none.
const kernels::KernelFault* fault_of(const KernelUse& use, kernels::Precaution precaution);

/// The fault for which lowering leaves a layer whose weight is rounded as `observer` says without a kernel,
/// whatever the layer reads; null: none.
const kernels::KernelFault* fault_of_layer(const Target& target, const ir::Model& model,
                                           const ir::Node* layer, const ResolvedObserver& observer);

/// Notes which dtype a kernel returns that has taken the place of a quantize node: faults of the kernels
/// after it are told without a walk through all that come before.
void note_dtype(ir::Node* kernel);

/// A layer as the tables of kernels' limits know it.
kernels::WeightedShape weighted_shape(const ir::Weighted& weighted);

/// Whether the engine's kernel for a layer takes many times as long as the float one; with its fold, where it
/// has one.
bool is_slower_than_float(const Target& target, const ir::ModuleCall& layer);

/// The number of dimensions of a quantized tensor, where the kernels before it tell.
std::optional<int64_t> known_rank(const ir::Value* quantized);

}  // namespace tsq::kernels
