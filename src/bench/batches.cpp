#include "bench/batches.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <numeric>

namespace tsq::bench {
namespace {

/// RowSupply `begin` to `end` of a sample.
struct Piece {
  const Sample* sample{nullptr};
  int64_t begin{0};
  int64_t end{0};
};

/// Whether an argument has a row for each row of its sample.
bool has_rows(const at::IValue& value, int64_t rows) {
  return value.isTensor() && value.toTensor().dim() > 0 && value.toTensor().size(0) == rows;
}

at::Tensor joined(const std::vector<Piece>& pieces, std::size_t argument) {
  std::vector<at::Tensor> parts;
  for (const Piece& piece : pieces) {
    const at::IValue& value = piece.sample->at(argument);
    if (!has_rows(value, rows_of(*piece.sample)) ||
        (!parts.empty() && parts[0].sizes().slice(1) != value.toTensor().sizes().slice(1))) {
      throw Error(
          ErrorCode::BadData,
          fmt::format("the samples cannot be joined to batches: argument {} differs in shape", argument),
          "give samples of one shape, or leave --batch out");
    }
    parts.push_back(value.toTensor().slice(0, piece.begin, piece.end));
  }
  return at::cat(parts);
}

Sample joined(const std::vector<Piece>& pieces) {
  Sample batch = *pieces.front().sample;
  const int64_t rows = rows_of(batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (has_rows(batch[i], rows)) batch[i] = joined(pieces, i);
  }
  return batch;
}

/// Hands out the rows of all samples, for ever.
class RowSupply {
 public:
  explicit RowSupply(std::span<const Sample> samples) : samples_(samples) {}

  std::vector<Piece> take(int64_t rows) {
    std::vector<Piece> pieces;
    while (rows > 0) {
      const Sample& sample = samples_[sample_];
      const int64_t end = std::min(row_ + rows, rows_of(sample));
      pieces.push_back({&sample, row_, end});
      rows -= end - row_;
      row_ = end;
      if (row_ < rows_of(sample)) continue;
      row_ = 0;
      sample_ = (sample_ + 1) % samples_.size();
    }
    return pieces;
  }

 private:
  std::span<const Sample> samples_;
  std::size_t sample_{0};
  int64_t row_{0};
};

}  // namespace

int64_t rows_of(const Sample& sample) {
  const auto first = std::ranges::find_if(sample, [](const at::IValue& value) { return value.isTensor(); });
  const bool has_axis = first != sample.end() && first->toTensor().dim() > 0;
  return has_axis ? std::max<int64_t>(1, first->toTensor().size(0)) : 1;
}

std::vector<Sample> batches_of(std::span<const Sample> samples, int64_t rows) {
  const int64_t all =
      std::accumulate(samples.begin(), samples.end(), int64_t{0},
                      [](int64_t sum, const Sample& sample) { return sum + rows_of(sample); });
  RowSupply supply(samples);
  std::vector<Sample> batches;
  for (int64_t begin = 0; begin < all; begin += rows) batches.push_back(joined(supply.take(rows)));
  return batches;
}

std::vector<Sample> in_channels_last(std::vector<Sample> samples) {
  for (Sample& sample : samples) {
    for (at::IValue& value : sample) {
      if (value.isTensor() && value.toTensor().dim() == 4)
        value = value.toTensor().contiguous(at::MemoryFormat::ChannelsLast);
    }
  }
  return samples;
}

}  // namespace tsq::bench
