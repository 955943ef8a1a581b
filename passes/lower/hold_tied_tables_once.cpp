// A table of words that is the weight of a quantized linear layer as well is in a file once: what the layer
// multiplies with is packed out of the table's rows when the file is loaded.
//   y = linear(x, packed)   →   y = linear(x, tied.packed)

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "passes/lower/passes.h"
#include "passes/lower/weight_packing.h"
#include "torchscript/modules/tied_table.h"

namespace tsq::passes {
namespace {

constexpr std::string_view kPrepack = "quantized::linear_prepack";

/// The rows that a lowered embedding looks up.
struct Rows {
  at::Tensor rows{};
  at::Tensor scale{};
};

std::vector<Rows> symmetric_rows(const Model& model) {
  std::vector<Rows> found;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_module_call(node)) continue;
    const ir::ModuleCall& call = ir::call_of(model, node);
    const bool has_rows = call.embedding && call.embedding->weight_qparams && call.module &&
                          call.module->hasattr("rows") &&
                          torchscript::are_symmetric_rows(*call.embedding->weight_qparams);
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

void pack_from_rows(Model& model, Node* attribute, const Rows& table, const at::Tensor& bias) {
  const std::string& name = attribute->s(c10::attr::name);
  const torch::jit::Module module = torchscript::tied_linear({.rows = table.rows,
                                                              .scale = table.scale.to(at::kFloat),
                                                              .bias = bias,
                                                              .packed = model.attributes.attr(name)});
  const torch::jit::WithInsertPoint guard(attribute);
  Value* tied = ir::insert_attribute(model, name + "_tied", module._ivalue(), module.type());
  Value* packed = ir::read_attribute(attribute, tied, "packed", kernels::packed_type(kPrepack));
  attribute->output()->replaceAllUsesWith(packed);
}

}  // namespace

bool hold_tied_tables_once(Model& model, const PassContext& /*context*/) {
  const std::vector<Rows> tables = symmetric_rows(model);
  if (tables.empty()) return false;
  bool has_changed = false;
  const c10::TypePtr type = kernels::packed_type(kPrepack);
  for (Node* node : ir::LiveNodes(*model.graph)) {
    if (node->kind() != c10::prim::GetAttr || *node->output()->type() != *type) continue;
    const auto parts = kernels::unpacked(model, node->output(), "quantized::linear_unpack");
    if (!parts || parts->weight.scalar_type() != c10::ScalarType::QInt8) continue;
    const auto table =
        std::ranges::find_if(tables, [&](const Rows& rows) { return has_codes_of(parts->weight, rows); });
    if (table == tables.end()) continue;
    pack_from_rows(model, node, *table, parts->bias);
    has_changed = true;
  }
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
