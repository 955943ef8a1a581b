#include "ir/observer_entry.h"

#include <cstdint>

namespace tsq::ir {
namespace {

const c10::Symbol kObserverAttribute = c10::Symbol::attr("tsq_observer");

}  // namespace

const c10::Symbol kObserverKind = c10::Symbol::fromQualString("prim::tsq_observer");

bool is_observer(const Node* node) { return node->kind() == kObserverKind; }
std::size_t observer_index(const Node* node) { return static_cast<std::size_t>(node->i(kObserverAttribute)); }
void set_observer_index(Node* node, std::size_t index) {
  node->i_(kObserverAttribute, static_cast<int64_t>(index));
}

}  // namespace tsq::ir
