#include "operators/layer_work.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

namespace tsq::operators {
namespace {

/// Values of the input for each place of the output.
int64_t inputs_per_place(const ir::Weighted& layer) {
  return layer.weight.size(1) * layer.groups * c10::multiply_integers(layer.stride);
}

std::optional<int64_t> inputs_of_call(const ir::Weighted& layer) {
  const at::Tensor& sizes = layer.seen.input.sizes;
  if (!sizes.defined() || sizes.numel() == 0) return std::nullopt;
  return sizes.prod().item<int64_t>();
}

}  // namespace

double inputs_per_output(const ir::Weighted& layer) {
  return static_cast<double>(inputs_per_place(layer)) / static_cast<double>(layer.weight.size(0));
}

double products_per_output(const ir::Weighted& layer) {
  return static_cast<double>(layer.weight.numel()) / static_cast<double>(layer.weight.size(0));
}

double products_per_input(const ir::Weighted& layer) {
  return static_cast<double>(layer.weight.numel()) / static_cast<double>(inputs_per_place(layer));
}

std::optional<double> outputs_of_call(const ir::Weighted& layer) {
  const auto inputs = inputs_of_call(layer);
  return inputs ? std::optional(static_cast<double>(*inputs) / inputs_per_output(layer)) : std::nullopt;
}

int64_t products_of_call(const ir::Weighted& layer) {
  const auto inputs = inputs_of_call(layer);
  return inputs ? *inputs / inputs_per_place(layer) * layer.weight.numel() : 0;
}

}  // namespace tsq::operators
