// The operations of a fused program, as they run.
#include "backends/kernels/program_work.h"

#include <gmock/gmock.h>

namespace tsq::kernels {
namespace program_work_test {

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

/// Codes of an image, a pool where `is_after_layer`, and its channels shuffled.
runtime::Model shuffle(bool is_after_layer) {
  const runtime::Value codes{.dtype = Dtype::U8, .scale = 0.1, .zero_point = 3};
  runtime::Model model;
  model.program.values = {{}, codes};
  model.program.inputs = {0};
  model.program.operations = {{.kind = Kind::Convert, .inputs = {0}, .output = 1}};
  const auto add = [&](runtime::Operation operation) {
    operation.inputs = {static_cast<int>(model.program.values.size()) - 1};
    operation.output = static_cast<int>(model.program.values.size());
    model.program.values.push_back(codes);
    model.program.operations.push_back(std::move(operation));
  };
  if (is_after_layer) add({.kind = Kind::MaxPool, .kernel = {1, 1}, .stride = {1, 1}});
  add({.kind = Kind::Reshape, .shape = {1, 2, 4, 6, 6}});
  add({.kind = Kind::Permute, .order = {0, 2, 1, 3, 4}});
  add({.kind = Kind::Reshape, .shape = {1, 8, 6, 6}});
  model.program.outputs = {static_cast<int>(model.program.values.size()) - 1};
  return model;
}

TEST(ProgramWork, ShuffledChannelsAreCopiedAndTurnedAfterALayer) {
  for (const bool is_after_layer : {false, true}) {
    const auto operations = operations_of_program(shuffle(is_after_layer), {{1, 8, 6, 6}}, {});
    EXPECT_EQ(operations[operations.size() - 2].name, "view");
    EXPECT_EQ(operations.back().name, "int8 permuted copy");
    EXPECT_EQ(operations.back().work.is_turned, is_after_layer);
  }
}

TEST(ProgramWork, AConcatenationCopiesTheLinesOfEachOfItsParts) {
  runtime::Model model = shuffle(/*is_after_layer=*/true);
  model.program.operations.resize(2);
  runtime::Value others = model.program.values[1];
  others.scale = 0.2;
  model.program.values = {{}, model.program.values[1], model.program.values[1], others};
  model.program.operations.push_back({.kind = Kind::Concat, .inputs = {2, 2}, .output = 3, .axis = 1});
  model.program.outputs = {3};
  const auto operations = operations_of_program(model, {{1, 8, 6, 6}}, {});
  EXPECT_EQ(operations.back().name, "requantizing concat");
  EXPECT_TRUE(operations.back().work.is_channels_last);
  EXPECT_EQ(operations.back().work.lines, 2 * 36);
}

}  // namespace program_work_test
}  // namespace tsq::kernels
