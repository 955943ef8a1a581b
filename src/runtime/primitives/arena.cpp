#include "runtime/primitives/arena.h"

#include <algorithm>
#include <limits>

#include "runtime/program/error.h"

namespace tsq::runtime {
namespace {

/// Sums of two such numbers stay in 64 bits.
constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max() / 2;

/// A buffer from the first step that uses it to the last.
struct Life {
  std::size_t buffer;
  std::int64_t bytes;
  std::size_t first;
  std::size_t last;
  std::int64_t offset = -1;
};

std::vector<Life> lives_of(std::span<const Buffer> buffers, std::span<const Step> steps) {
  constexpr std::int64_t kBoundary = 64;
  constexpr auto kUnused = static_cast<std::size_t>(-1);
  std::vector<Life> lives;
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    const auto rounded = (buffers[b].bytes + kBoundary - 1) / kBoundary * kBoundary;
    lives.push_back({b, rounded, kUnused, 0});
  }
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const auto& operand : steps[s].operands) {
      auto& life = lives[static_cast<std::size_t>(operand.buffer)];
      life.first = std::min(life.first, s);
      life.last = s;
    }
  }
  std::erase_if(lives, [&](const Life& life) {
    return buffers[life.buffer].place != Place::Arena || life.first == kUnused;
  });
  return lives;
}

bool meet(const Life& a, const Life& b) { return a.first <= b.last && b.first <= a.last; }

/// The lowest gap between those that are placed and live at the same time.
std::int64_t lowest_gap(const Life& life, const std::vector<const Life*>& placed) {
  std::int64_t offset = 0;
  for (const auto* other : placed) {  // by offset
    if (!meet(life, *other)) continue;
    if (offset + life.bytes <= other->offset) break;
    offset = std::max(offset, other->offset + other->bytes);
  }
  return offset;
}

}  // namespace

Arena plan_arena(std::span<const Buffer> buffers, std::span<const Step> steps) {
  auto lives = lives_of(buffers, steps);
  std::ranges::stable_sort(lives, [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
  Arena arena{.offsets = std::vector<std::int64_t>(buffers.size(), -1)};
  std::vector<const Life*> placed;
  for (auto& life : lives) {
    life.offset = lowest_gap(life, placed);
    if (life.offset > kMostBytes - life.bytes) throw MemoryError("the call", kMostBytes, kMostBytes);
    const auto place =
        std::ranges::upper_bound(placed, life.offset, {}, [](const Life* other) { return other->offset; });
    placed.insert(place, &life);
    arena.offsets[life.buffer] = life.offset;
    arena.bytes = std::max(arena.bytes, life.offset + life.bytes);
  }
  return arena;
}

}  // namespace tsq::runtime
