#include "runtime/program/program_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/program/error.h"
#include "runtime/support.h"

namespace tsq::runtime::test {
namespace program_json_test {

using testing::HasSubstr;

std::string fault_of(const std::string& text) {
  try {
    (void)program_from_json(text);
  } catch (const ProgramError& error) {
    return error.what();
  }
  return "";
}

TEST(ProgramJson, ReadsBackWhatItWrites) {
  const auto program = small_network(1).program;
  EXPECT_EQ(program_from_json(to_json(program)), program);
}

TEST(ProgramJson, KeepsEveryAttribute) {
  Program program{
      .values = {{}, {.dtype = Dtype::S8, .scale = 0.1, .zero_point = -7, .constant = 4}},
      .inputs = {0},
      .outputs = {1},
      .given_integers = 1,
      .integers = {{.kind = IntegerKind::Given},
                   {.kind = IntegerKind::Size, .value = 1, .axis = -1},
                   {.kind = IntegerKind::FloorDivide, .left = Extent::of_integer(1), .right = 3}}};
  program.operations = {
      {.kind = Kind::MaxPool,
       .inputs = {0},
       .output = 1,
       .kernel = {3, 2},
       .stride = {2, 1},
       .padding_begin = {1, 0},
       .padding_end = {0, 1},
       .dilation = {2, 2},
       .ceil_mode = true},
      {.kind = Kind::Matmul,
       .inputs = {0, 1},
       .output = 2,
       .post_ops = {{.kind = PostOpKind::Clamp, .alpha = -1, .beta = 0.1},
                    {.kind = PostOpKind::Add, .value = 3}},
       .bounded = true,
       .alpha = 1.0 / 3},
      {.kind = Kind::Attention, .inputs = {0, 1, 2, 3}, .output = 2, .alpha = 0, .causal = true},
      {.kind = Kind::Slice, .inputs = {0}, .output = 3, .axis = 1, .begin = 2, .end = -1, .step = 3},
      {.kind = Kind::Slice, .inputs = {0}, .output = 3, .end = Extent::of_integer(1)},
      {.kind = Kind::Transpose, .inputs = {0}, .output = 3, .axis = 1, .other_axis = 0},
      {.kind = Kind::Flatten, .inputs = {0}, .output = 3, .axis = 1, .end_axis = -2},
      {.kind = Kind::Expand, .inputs = {0}, .output = 3, .shape = {3, -1}},
      {.kind = Kind::Reshape, .inputs = {0}, .output = 3, .shape = {0, Extent::of_integer(2), 7}},
      {.kind = Kind::Mean, .inputs = {0}, .output = 4, .axes = {1, -1}, .keep_dims = true},
      {.kind = Kind::Pad,
       .inputs = {0},
       .output = 4,
       .padding_begin = {1, 0},
       .padding_end = {0, 2},
       .fill = 0.5},
      {.kind = Kind::AdaptiveAvgPool, .inputs = {0}, .output = 4, .size = {Extent::of_integer(0), 3}},
      {.kind = Kind::GroupNorm, .inputs = {0}, .output = 4, .weight = 1, .bias = 2, .groups = 4},
      {.kind = Kind::ResizeNearest, .inputs = {0}, .output = 4, .scale_factors = {2, 1.5}},
      {.kind = Kind::LayerNorm, .inputs = {0}, .output = 5, .weight = 1, .bias = 2, .epsilon = 1e-12}};
  EXPECT_EQ(program_from_json(to_json(program)), program);
}

TEST(ProgramJson, KeepsWhatComputesNumbers) {
  using enum IntegerKind;
  Program program{.values = {{}}, .inputs = {}, .outputs = {0}};
  for (const IntegerKind kind :
       {Add, Subtract, Multiply, FloorDivide, Remainder, Minimum, Maximum, Index, Border})
    program.integers.push_back({.kind = kind, .left = 7, .right = 2});
  program.operations = {{.kind = Kind::Number,
                         .output = 0,
                         .post_ops = {{.kind = PostOpKind::Square}},
                         .number = Extent::of_integer(8)}};
  EXPECT_EQ(program_from_json(to_json(program)), program);
}

TEST(ProgramJson, WritesComputedNumbersAsRows) {
  Program program{.integers = {{.kind = IntegerKind::Multiply, .left = Extent::of_integer(0), .right = 4}}};
  program.operations = {{.kind = Kind::Reshape, .shape = {0, Extent::of_integer(3)}}};
  const auto text = to_json(program);
  EXPECT_THAT(text, HasSubstr(R"("integers":[{"kind":"multiply","left":{"integer":0},"right":4}])"));
  EXPECT_THAT(text, HasSubstr(R"("shape":[0,{"integer":3}])"));
}

TEST(ProgramJson, RefusesANewerVersionWithTheVersionsThatItReads) {
  EXPECT_THAT(fault_of(R"({"version": 99})"), HasSubstr("version is 99, and this library reads 1 to 1"));
}

TEST(ProgramJson, RefusesWhatItDoesNotKnow) {
  const std::string head =
      R"({"version": 1, "inputs": [0], "outputs": [1], "values": [{"dtype": "f32"}, {"dtype": "f32"}],)";
  EXPECT_THAT(fault_of(head + R"("operations": [{"kind": "fold", "inputs": [0], "output": 1}]})"),
              HasSubstr("operation 0: kind 'fold' is unknown"));
  EXPECT_THAT(
      fault_of(head + R"("operations": [{"kind": "softmax", "inputs": [0], "output": 1, "groups": 2}]})"),
      HasSubstr("operation 0 (softmax): it has no member 'groups'"));
  EXPECT_THAT(fault_of(head + R"("operations": [{"kind": "softmax", "inputs": 0, "output": 1}]})"),
              HasSubstr("'inputs' is 0, of another type"));
  EXPECT_THAT(
      fault_of(
          R"({"version": 1, "values": [{"dtype": "u9"}], "inputs": [], "outputs": [], "operations": []})"),
      HasSubstr("value 0: dtype 'u9' is unknown"));
  EXPECT_THAT(fault_of("[1"), HasSubstr("it is no JSON"));
}

}  // namespace program_json_test
}  // namespace tsq::runtime::test
