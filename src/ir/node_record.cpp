#include "ir/node_record.h"

#include <cstdint>

namespace tsq::ir {
namespace {

const c10::Symbol kRecordAttribute = c10::Symbol::attr("tsq_record");

}  // namespace

std::optional<std::size_t> record_index(const Node* node) {
  if (!node->hasAttribute(kRecordAttribute)) return std::nullopt;
  return static_cast<std::size_t>(node->i(kRecordAttribute));
}

void set_record(Node* node, std::size_t index) { node->i_(kRecordAttribute, static_cast<int64_t>(index)); }

void take_record(Node* to, const Node* from) {
  if (const auto index = record_index(from)) set_record(to, *index);
}

}  // namespace tsq::ir
