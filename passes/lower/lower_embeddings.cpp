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
#include "passes/decision_index.h"
#include "passes/lower/passes.h"
#include "torchscript/embedding.h"

namespace tsq::passes {
namespace {

using ir::EmbeddingTable;
using ir::Model;
using ir::ModuleCall;
using ir::Node;

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

/// Why convert gave a matched embedding no qparams.
std::string reason_of(const ModuleCall& call, const QConfig& qconfig) {
  if (!call.embedding) return "the file does not show its mode and arguments";
  if (std::string problem = torchscript::unquantizable(*call.embedding, {}); !problem.empty()) return problem;
  const c10::ScalarType dtype = resolve(qconfig.weight).dtype;
  if (c10::isQIntType(dtype)) {
    const std::string reason = torchscript::unquantizable(
        *call.embedding, observe_once(qconfig.weight, call.embedding->weight.slice(0, 0, 1)));
    if (!reason.empty()) return reason;
  }
  return fmt::format("its weight observer has {}, which no DTypeConfig of the backend accepts",
                     dtype_name(dtype));
}

bool may_be_embedding(const ModuleCall& call) {
  return call.embedding || torchscript::is_embedding(call.type);
}

}  // namespace

void lower_embeddings(Model& gm, Report& report) {
  SharedRows rows;
  const DecisionIndex decisions(report);
  for (const Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!ir::is_module_call(node) || ir::keeps_reference(gm, node)) continue;
    ModuleCall& call = ir::call_of(gm, node);
    if (!may_be_embedding(call)) continue;
    Decision* decision = decisions.of(node);
    if (call.embedding && call.embedding->weight_qparams) {
      call.module = torchscript::quantized_embedding(*call.embedding, rows.of(*call.embedding));
      if (decision != nullptr) decision->kernel = torchscript::embedding_kernel(*call.embedding);
      continue;
    }
    const QConfig* qconfig = ir::observed_qconfig(gm, node);
    if (decision == nullptr || qconfig == nullptr) continue;
    decision->quantized = false;
    decision->reason = reason_of(call, *qconfig);
    decision->remedy =
        "give it float_qparams_weight_only_qconfig, whose weights have a scale for each row, or none";
  }
}

}  // namespace tsq::passes
