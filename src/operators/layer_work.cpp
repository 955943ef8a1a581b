#include "operators/layer_work.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

namespace tsq::operators {
namespace {

/// Values of the input for each place of the output.
int64_t inputs_per_place(const ir::Weighted& layer) {
  return layer.weight.size(1) * layer.groups * c10::multiply_integers(layer.stride);
}

}  // namespace

double products_per_output(const ir::Weighted& layer) {
  return static_cast<double>(layer.weight.numel()) / static_cast<double>(layer.weight.size(0));
}

double products_per_input(const ir::Weighted& layer) {
  return static_cast<double>(layer.weight.numel()) / static_cast<double>(inputs_per_place(layer));
}

}  // namespace tsq::operators
