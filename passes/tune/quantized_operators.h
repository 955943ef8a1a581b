#pragma once

#include <algorithm>

#include "ir/model.h"

namespace tsq::passes {

/// Whether the report says of some operator that it is quantized.
inline bool has_quantized_operator(const ir::Model& model) {
  return std::ranges::any_of(model.records, [](const ir::NodeRecord& record) {
    return record.is_reported && record.decision.quantized;
  });
}

}  // namespace tsq::passes
