#include "runtime/primitives/arena.h"

#include <gtest/gtest.h>

#include "runtime/support.h"

namespace tsq::runtime::test {
namespace arena_test {

Step step_on(std::vector<int> buffers) {
  Step step;
  for (const int buffer : buffers) step.operands.push_back({.buffer = buffer});
  return step;
}

TEST(Arena, GivesMemoryToTheNextBufferWhenItsOwnerIsDone) {
  const std::vector<Buffer> buffers{
      {.bytes = 1000}, {.bytes = 1000}, {.bytes = 1000}, {.place = Place::Input}};
  const auto arena =
      plan_arena(buffers, std::vector<Step>{step_on({3, 0}), step_on({0, 1}), step_on({1, 2})});
  EXPECT_EQ(arena.bytes, 2048);
  EXPECT_EQ(arena.offsets, (std::vector<std::int64_t>{0, 1024, 0, -1}));
}

TEST(Arena, LeavesOutBuffersThatNoStepUses) {
  const std::vector<Buffer> buffers{{.bytes = 64}, {.bytes = 1 << 20}};
  EXPECT_EQ(plan_arena(buffers, std::vector<Step>{step_on({0})}).bytes, 64);
}

TEST(Arena, OfANetworkHoldsNoTwoBuffersAtOnePlaceAtOneTime) {
  LoadedProgram program(small_network(1));
  Random random(1);
  const auto compiled = compile(program, {random_tensor(random, Dtype::F32, {1, 3, 32, 32})});
  const auto& steps = compiled->steps();
  EXPECT_LT(compiled->arena_bytes(), compiled->buffer_bytes() * 3 / 4);
  for (const auto& step : steps) {
    for (const auto& operand : step.operands) {
      const auto offset = compiled->arena().offsets[static_cast<std::size_t>(operand.buffer)];
      EXPECT_LT(offset, compiled->arena_bytes());
      EXPECT_EQ(offset < 0 ? 0 : offset % 64, 0);
    }
  }
}

}  // namespace arena_test
}  // namespace tsq::runtime::test
