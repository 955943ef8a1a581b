#pragma once

#include <ATen/core/Tensor.h>
#include <tsq/quantize.h>

#include <memory>
#include <string>

#include "support/machine_profiles.h"

namespace tsq::testing {

/// What recipe best makes of a model of one input, calibrated with that input, for a machine: one on which
/// int8 is worth its while in small models, too. Time alone decides.
Reference best_reference(const torch::jit::Module& model, const at::Tensor& input, const std::string& engine,
                         const std::shared_ptr<const MachineProfile>& machine = slow_in_float());
torch::jit::Module best_model(const torch::jit::Module& model, const at::Tensor& input,
                              const std::string& engine,
                              const std::shared_ptr<const MachineProfile>& machine = slow_in_float());

/// The number of operators of a kind ("aten::relu") in a model's forward.
std::size_t count(const torch::jit::Module& model, const std::string& kind);

at::Tensor run(torch::jit::Module model, const at::Tensor& input);

/// Signal to quantization noise, in decibels.
double sqnr(const at::Tensor& wanted, const at::Tensor& got);

}  // namespace tsq::testing
