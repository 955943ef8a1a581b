// Embedding and EmbeddingBag, whose tables are rounded (K-08, K-09).

#include "torchscript/modules/embedding.h"

#include <utility>
#include <vector>

#include "ir/edit.h"
#include "torchscript/modules/reference/reference_kind.h"

namespace tsq::torchscript {
namespace {

using ir::Node;
using ir::Value;

/// Indices, offsets, weights of samples. Traced calls leave out what was not given.
constexpr std::size_t kArgumentsOfBag = 3;

/// The inputs of a bag in the order of PyTorch's arguments.
void order_bag_inputs(Node* node, const std::vector<int64_t>& traced_order) {
  const std::vector<Value*> given(node->inputs().begin(), node->inputs().end());
  const auto none = [&] { return ir::constant_before(node, c10::IValue()); };
  if (!traced_order.empty()) node->removeAllInputs();
  for (const int64_t argument : traced_order)
    node->addInput(argument == 0 ? none() : given.at(static_cast<std::size_t>(argument) - 1));
  while (node->inputs().size() < kArgumentsOfBag) node->addInput(none());
}

bool build_table(Node* node, ir::ModuleCall& call, const ObserverSpec& spec) {
  if (!call.embedding) return false;
  ir::EmbeddingTable& table = *call.embedding;
  const std::optional<QParams> trained = std::exchange(table.weight_qparams, std::nullopt);
  const QParams qparams = trained ? *trained : observe_once(spec, table.weight.detach());
  if (!unquantizable(table, qparams).empty()) return false;
  const std::vector<int64_t> traced_order = traced_bag_arguments(call);
  table.weight_qparams = qparams;
  call.module = reference_embedding(table);
  call.method = "forward";
  if (table.is_bag) order_bag_inputs(node, traced_order);
  return true;
}

}  // namespace

const ReferenceKind reference_embedding_table{.name = "Embedding", .build = build_table};

const ReferenceKind reference_embedding_bag{.name = "EmbeddingBag", .build = build_table};

}  // namespace tsq::torchscript
