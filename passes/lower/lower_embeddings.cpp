// Reference embeddings → lookups in rows of 8, 4 or 2 bits
// (torch/ao/quantization/fx/_lower_to_native_backend.py, _lower_weight_only_weighted_ref_module).
//   y = Embedding(indices)   →   y = quantized::embedding_bag_byte_rowwise_offsets(rows, indices)

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/dtype_config.h>

#include <string>
#include <utility>
#include <vector>

#include "ir/analysis.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/lower/passes.h"
#include "torchscript/modules/embedding.h"

namespace tsq::passes {
namespace {

using ir::EmbeddingTable;
using ir::ModuleCall;

/// Calls of one table share its rows in memory and on disk.
class SharedRows {
 public:
  at::Tensor of(const EmbeddingTable& table) {
    for (const auto& [known, rows] : packed_) {
      if (torchscript::has_same_rows(known, table)) return rows;
    }
    packed_.emplace_back(table, torchscript::packed_rows(table));
    return packed_.back().second;
  }

 private:
  std::vector<std::pair<EmbeddingTable, at::Tensor>> packed_;
};

/// Why convert gave a matched embedding no qparams: where no kernel refuses it, the table did.
kernels::Refusal refusal_of(const Model& model, const Node* node, const QConfig& qconfig) {
  if (const auto refusal = kernels::embedding_offer(model, node).refusal) return *refusal;
  return {ir::Reason::NoKernel,
          fmt::format("its weight observer has {}, which no DTypeConfig of the backend accepts",
                      dtype_name(resolve(qconfig.weight).dtype)),
          "give it float_qparams_weight_only_qconfig, whose weights have a scale for each row, or none"};
}

bool may_be_embedding(const ModuleCall& call) {
  return call.embedding || torchscript::is_embedding(call.type);
}

}  // namespace

bool lower_embeddings(Model& model, const PassContext& /*context*/) {
  SharedRows rows;
  bool has_changed = false;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_module_call(node) || ir::stays_float(model, node)) continue;
    ModuleCall& call = ir::call_of(model, node);
    if (!may_be_embedding(call)) continue;
    if (call.embedding && call.embedding->weight_qparams) {
      call.module = torchscript::quantized_embedding(*call.embedding, rows.of(*call.embedding));
      set_kernel(model, node, kernels::embedding_offer(model, node).kernel, ir::Placement::Int8);
    } else if (const QConfig* qconfig = ir::observed_qconfig(model, node)) {
      const kernels::Refusal refusal = refusal_of(model, node, *qconfig);
      set_no_kernel(model, node, ir::Placement::Float, refusal.reason, refusal.why, refusal.remedy);
    } else {
      continue;
    }
    has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
