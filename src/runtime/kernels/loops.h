#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "runtime/program/program.h"

/// The loops over tensors of any strides.
namespace tsq::runtime {

inline constexpr int kMaxOperands = 4;
inline constexpr int kMaxLoops = 8;

/// Loops from the outermost to the innermost; operand 0 is written. Strides count elements.
struct Loops {
  int count = 1;
  int operands = 2;
  std::array<std::int64_t, kMaxLoops> sizes{1};
  std::array<std::array<std::int64_t, kMaxLoops>, kMaxOperands> strides{};

  [[nodiscard]] std::int64_t inner() const { return sizes[static_cast<std::size_t>(count - 1)]; }
  [[nodiscard]] std::int64_t rows() const {
    std::int64_t rows = 1;
    for (int d = 0; d + 1 < count; ++d) rows *= sizes[static_cast<std::size_t>(d)];
    return rows;
  }
};

/// The loops over `sizes` in the order in which operand 0 lies in memory, neighbours joined where every
/// operand allows it. Strides of 0 broadcast.
Loops make_loops(const Shape& sizes, std::span<const Shape> strides);

/// A long row is done in blocks, so that threads can share it.
inline constexpr std::int64_t kBlock = 4096;

[[nodiscard]] inline std::int64_t blocks_of(const Loops& loops) {
  return (loops.inner() + kBlock - 1) / kBlock;
}
[[nodiscard]] inline std::int64_t units_of(const Loops& loops) { return loops.rows() * blocks_of(loops); }

}  // namespace tsq::runtime
