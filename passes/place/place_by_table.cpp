// The first answer to "float or int8": that of the table, which is FX's too.

#include "config/qscheme.h"
#include "match/root_modules.h"
#include "passes/context/nodes.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"
#include "torchscript/modules/embedding.h"
#include "torchscript/modules/recurrent.h"

namespace tsq::passes {
namespace {

using ir::ModuleCall;
using ir::NodeRecord;
using ir::Placement;
using ir::Reason;

/// Whether there are kernels for the rows of a table: nothing is rounded for others.
bool has_quantizable_rows(const ir::EmbeddingTable& table, const ObserverSpec& spec) {
  const ResolvedObserver weight = resolve(spec);
  const QParams qparams{.dtype = weight.dtype,
                        .qscheme = weight.qscheme,
                        .axis = is_per_channel(weight.qscheme) ? weight.ch_axis : 0};
  return torchscript::unquantizable(table, table.weight_qparams.value_or(qparams)).empty();
}

bool has_quantizable_shape(const ModuleCall& call, const ObserverSpec& spec) {
  if (call.embedding) return has_quantizable_rows(*call.embedding, spec);
  const ir::Weighted* weighted = ir::weighted_of(call);
  const bool has_groups = weighted != nullptr && resolve(spec).group_size > 0;
  return !has_groups || weighted->weight_qparams || weighted->weight.dim() == 2;
}

bool has_weight(const ModuleCall& call) {
  return ir::weighted_of(call) != nullptr || call.embedding ||
         (call.module && torchscript::is_recurrent(call.type));
}

/// Whether an operator is int8 by the table.
bool table_takes(const Model& model, const PassContext& context, const Node* node, const NodeRecord& record) {
  if (!record.observed || !record.lookup.qconfig) return false;
  const QConfig& qconfig = *record.lookup.qconfig;
  if (ir::is_module_call(node) && !ir::is_opaque(model, node)) {
    const ModuleCall& call = ir::call_of(model, node);
    const bool is_registered = has_registered_reference(model, context, node);
    if (is_registered || has_weight(call))
      return match::takes_quantized_weight(context.table, call, qconfig) &&
             (is_registered || has_quantizable_shape(call, qconfig.weight));
  } else if (is_functional_layer(model, node)) {
    return node->inputs().size() > 1 && is_rounded(model, context, node->input(1));
  }
  return record.reason != Reason::OtherDtype;
}

bool set_placement(NodeRecord& record, bool is_int8) {
  const Placement before = record.placement;
  record.placement = is_int8 ? Placement::Int8 : Placement::Float;
  if (is_int8) {
    record.reason = Reason::None;
  } else if (record.reason == Reason::None) {
    record.reason = record.lookup.qconfig ? Reason::Table : Reason::Mapping;
  }
  return record.placement != before;
}

}  // namespace

bool place_by_table(Model& model, const PassContext& context) {
  return change_nodes(model, [&](const Node* node) {
    NodeRecord* record = ir::record_of(model, node);
    return record != nullptr && !ir::is_observer(node) && !ir::stays_float(model, node) &&
           set_placement(*record, table_takes(model, context, node, *record));
  });
}

}  // namespace tsq::passes
