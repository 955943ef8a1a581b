// Every kind of operation takes float and int8 tensors in any mix, and writes any of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/cases.h"
#include "runtime/program/operation_table.h"

namespace tsq::runtime::test {
namespace any_dtype_test {

constexpr Dtype kDtypes[] = {Dtype::F32, Dtype::U8, Dtype::S8};

bool has_weight(Kind kind) { return has(row_of(kind).attributes, Attribute::Weight); }

/// Channels whose sums of products leave neither 8 bits nor, without VNNI, 16.
void add_weight(Random& random, Writer& writer, Operation& operation, Dtype dtype) {
  const bool linear = operation.kind == Kind::Linear;
  const Shape sizes = linear ? Shape{8, 6} : Shape{8, 8, 1, 1};
  if (dtype == Dtype::F32) {
    operation.weight = writer.constant(random_tensor(random, Dtype::F32, sizes));
  } else {
    add_weights(random, writer, operation, sizes, 8);
  }
}

class AnyDtype : public testing::TestWithParam<Kind> {};

TEST_P(AnyDtype, IsReadAndWritten) {
  const auto kind = GetParam();
  Random random(static_cast<unsigned>(kind));
  for (const auto left : kDtypes) {
    for (const auto right : kDtypes) {
      for (const auto written : kDtypes) {
        SCOPED_TRACE(std::string(name_of(left)) + ", " + std::string(name_of(right)) + " -> " +
                     std::string(name_of(written)));
        Writer writer;
        Operation operation = plain_operation(kind);
        std::vector<Tensor> inputs;
        const auto read = [&](Dtype dtype, const Shape& sizes) {
          operation.inputs.push_back(writer.input(random_value(random, dtype)));
          inputs.push_back(random_tensor(random, dtype, sizes));
        };
        read(left, {2, 8, 6, 6});
        if (row_of(kind).inputs != 1) read(right, {2, 8, 6, 6});
        if (row_of(kind).inputs == 3) read(right == Dtype::U8 ? left : right, {2, 8, 6, 6});
        if (has_weight(kind)) add_weight(random, writer, operation, right == Dtype::U8 ? left : right);
        if (kind == Kind::Prelu) operation.weight = writer.constant({Dtype::F32, {1}, {0.25}});
        writer.returns({writer.add(operation, output_value(random, written, 4))});
        expect_right(writer, inputs);
        if (HasFatalFailure()) return;
        if (has_weight(kind) || kind == Kind::Matmul) continue;
        LoadedProgram program(writer.model);
        EXPECT_EQ(run(program, inputs, 1).front().numbers, run(program, inputs, 2).front().numbers);
      }
    }
  }
}

std::vector<Kind> kinds() {
  std::vector<Kind> kinds;
  for (const auto& row : operation_table()) {
    // Embeddings read rows, numbers nothing, and recurrent layers have tests of their own.
    const bool reads_tensors = row.kind != Kind::Embedding && row.kind != Kind::Number;
    if (reads_tensors && !is_recurrent(row.kind)) kinds.push_back(row.kind);
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Operations, AnyDtype, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

}  // namespace any_dtype_test
}  // namespace tsq::runtime::test
