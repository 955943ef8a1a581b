#include "runtime/program/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "runtime/support.h"

namespace tsq::runtime::test {
namespace error_test {

using testing::HasSubstr;

/// What loading says of the small network after a change.
std::string fault_after(const std::function<void(Model&)>& change) {
  Model model = small_network(1);
  change(model);
  try {
    const LoadedProgram program(std::move(model));
  } catch (const ProgramError& error) {
    return error.what();
  }
  return "";
}

/// What calling it with a tensor says.
std::string fault_of_call(const Tensor& tensor) {
  LoadedProgram program(small_network(1));
  try {
    (void)run(program, {tensor});
  } catch (const ProgramError& error) {
    return error.what();
  }
  return "";
}

Tensor zeros(const Shape& sizes, Dtype dtype = Dtype::F32) {
  return {dtype, sizes, std::vector<double>(static_cast<std::size_t>(elements_of(sizes)))};
}

TEST(Errors, NameTheOperationOfAProgramThatDoesNotFit) {
  EXPECT_EQ(fault_after([](Model&) {}), "");
  EXPECT_THAT(fault_after([](Model& model) { model.program.operations[1].inputs = {99}; }),
              HasSubstr("operation 1 (convolution): there is no value 99"));
  EXPECT_THAT(fault_after([](Model& model) { model.program.operations[1].inputs = {8}; }),
              HasSubstr("nothing has written value 8 yet: put the operation that writes it first"));
  EXPECT_THAT(fault_after([](Model& model) { model.program.operations[1].output = 1; }),
              HasSubstr("value 1 is written twice"));
  EXPECT_THAT(fault_after([](Model& model) { model.program.operations[1].weight.reset(); }),
              HasSubstr("its weight is missing"));
  EXPECT_THAT(fault_after([](Model& model) { model.program.operations[1].groups = 5; }),
              HasSubstr("5 groups do not divide the 16 channels"));
  EXPECT_THAT(fault_after([](Model& model) { model.program.values[1].scale = 0; }),
              HasSubstr("value 1: its scale is 0"));
  EXPECT_THAT(fault_after([](Model& model) { model.program.values[1].zero_point = 300; }),
              HasSubstr("its zero point is 300: u8 has those from 0 to 255"));
  EXPECT_THAT(
      fault_after([](Model& model) { model.program.operations[0].post_ops = {{.kind = PostOpKind::Gelu}}; }),
      HasSubstr("post-op 'gelu' is none of this kind's"));
}

TEST(Errors, NameTheIntegerThatCannotBeComputed) {
  const auto after = [](Integer integer, int row) {
    return fault_after([&](Model& model) {
      model.program.integers = {integer};
      model.program.operations[7].shape = {Extent::of_integer(row)};
    });
  };
  EXPECT_THAT(after({.kind = IntegerKind::Given}, 0),
              HasSubstr("integer 0: there is no integer 0 among the 0 that a call gives"));
  EXPECT_THAT(after({.kind = IntegerKind::Size, .value = 0}, 3), HasSubstr("there is no integer 3 among 1"));
  EXPECT_THAT(after({.kind = IntegerKind::Size, .value = 9}, 0),
              HasSubstr("operation 7 (reshape): nothing has written value 9 yet"));
  EXPECT_THAT(after({.kind = IntegerKind::Add, .left = Extent::of_integer(0)}, 0),
              HasSubstr("integer 0: it reads a row that does not stand before it"));
}

TEST(Errors, RefuseRowsOfEmbeddingsElsewhere) {
  EXPECT_THAT(fault_after([](Model& model) { model.program.values[0].dtype = Dtype::I64; }),
              HasSubstr("operation 0 (convert): it reads an i64 value: only embeddings and views do"));
  EXPECT_THAT(fault_after([](Model& model) { model.program.values[1].dtype = Dtype::I64; }),
              HasSubstr("operation 0 (convert): not both its input and its output are i64"));
  EXPECT_THAT(fault_after([](Model& model) { model.program.operations[6].kind = Kind::Embedding; }),
              HasSubstr("operation 6 (embedding): its weight is missing"));
}

TEST(Errors, NameTheTensorOfACallThatDoesNotFit) {
  EXPECT_EQ(fault_of_call(zeros({1, 3, 8, 8})), "");
  EXPECT_THAT(fault_of_call(zeros({1, 3, 8, 8}, Dtype::U8)), HasSubstr("tensor 0 is u8: give one of f32"));
  EXPECT_THAT(fault_of_call(zeros({1, 4, 8, 8})), HasSubstr("its input has 4 channels, and its weight 3"));
  EXPECT_THAT(fault_of_call(zeros({1, 3, 0, 8})),
              HasSubstr("it has [1, 3, 0, 8], in which more than the batch is empty"));
  EXPECT_THAT(fault_of_call(zeros({3, 8, 8})), HasSubstr("operation 1 (convolution)"));
}

TEST(Errors, OfOneCallLeaveTheProgramUsable) {
  LoadedProgram program(small_network(1));
  EXPECT_THROW((void)run(program, {zeros({1, 4, 8, 8})}), ProgramError);
  EXPECT_EQ(program.compiled_programs(), 0U);
  EXPECT_EQ(run(program, {zeros({1, 3, 8, 8})}).front().sizes, (Shape{1, 10}));
}

}  // namespace error_test
}  // namespace tsq::runtime::test
