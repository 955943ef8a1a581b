#pragma once

#include <tsq/sample.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tsq::bench {

/// How many rows a sample has: the size of the first axis of its first tensor, 1 where that has none.
int64_t rows_of(const Sample& sample);

/// Samples of `rows` rows each, out of the rows of all samples, in order and from the front again when they
/// are used up: as many as it takes to use each row once. Cut and joined along the first axis are the tensors
/// whose first axis is as long as that of the sample's first tensor; everything else is taken from the sample
/// that a batch begins with. Throws Error(BadData) when the samples' tensors cannot be joined.
std::vector<Sample> batches_of(std::span<const Sample> samples, int64_t rows);

/// The samples with their four-dimensional tensors in channels-last order.
std::vector<Sample> in_channels_last(std::vector<Sample> samples);

}  // namespace tsq::bench
