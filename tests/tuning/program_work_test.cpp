// The operations of a fused program, as they run.
#include "backends/kernels/program_work.h"

#include <gmock/gmock.h>

namespace tsq::kernels {
namespace {

using runtime::Dtype;
using runtime::Kind;
using runtime::PostOpKind;
using ::testing::ElementsAre;

/// Codes of an image, a convolution, a ReLU, and codes again.
runtime::Model convolution_with_relu() {
  const runtime::Value codes{.dtype = Dtype::U8, .scale = 0.1, .zero_point = 3};
  runtime::Model model;
  model.program.values = {{}, codes, {}, {}, codes};
  model.program.inputs = {0};
  model.program.outputs = {4};
  model.constants = {{.dtype = Dtype::S8, .shape = {16, 8, 3, 3}}, {.dtype = Dtype::F32, .shape = {16}}};
  model.program.operations = {
      {.kind = Kind::Convert, .inputs = {0}, .output = 1},
      {.kind = Kind::Convolution,
       .inputs = {1},
       .output = 2,
       .weight = 0,
       .weight_scales = 1,
       .padding_begin = {1, 1},
       .padding_end = {1, 1}},
      {.kind = Kind::Activation, .inputs = {2}, .output = 3, .post_ops = {{.kind = PostOpKind::Relu}}},
      {.kind = Kind::Convert, .inputs = {3}, .output = 4}};
  return model;
}

TEST(ProgramWork, IsThatOfOperationsAsTheyAreJoined) {
  const auto operations = operations_of_program(convolution_with_relu(), {{1, 8, 6, 6}}, {});
  ASSERT_EQ(operations.size(), 2U);
  EXPECT_EQ(operations[0].name, "quantize");
  EXPECT_EQ(operations[1].name, "int8 convolution");
  EXPECT_EQ(operations[1].work.rows, 36);
  EXPECT_EQ(operations[1].work.inputs, 8);
  EXPECT_EQ(operations[1].work.outputs, 16);
  EXPECT_EQ(operations[1].work.simple_posts, 16 * 36);
}

}  // namespace
}  // namespace tsq::kernels
