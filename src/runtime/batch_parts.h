#pragma once

#include <functional>

#include "runtime/program/batch_rows.h"

/// How a large batch is divided.
namespace tsq::runtime {

/// Equal parts of a batch, each of which runs all steps of a program.
struct BatchParts {
  std::int64_t count = 1;
  int at_once = 1;  ///< how many run at the same time, each on a thread of its own; 1: each on all threads

  friend bool operator==(const BatchParts&, const BatchParts&) = default;
};

using DivideBatch =
    std::function<BatchParts(const ResolvedModel& whole, const BatchRows& batch, int threads)>;

/// One part for each thread, where that is no more to read; else the whole.
BatchParts divided_batch(const ResolvedModel& whole, const BatchRows& batch, int threads);

}  // namespace tsq::runtime
