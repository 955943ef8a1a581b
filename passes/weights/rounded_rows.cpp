#include "passes/weights/rounded_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tsq::passes {
namespace {

constexpr int kMostRounds = 16;
constexpr float kLowestCode = -128;
constexpr float kHighestCode = 127;

/// The best value of one code given the others; what it changes in the weight.
float improve(const RoundedRow& row, std::size_t j, float variance) {
  const float wanted = std::nearbyint(-row.gradient[j] / (row.scale * variance));
  const float code = std::clamp(row.codes[j] + wanted, std::max(kLowestCode, row.nearest[j] - 1),
                                std::min(kHighestCode, row.nearest[j] + 1));
  const float step = (code - row.codes[j]) * row.scale;
  row.codes[j] = code;
  return step;
}

/// One round over the codes of some rows, which share what is read of the covariance.
void improve(std::span<RoundedRow> rows, std::span<const float> covariance) {
  const std::size_t columns = rows.front().codes.size();
  std::array<bool, kRowsAtATime> changed{};
  for (std::size_t j = 0; j < columns; ++j) {
    const std::span<const float> of_column = covariance.subspan(j * columns, columns);
    if (!(of_column[j] > 0)) continue;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const float step = rows[i].changes ? improve(rows[i], j, of_column[j]) : 0;
      if (step == 0) continue;
      for (std::size_t k = 0; k < columns; ++k) rows[i].gradient[k] += step * of_column[k];
      changed[i] = true;
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].changes = changed[i];
}

}  // namespace

void improve_codes(std::span<RoundedRow> rows, std::span<const float> covariance) {
  for (int round = 0; round < kMostRounds && std::ranges::any_of(rows, &RoundedRow::changes); ++round)
    improve(rows, covariance);
}

}  // namespace tsq::passes
