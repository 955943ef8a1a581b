#pragma once

#include <optional>
#include <vector>

#include "ir/model.h"

namespace tsq::operators {

/// How much is added on each side, by dimension from the outermost one.
struct Padding {
  std::vector<int64_t> before{};
  std::vector<int64_t> after{};
};

/// What a node adds to the last `dims` dimensions; empty when it does anything else than add zeros there.
std::optional<Padding> zero_padding(const ir::Model& model, const ir::Node* pad, std::size_t dims);

}  // namespace tsq::operators
