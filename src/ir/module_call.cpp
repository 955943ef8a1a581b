#include "ir/module_call.h"

#include <cstdint>
#include <utility>

namespace tsq::ir {
namespace {

const c10::Symbol kCallAttribute = c10::Symbol::attr("tsq_call");

}  // namespace

const c10::Symbol kModuleKind = c10::Symbol::fromQualString("prim::tsq_module");

Weighted* weighted_of(ModuleCall& call) { return const_cast<Weighted*>(weighted_of(std::as_const(call))); }
const Weighted* weighted_of(const ModuleCall& call) {
  if (call.weighted) return &*call.weighted;
  return call.members.empty() ? nullptr : weighted_of(call.members.front());
}

bool is_batch_norm(const ModuleCall& call) { return call.type.name.starts_with("torch.nn.BatchNorm"); }

bool is_module_call(const Node* node) { return node->kind() == kModuleKind; }
std::size_t call_index(const Node* node) { return static_cast<std::size_t>(node->i(kCallAttribute)); }
void set_call(Node* node, std::size_t index) { node->i_(kCallAttribute, static_cast<int64_t>(index)); }

}  // namespace tsq::ir
