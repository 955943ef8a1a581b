// The words of a language model and its head are often one parameter. Quantized each by itself they would be
// two: a table by rows from 0 on, a weight by symmetric rows. The table can take the weight's, the other way
// round it cannot: kernels of layers know no zero point for each row.

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/quantize_operators.h"
#include "passes/weights/passes.h"
#include "torchscript/modules/embedding.h"
#include "torchscript/modules/tied_table.h"

namespace tsq::passes {
namespace {

using ir::EmbeddingTable;

/// A weight and what it is rounded to.
struct Rounded {
  at::Tensor weight{};
  QParams qparams{};
};

bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && at::equal(a, b);
}

std::optional<at::Tensor> attribute_of(const Model& model, const Value* value) {
  const at::Tensor held =
      ir::attribute_read(model, value) == nullptr ? at::Tensor() : ir::held_tensor(model, value);
  return held.defined() ? std::optional(held) : std::nullopt;
}

/// quantize_per_channel(weight, scale, zero_point, axis, dtype) of parameters, as functions read it.
std::optional<Rounded> rounded_parameter(const Model& model, const Node* node) {
  if (node->kind() != ir::kQuantizePerChannel) return std::nullopt;
  const auto weight = attribute_of(model, node->input(0));
  const auto scale = attribute_of(model, node->input(1));
  const auto zero_point = attribute_of(model, node->input(2));
  const auto axis = ir::whole_number_constant(node->input(3));
  const auto dtype = ir::dtype_constant(node->input(4));
  if (!weight || !scale || !zero_point || !axis || !dtype) return std::nullopt;
  return Rounded{.weight = *weight,
                 .qparams = {.scale = *scale,
                             .zero_point = *zero_point,
                             .dtype = *dtype,
                             .qscheme = c10::QScheme::PER_CHANNEL_AFFINE,
                             .axis = *axis}};
}

std::optional<Rounded> rounded_weight(const Model& model, const Node* node) {
  if (!ir::is_module_call(node)) return rounded_parameter(model, node);
  const ir::Weighted* weighted = ir::weighted_of(ir::call_of(model, node));
  if (weighted == nullptr || !weighted->weight_qparams || weighted->group_size > 0) return std::nullopt;
  return Rounded{.weight = weighted->weight, .qparams = *weighted->weight_qparams};
}

/// The matrices that become int8 by symmetric rows.
std::vector<Rounded> rounded_matrices(const Model& model) {
  std::vector<Rounded> found;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    auto rounded = rounded_weight(model, node);
    if (rounded && rounded->weight.dim() == 2 && torchscript::are_symmetric_rows(rounded->qparams))
      found.push_back(std::move(*rounded));
  }
  return found;
}

/// A bag's row of padding is zero among the rows, and anything in the weight.
bool can_be_tied(const EmbeddingTable& table) {
  return table.weight_qparams && table.weight_qparams->dtype == c10::ScalarType::QUInt8 &&
         (!table.is_bag || !table.padding_idx);
}

}  // namespace

bool tie_tables(Model& model, const PassContext&) {
  bool has_changed = false;
  for (const Rounded& matrix : rounded_matrices(model)) {
    at::Tensor rounded;  // the codes of a number between two may depend on the zero point
    for (ir::ModuleCall& call : model.calls) {
      if (!call.embedding || !can_be_tied(*call.embedding) || !is_same(matrix.weight, call.embedding->weight))
        continue;
      if (!rounded.defined()) {
        rounded = kernels::quantized_weight({.weight = matrix.weight, .weight_qparams = matrix.qparams})
                      .dequantize();
      }
      call.embedding->weight = rounded;
      call.embedding->weight_qparams = matrix.qparams;
      call.module = torchscript::reference_embedding(*call.embedding);
      has_changed = true;
    }
  }
  return has_changed;
}

}  // namespace tsq::passes
