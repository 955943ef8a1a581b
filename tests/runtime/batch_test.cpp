// Batches that run in parts: which programs allow it, and that every part has the bits of the whole.
#include <gtest/gtest.h>

#include "runtime/available_memory.h"
#include "runtime/primitives/exact_sums.h"
#include "runtime/primitives/legalize.h"
#include "runtime/program/error.h"
#include "runtime/support.h"

namespace tsq::runtime::test {
namespace batch_test {

const Value kBytes{.dtype = Dtype::U8, .scale = 0.05, .zero_point = 100};

/// What the program returns if its batch runs in these parts.
std::vector<Tensor> run_in_parts(const Model& model, const std::vector<Tensor>& inputs, BatchParts parts,
                                 int threads) {
  const Model legal = legalized(model, has_exact_int8_sums());
  std::vector<View> views;
  for (const auto& input : inputs) {
    views.push_back({.dtype = input.dtype, .sizes = input.sizes, .strides = row_major_strides(input.sizes)});
  }
  PackedWeights weights;
  const CompiledProgram program(legal, views, {}, threads, weights, memory_limit(),
                                [&](const auto&, const auto&, int) { return parts; });
  EXPECT_EQ(program.parts(), parts);
  return run(program, inputs);
}

void expect_parts_equal_the_whole(const Model& model, const std::vector<Tensor>& inputs) {
  const auto whole = run_in_parts(model, inputs, {}, 1);
  for (const BatchParts parts : {BatchParts{2, 1}, {3, 1}, {6, 1}, {2, 2}, {6, 2}, {3, 3}}) {
    const auto divided = run_in_parts(model, inputs, parts, parts.at_once);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(divided[i].sizes, whole[i].sizes);
      EXPECT_EQ(divided[i].numbers, whole[i].numbers) << parts.count << " parts, " << parts.at_once;
    }
  }
}

/// A linear layer with a weight of int8.
int linear(Random& random, Writer& writer, int input, std::int64_t width, std::int64_t columns) {
  Operation operation{.kind = Kind::Linear, .inputs = {input}};
  add_weights(random, writer, operation, {columns, width}, columns);
  return writer.add(operation, kBytes);
}

int reshaped_to(Writer& writer, int input, const Extents& shape) {
  return writer.add({.kind = Kind::Reshape, .inputs = {input}, .shape = shape}, kBytes);
}

/// Tokens with a token that all sentences have in front, heads that become rows of their own, and a mask that
/// all sentences share.
Model transformer() {
  Random random(5);
  Writer writer;
  constexpr std::int64_t kWidth = 16;
  const int tokens = writer.input(float_value());  // [rows, 7, 16]
  const int mask = writer.input(float_value());    // [1, 8, 8]
  const int first = writer.constant_value(float_value(), random_tensor(random, Dtype::F32, {1, 1, kWidth}));
  const int repeated =
      writer.add({.kind = Kind::Expand, .inputs = {first}, .shape = {6, -1, -1}}, float_value());
  const int joined =
      writer.add({.kind = Kind::Concat, .inputs = {repeated, tokens}, .axis = 1}, float_value());
  const int normal = writer.add({.kind = Kind::LayerNorm, .inputs = {joined}}, kBytes);
  const auto heads = [&](int value) {
    const int split = reshaped_to(writer, linear(random, writer, value, kWidth, kWidth), {6, 8, 2, 8});
    const int moved = writer.add({.kind = Kind::Permute, .inputs = {split}, .order = {0, 2, 1, 3}}, kBytes);
    return reshaped_to(writer, moved, {12, 8, 8});
  };
  const int query = heads(normal);
  const int key = heads(normal);
  const int attended =
      writer.add({.kind = Kind::Attention, .inputs = {query, key, heads(normal), mask}, .alpha = 0}, kBytes);
  const int back = writer.add(
      {.kind = Kind::Permute, .inputs = {reshaped_to(writer, attended, {6, 2, 8, 8})}, .order = {0, 2, 1, 3}},
      kBytes);
  const int sum = writer.add({.kind = Kind::Add, .inputs = {reshaped_to(writer, back, {6, 8, 16}), joined}},
                             float_value());
  const int mean = writer.add({.kind = Kind::Mean, .inputs = {sum}, .axes = {1}}, kBytes);
  writer.returns({linear(random, writer, mean, kWidth, 10), sum});
  return writer.model;
}

TEST(Batch, OfImagesHasTheBitsOfTheWholeInParts) {
  Random random(1);
  expect_parts_equal_the_whole(small_network(1), {random_tensor(random, Dtype::F32, {6, 3, 16, 16})});
}

TEST(Batch, OfSentencesHasTheBitsOfTheWholeInParts) {
  Random random(1);
  expect_parts_equal_the_whole(transformer(), {random_tensor(random, Dtype::F32, {6, 7, 16}),
                                               random_tensor(random, Dtype::F32, {1, 8, 8})});
}

BatchParts parts_of(const Model& model, const Shape& sizes, int threads) {
  LoadedProgram program(model);
  Random random(1);
  return compile(program, {random_tensor(random, Dtype::F32, sizes)}, threads)->parts();
}

TEST(Batch, IsSharedEquallyByThreads) {
  EXPECT_EQ(parts_of(small_network(1), {6, 3, 16, 16}, 2), (BatchParts{2, 2}));
  EXPECT_EQ(parts_of(small_network(1), {6, 3, 16, 16}, 1), BatchParts());
  EXPECT_EQ(parts_of(small_network(1), {5, 3, 16, 16}, 2), BatchParts())
      << "one would have more than the other";
  EXPECT_EQ(parts_of(small_network(1), {1, 3, 16, 16}, 2), BatchParts());
}

TEST(Batch, IsNotSharedWhereWeightsAreMoreThanValues) {
  Random random(1);
  Writer writer;
  const int input = writer.add({.kind = Kind::Convert, .inputs = {writer.input(float_value())}}, kBytes);
  writer.returns({linear(random, writer, input, 64, 32)});
  EXPECT_EQ(parts_of(writer.model, {2, 64}, 2), BatchParts());
  EXPECT_EQ(parts_of(writer.model, {64, 64}, 2), (BatchParts{2, 2}));
}

TEST(Batch, OfWhichOnePartFailsFails) {
  Random random(1);
  Writer writer;
  const int index = writer.input({.dtype = Dtype::I64});
  writer.returns({writer.add({.kind = Kind::Embedding,
                              .inputs = {index},
                              .weight = writer.constant(random_tensor(random, Dtype::F32, {5, 3}))},
                             float_value())});
  const Tensor good{Dtype::I64, {4, 2}, {0, 1, 2, 3, 4, 0, 1, 2}};
  Tensor bad = good;
  bad.numbers.back() = 5;
  EXPECT_EQ(run_in_parts(writer.model, {good}, {4, 2}, 2).front().sizes, (Shape{4, 2, 3}));
  EXPECT_THROW((void)run_in_parts(writer.model, {bad}, {4, 2}, 2), ProgramError);
  EXPECT_THROW((void)run_in_parts(writer.model, {bad}, {4, 1}, 1), ProgramError);
}

/// The rows of a program with one operation on inputs of these shapes.
std::optional<BatchRows> rows_of_program(Operation operation, const std::vector<Shape>& inputs) {
  Writer writer;
  for (std::size_t i = 0; i < inputs.size(); ++i) operation.inputs.push_back(writer.input(float_value()));
  writer.returns({writer.add(operation, float_value())});
  return batch_rows(resolve(writer.model, inputs, {}));
}

TEST(BatchRows, AreKeptApartAlongOtherDimensions) {
  EXPECT_TRUE(rows_of_program({.kind = Kind::Softmax, .axis = 1}, {{4, 6}}));
  EXPECT_TRUE(rows_of_program({.kind = Kind::Concat, .axis = 1}, {{4, 6}, {4, 2}}));
  EXPECT_TRUE(rows_of_program({.kind = Kind::Mean, .axes = {-1, 1}}, {{4, 6, 5}}));
  EXPECT_TRUE(rows_of_program({.kind = Kind::Matmul}, {{4, 6, 5}, {4, 5, 2}}));
  EXPECT_TRUE(rows_of_program({.kind = Kind::Matmul}, {{4, 6, 5}, {5, 2}}));
  EXPECT_TRUE(rows_of_program({.kind = Kind::Add}, {{1, 5}, {4, 5}}));
  EXPECT_TRUE(rows_of_program({.kind = Kind::Reshape, .shape = {-1, 5}}, {{4, 6, 5}}));
  EXPECT_TRUE(rows_of_program({.kind = Kind::Permute, .order = {0, 2, 1}}, {{4, 6, 5}}));
  EXPECT_TRUE(rows_of_program({.kind = Kind::Slice, .end = 3}, {{4, 6}}));
}

TEST(BatchRows, AreNoneWhereAnOperationMixesThem) {
  EXPECT_FALSE(rows_of_program({.kind = Kind::Softmax, .axis = 0}, {{4, 6}}));
  EXPECT_FALSE(rows_of_program({.kind = Kind::Concat, .axis = 0}, {{4, 6}, {4, 6}}));
  EXPECT_FALSE(rows_of_program({.kind = Kind::Mean}, {{4, 6, 5}}));
  EXPECT_FALSE(rows_of_program({.kind = Kind::Matmul}, {{4, 6}, {6, 2}}));
  EXPECT_FALSE(rows_of_program({.kind = Kind::Add}, {{4, 5}, {1, 4, 5}}))
      << "they are dimension 1 of the other";
  EXPECT_FALSE(rows_of_program({.kind = Kind::Reshape, .shape = {6, 20}}, {{4, 6, 5}}));
  EXPECT_FALSE(rows_of_program({.kind = Kind::Permute, .order = {1, 0}}, {{4, 6}}));
  EXPECT_FALSE(rows_of_program({.kind = Kind::Slice, .axis = 0, .end = 3}, {{4, 6}}));
  EXPECT_FALSE(rows_of_program({.kind = Kind::Convert}, {{1, 6}})) << "one row is no batch";
}

}  // namespace batch_test
}  // namespace tsq::runtime::test
