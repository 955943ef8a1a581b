#include "ir/scope.h"

#include <cstdint>

#include "ir/methods.h"

namespace tsq::ir {
namespace {

const c10::Symbol kScopeAttribute = c10::Symbol::attr("tsq_scope");

}  // namespace

std::optional<std::size_t> scope_index(const Node* node) {
  if (!node->hasAttribute(kScopeAttribute)) return std::nullopt;
  return static_cast<std::size_t>(node->i(kScopeAttribute));
}

void set_scope(Node* node, std::size_t index) { node->i_(kScopeAttribute, static_cast<int64_t>(index)); }

void take_scope(Node* to, const Node* from) {
  if (const auto index = scope_index(from)) set_scope(to, *index);
  take_place(to, from);
}

}  // namespace tsq::ir
