// The words of a language model and its head are often one parameter. Quantized each by itself they would be
// two: a table by rows from 0 on, a weight by symmetric rows. The table can take the weight's, the other way
// round it cannot: kernels of layers know no zero point for each row.

#include "passes/convert/tie_tables.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/constants.h>

#include <optional>
#include <string>
#include <vector>

#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "torchscript/embedding.h"
#include "torchscript/tied_table.h"

namespace tsq::passes {
namespace {

using ir::EmbeddingTable;
using ir::Model;
using ir::Node;
using ir::Value;

const c10::Symbol kQuantizePerChannel = c10::Symbol::fromQualString("aten::quantize_per_channel");
constexpr std::string_view kPrepack = "quantized::linear_prepack";

bool are_symmetric_rows(const QParams& qparams) {
  return qparams.dtype == c10::ScalarType::QInt8 && qparams.qscheme == c10::QScheme::PER_CHANNEL_AFFINE &&
         qparams.axis == 0 && !qparams.zero_point.any().item<bool>();
}

/// A weight and what it is rounded to.
struct Rounded {
  at::Tensor weight{};
  QParams qparams{};
};

bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && at::equal(a, b);
}

std::optional<at::Tensor> attribute_of(const Model& gm, const Value* value) {
  const Node* node = value->node();
  if (node->kind() != c10::prim::GetAttr || node->input(0) != gm.graph->inputs().at(0)) return std::nullopt;
  const c10::IValue held = gm.attributes.attr(node->s(c10::attr::name));
  return held.isTensor() ? std::optional(held.toTensor()) : std::nullopt;
}

/// quantize_per_channel(weight, scale, zero_point, axis, dtype) of parameters, as functions read it.
std::optional<Rounded> rounded_parameter(const Model& gm, const Node* node) {
  if (node->kind() != kQuantizePerChannel) return std::nullopt;
  const auto weight = attribute_of(gm, node->input(0));
  const auto scale = attribute_of(gm, node->input(1));
  const auto zero_point = attribute_of(gm, node->input(2));
  const auto axis = torch::jit::toIValue(node->input(3));
  const auto dtype = torch::jit::toIValue(node->input(4));
  if (!weight || !scale || !zero_point || !axis || !dtype) return std::nullopt;
  return Rounded{.weight = *weight,
                 .qparams = {.scale = *scale,
                             .zero_point = *zero_point,
                             .dtype = static_cast<c10::ScalarType>(dtype->toInt()),
                             .qscheme = c10::QScheme::PER_CHANNEL_AFFINE,
                             .axis = axis->toInt()}};
}

std::optional<Rounded> rounded_weight(const Model& gm, const Node* node) {
  if (!ir::is_module_call(node)) return rounded_parameter(gm, node);
  const ir::Weighted* weighted = ir::weighted_of(ir::call_of(gm, node));
  if (weighted == nullptr || !weighted->weight_qparams || weighted->group_size > 0) return std::nullopt;
  return Rounded{.weight = weighted->weight, .qparams = *weighted->weight_qparams};
}

/// The matrices that become int8 by symmetric rows.
std::vector<Rounded> rounded_matrices(const Model& gm) {
  std::vector<Rounded> found;
  for (const Node* node : ir::nodes_in_order(*gm.graph)) {
    auto rounded = rounded_weight(gm, node);
    if (rounded && rounded->weight.dim() == 2 && are_symmetric_rows(rounded->qparams))
      found.push_back(std::move(*rounded));
  }
  return found;
}

/// A bag's row of padding is zero among the rows, and anything in the weight.
bool can_be_tied(const EmbeddingTable& table) {
  return table.weight_qparams && table.weight_qparams->dtype == c10::ScalarType::QUInt8 &&
         (!table.is_bag || !table.padding_idx);
}

/// The rows that a lowered embedding looks up.
struct Rows {
  at::Tensor rows{};
  at::Tensor scale{};
};

std::vector<Rows> symmetric_rows(const Model& gm) {
  std::vector<Rows> found;
  for (const Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!ir::is_module_call(node)) continue;
    const ir::ModuleCall& call = ir::call_of(gm, node);
    const bool has_rows = call.embedding && call.embedding->weight_qparams && call.module &&
                          call.module->hasattr("rows") && are_symmetric_rows(*call.embedding->weight_qparams);
    if (has_rows)
      found.push_back(
          {.rows = call.module->attr("rows").toTensor(), .scale = call.embedding->weight_qparams->scale});
  }
  return found;
}

bool has_codes_of(const at::Tensor& weight, const Rows& table) {
  if (weight.qscheme() != c10::kPerChannelAffine || weight.q_per_channel_axis() != 0 ||
      weight.q_per_channel_zero_points().any().item<bool>() || weight.size(0) != table.rows.size(0))
    return false;
  const at::Tensor codes = torchscript::codes_of_rows(table.rows);
  return weight.sizes() == codes.sizes() &&
         at::equal(weight.q_per_channel_scales().to(at::kFloat), table.scale.to(at::kFloat)) &&
         at::equal(weight.int_repr(), codes);
}

void pack_from_rows(Model& gm, Node* attribute, const Rows& table, const at::Tensor& bias) {
  const std::string& name = attribute->s(c10::attr::name);
  const torch::jit::Module module = torchscript::tied_linear({.rows = table.rows,
                                                              .scale = table.scale.to(at::kFloat),
                                                              .bias = bias,
                                                              .packed = gm.attributes.attr(name)});
  const torch::jit::WithInsertPoint guard(attribute);
  Value* tied = ir::insert_attribute(gm, name + "_tied", module._ivalue(), module.type());
  Node* packed = gm.graph->create(c10::prim::GetAttr, {tied}, 1);
  packed->s_(c10::attr::name, "packed");
  packed->output()->setType(kernels::packed_type(kPrepack));
  gm.graph->insertNode(packed);
  attribute->output()->replaceAllUsesWith(packed->output());
}

}  // namespace

void tie_tables(Model& gm) {
  for (const Rounded& matrix : rounded_matrices(gm)) {
    at::Tensor rounded;  // the codes of a number between two may depend on the zero point
    for (ir::ModuleCall& call : gm.calls) {
      if (!call.embedding || !can_be_tied(*call.embedding) || !is_same(matrix.weight, call.embedding->weight))
        continue;
      if (!rounded.defined()) {
        rounded = kernels::quantized_weight({.weight = matrix.weight, .weight_qparams = matrix.qparams})
                      .dequantize();
      }
      call.embedding->weight = rounded;
      call.embedding->weight_qparams = matrix.qparams;
      call.module = torchscript::reference_embedding(*call.embedding);
    }
  }
}

void hold_tied_tables_once(Model& gm) {
  const std::vector<Rows> tables = symmetric_rows(gm);
  if (tables.empty()) return;
  const c10::TypePtr type = kernels::packed_type(kPrepack);
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (node->kind() != c10::prim::GetAttr || *node->output()->type() != *type) continue;
    const auto parts = kernels::unpacked(gm, node->output(), "quantized::linear_unpack");
    if (!parts || parts->weight.scalar_type() != c10::ScalarType::QInt8) continue;
    for (const Rows& table : tables) {
      if (!has_codes_of(parts->weight, table)) continue;
      pack_from_rows(gm, node, table, parts->bias);
      break;
    }
  }
  ir::eliminate_dead_code(*gm.graph);
}

}  // namespace tsq::passes
