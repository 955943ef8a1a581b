#include "backends/kernels/float_output.h"

#include <c10/util/accumulate.h>

#include <algorithm>

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/layer_kind.h"
#include "ir/analysis.h"
#include "ir/value_numbers.h"
#include "operators/arguments.h"
#include "operators/functional_weighted.h"
#include "operators/layer_work.h"

namespace tsq::kernels {
namespace {

using ir::Model;
using ir::Node;

std::optional<ir::Weighted> parameters_of(const Model& model, const Node* layer) {
  if (ir::is_module_call(layer)) {
    const ir::Weighted* weighted = ir::weighted_of(ir::call_of(model, layer));
    return weighted == nullptr ? std::nullopt : std::optional(*weighted);
  }
  if (auto quantized = operators::functional_parameters(model, layer)) return quantized;
  return operators::float_functional_parameters(model, layer);
}

/// Values that a layer returned in the largest call that calibration saw; none where it saw no size.
std::optional<double> outputs_of(const Model& model, const Node* layer, const ir::Weighted& weighted) {
  const ir::ValueFacts* facts = ir::facts_of(model, layer->output());
  if (facts == nullptr || facts->sizes.empty()) return operators::outputs_of_call(weighted);
  int64_t most = 0;
  for (const auto& [rank, sizes] : facts->sizes) most = std::max(most, c10::multiply_integers(sizes.largest));
  return static_cast<double>(most);
}

/// Of a call of any size.
LayerWork work_of(const ir::Weighted& weighted, bool reads_bytes) {
  return {.inputs_per_output = reads_bytes ? 0 : operators::inputs_per_output(weighted),
          .groups = weighted.groups};
}

/// Of a call as calibration saw it.
LayerWork work_of(const Model& model, const Node* layer, const ir::Weighted& weighted, bool reads_bytes) {
  LayerWork work = work_of(weighted, reads_bytes);
  work.outputs = outputs_of(model, layer, weighted);
  return work;
}

/// The node that produces a value, observers aside.
const Node* giver(const ir::Value* value) {
  const Node* node = value->node();
  return ir::is_observer(node) ? node->input(0)->node() : node;
}

bool pays(const Target& target, const Model& model, const Node* layer, const Node* activation,
          const LayerWork& work) {
  const FloatOutputKernel* kernel = float_output_kernel_of(target, model, layer);
  return kernel != nullptr && std::ranges::any_of(ir::targets(model, activation), [&](const Symbol& name) {
           return pays_to_return_float(target, *kernel, name.name, work);
         });
}

bool has_post_op(const Target& target, const Model& model, const Node* layer, const Node* activation) {
  const FloatOutputKernel* kernel = float_output_kernel_of(target, model, layer);
  return kernel != nullptr && std::ranges::any_of(ir::targets(model, activation), [&](const Symbol& name) {
           return !pointwise_post_op(name.name, kernel->kernel).empty();
         });
}

/// Whether the layer in front returns bytes already, its activation being done in its kernel.
bool reads_bytes(const Target& target, const Model& model, const Node* layer) {
  const Node* activation = giver(layer->input(0));
  const auto operands = ir::operands(activation);
  if (operands.empty()) return false;
  const Node* before = giver(operands.front());
  if (!has_post_op(target, model, before, activation)) return false;
  const auto weighted = parameters_of(model, before);
  return weighted &&
         pays(target, model, before, activation, work_of(model, before, *weighted, /*reads_bytes=*/false));
}

}  // namespace

const FloatOutputKernel* float_output_kernel_of(const Target& target, const Model& model, const Node* layer) {
  if (ir::is_module_call(layer) && layer->inputs().size() != 1) return nullptr;
  const auto kind = layer_kind(model, layer);
  return kind ? float_output_kernel(target.engine, kind->op, kind->post_op) : nullptr;
}

bool may_stay_float_after(const Target& target, const Model& model, const Node* layer,
                          const Node* activation) {
  if (float_output_kernel_of(target, model, layer) == nullptr || ir::only_reader(layer) == nullptr)
    return false;
  const auto weighted = parameters_of(model, layer);
  return weighted &&
         pays(target, model, layer, activation, work_of(*weighted, reads_bytes(target, model, layer)));
}

bool stays_float_after(const Target& target, const Model& model, const Node* layer, const Node* activation) {
  const FloatOutputKernel* kernel = float_output_kernel_of(target, model, layer);
  if (kernel == nullptr || (activation != nullptr && ir::only_reader(layer) == nullptr)) return false;
  const auto weighted = parameters_of(model, layer);
  if (!weighted) return false;
  if (activation != nullptr)
    return pays(target, model, layer, activation,
                work_of(model, layer, *weighted, reads_bytes(target, model, layer)));
  // Int8 kernels of one channel take hundreds of times as long as reading its bytes.
  const bool has_one_channel = weighted->weight.size(1) * weighted->groups == 1;
  return pays_to_return_float(
      target, *kernel, {},
      has_one_channel ? LayerWork{} : work_of(model, layer, *weighted, /*reads_bytes=*/false));
}

bool may_be_done_by_kernel(const Target& target, const Model& model, const Node* layer,
                           const Node* activation) {
  return has_post_op(target, model, layer, activation) &&
         may_stay_float_after(target, model, layer, activation);
}

bool is_done_by_kernel(const Target& target, const Model& model, const Node* layer, const Node* activation) {
  return has_post_op(target, model, layer, activation) && stays_float_after(target, model, layer, activation);
}

}  // namespace tsq::kernels
