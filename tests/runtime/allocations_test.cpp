// Counts what a call allocates: malloc and its relatives of this program stand before the C library's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "runtime/networks.h"
#include "runtime/primitives/exact_sums.h"
#include "runtime/primitives/packed_weights.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

struct Counts {
  bool on = false;
  int all = 0;
  std::size_t largest = 0;
};
thread_local Counts counts;

void count(std::size_t bytes) {
  if (!counts.on) return;
  ++counts.all;
  if (bytes > counts.largest) counts.largest = bytes;
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t bytes);                          // NOLINT
void* __libc_memalign(std::size_t boundary, std::size_t bytes);  // NOLINT

void* malloc(std::size_t bytes) {
  count(bytes);
  return __libc_malloc(bytes);
}
void* aligned_alloc(std::size_t boundary, std::size_t bytes) {
  count(bytes);
  return __libc_memalign(boundary, bytes);
}
int posix_memalign(void** memory, std::size_t boundary, std::size_t bytes) {
  count(bytes);
  *memory = __libc_memalign(boundary, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

namespace tsq::runtime::test {
namespace {

/// What the third call allocates, and the arguments of oneDNN's primitives.
struct Call {
  Counts allocated{};
  std::size_t arguments = 0;
};

Call third_call(const Model& model, const Shape& sizes) {
  Random random(1);
  LoadedProgram program(model);
  const Tensor input = random_tensor(random, Dtype::F32, sizes);
  const Shape strides = row_major_strides(sizes);
  const auto pixels = aligned_memory(input.numbers.size() * sizeof(float));
  std::fill_n(static_cast<float*>(pixels.get()), input.numbers.size(), 0.5F);
  const InputTensor tensor{.dtype = Dtype::F32, .sizes = sizes, .strides = strides, .data = pixels.get()};
  const auto output = aligned_memory(1 << 20);
  const void* read[] = {pixels.get()};
  void* written[] = {output.get()};
  for (int call = 0; call < 3; ++call) {
    counts = {.on = call == 2};
    program.compiled({&tensor, 1}, {}, 1)->run(read, written);
    counts.on = false;
  }
  Call third{counts};
  const auto compiled = program.compiled({&tensor, 1}, {}, 1);
  for (const auto& step : compiled->steps()) {
    if (!step.kernel)
      third.arguments += static_cast<std::size_t>(compiled->parts().count) * step.operands.size();
  }
  return third;
}

TEST(Allocations, OfKernelsOfOursAreNone) {
  Writer writer;
  const Value value{.dtype = Dtype::U8, .scale = 0.05, .zero_point = 100};
  const int input = writer.add({.kind = Kind::Convert, .inputs = {writer.input(float_value())}}, value);
  const int function = writer.add(
      {.kind = Kind::Activation, .inputs = {input}, .post_ops = {{.kind = PostOpKind::Silu}}}, value);
  const int sum = writer.add({.kind = Kind::Add, .inputs = {input, function}}, value);
  const int attended = writer.add({.kind = Kind::Attention, .inputs = {sum, sum, sum}}, value);
  const int normal = writer.add({.kind = Kind::LayerNorm, .inputs = {attended}}, value);
  writer.returns({writer.add({.kind = Kind::GlobalAvgPool, .inputs = {normal}}, float_value())});
  EXPECT_EQ(third_call(writer.model, {1, 16, 12, 12}).allocated.all, 0);
}

/// oneDNN itself makes a map of a primitive's arguments: its table, and a node for each of them. Some of its
/// products of matrices without VNNI make buffers of one size for their blocks.
void expect_maps_of_arguments(const Call& call) {
  if (!has_exact_int8_sums()) return;
  EXPECT_LE(static_cast<std::size_t>(call.allocated.all), 3 * call.arguments);
  EXPECT_LE(call.allocated.largest, 1024U);
}

/// Tensors are in the arena.
TEST(Allocations, OfANetworkDoNotGrowWithItsTensors) {
  const auto small = third_call(small_network(1), {1, 3, 16, 16}).allocated;
  const auto large = third_call(small_network(1), {1, 3, 128, 128}).allocated;
  EXPECT_EQ(small.largest, large.largest);
  EXPECT_EQ(small.all, large.all);
}

TEST(Allocations, OfImageNetworksAreOneDnnsAlone) {
  for (const Model& model : {mobilenet_like(), resnet_like()}) {
    const auto small = third_call(model, {1, 3, 32, 32});
    const auto large = third_call(model, {1, 3, 96, 96});
    const auto batch = third_call(model, {4, 3, 32, 32});
    EXPECT_EQ(small.allocated.largest, large.allocated.largest);
    for (const auto& call : {small, large, batch}) expect_maps_of_arguments(call);
  }
}

}  // namespace
}  // namespace tsq::runtime::test

#endif
