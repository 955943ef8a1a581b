#include "runtime/kernels/loops.h"

#include <algorithm>
#include <vector>

#include "runtime/program/error.h"

namespace tsq::runtime {
namespace {

/// Dimensions of more than one element, those that operand 0 crosses in the longest strides first.
std::vector<std::size_t> order_of(const Shape& sizes, const Shape& strides) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1) order.push_back(d);
  }
  std::ranges::stable_sort(order, [&](auto a, auto b) { return strides[a] > strides[b]; });
  return order;
}

/// Is the loop over `outer` a continuation of the loop before which it stands, for every operand?
bool joins(const Loops& loops, int last, std::size_t inner, std::int64_t inner_size,
           std::span<const Shape> strides) {
  for (std::size_t o = 0; o < strides.size(); ++o) {
    if (loops.strides[o][static_cast<std::size_t>(last)] != strides[o][inner] * inner_size) return false;
  }
  return true;
}

}  // namespace

Loops make_loops(const Shape& sizes, std::span<const Shape> strides) {
  Loops loops;
  loops.count = 0;
  loops.operands = static_cast<int>(strides.size());
  for (const auto d : order_of(sizes, strides[0])) {
    if (loops.count > 0 && joins(loops, loops.count - 1, d, sizes[d], strides)) {
      const auto last = static_cast<std::size_t>(loops.count - 1);
      loops.sizes[last] *= sizes[d];
      for (std::size_t o = 0; o < strides.size(); ++o) loops.strides[o][last] = strides[o][d];
      continue;
    }
    if (loops.count == kMaxLoops) {
      throw ProgramError("the call", "a tensor of " + std::to_string(sizes.size()) + " dimensions is read",
                         "at most " + std::to_string(kMaxLoops) + " are possible");
    }
    const auto next = static_cast<std::size_t>(loops.count++);
    loops.sizes[next] = sizes[d];
    for (std::size_t o = 0; o < strides.size(); ++o) loops.strides[o][next] = strides[o][d];
  }
  if (loops.count == 0) {
    loops.count = 1;
    loops.sizes[0] = 1;
  }
  return loops;
}

}  // namespace tsq::runtime
