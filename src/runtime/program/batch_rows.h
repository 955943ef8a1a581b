#pragma once

#include <optional>
#include <vector>

#include "runtime/program/resolve.h"

/// Programs that compute each row of a batch by itself.
namespace tsq::runtime {

struct BatchRows {
  std::int64_t rows = 0;  ///< of the batch
  /// Values whose dimension 0 has equal shares for the rows, in their order. All others are the same for
  /// every row.
  std::vector<bool> batched{};
};

/// The rows of a call's batch; none if an operation mixes them, or if not every output has its share of them.
std::optional<BatchRows> batch_rows(const ResolvedModel& resolved);

/// The same program for fewer rows.
ResolvedModel with_rows(ResolvedModel resolved, const BatchRows& batch, std::int64_t rows);

}  // namespace tsq::runtime
