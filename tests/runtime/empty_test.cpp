// Tensors without elements: every kind of operation returns what it would in PyTorch, or refuses what PyTorch
// refuses.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "runtime/cases.h"
#include "runtime/program/error.h"
#include "runtime/program/operation_table.h"
#include "runtime/reference.h"
#include "runtime/support.h"

namespace tsq::runtime::test {
namespace empty_test {

/// One operation of a kind and the sizes of its inputs.
struct Case {
  Operation operation{};
  std::vector<Shape> inputs{};
  Shape weight{};           ///< int8, if there is one
  std::int64_t channels{};  ///< of the weight
};

/// Sizes of which one or more are 0.
Shape with_zeros(Random& random, Shape sizes, std::size_t first = 0, std::size_t last = 99) {
  last = std::min(last, sizes.size() - 1);
  sizes[static_cast<std::size_t>(
      random.integer(static_cast<std::int64_t>(first), static_cast<std::int64_t>(last)))] = 0;
  return sizes;
}

/// Images without a batch: other dimensions may not be empty in PyTorch.
Case image_case(Kind kind) {
  Case made{.operation = {.kind = kind}, .inputs = {{0, 8, 6, 6}}};
  switch (kind) {
    case Kind::Convolution:
      made.weight = {12, 8, 3, 3};
      break;
    case Kind::TransposedConvolution:
      made.weight = {8, 12, 3, 3};
      break;
    case Kind::MaxPool:
    case Kind::AvgPool:
      made.operation.kernel = {2, 2};
      break;
    case Kind::AdaptiveAvgPool:
    case Kind::AdaptiveMaxPool:
      made.operation.size = {4, 3};
      break;
    case Kind::ResizeNearest:
    case Kind::ResizeBilinear:
      made.operation.scale_factors = {2, 2};
      break;
    default:
      break;
  }
  made.channels = 12;
  return made;
}

Case case_of(Kind kind, Random& random) {
  const Shape plain = with_zeros(random, {3, 4, 6});
  Case made{.operation = {.kind = kind}, .inputs = {plain}};
  auto& operation = made.operation;
  switch (kind) {
    case Kind::Linear:
      return {{.kind = kind}, {with_zeros(random, {2, 3, 8}, 0, 1)}, {5, 8}, 5};
    case Kind::Matmul: {
      const auto batch = random.integer(0, 1) * 2;
      const auto inner = random.integer(0, 1) * 4;
      made.inputs = {{batch, 3, inner}, {batch, inner, inner == 0 ? 5 : random.integer(0, 2)}};
      return made;
    }
    case Kind::Attention: {
      const auto keys = random.integer(0, 1) * 4;
      made.inputs = {{2, keys == 0 ? 3 : 0, 8}, {2, keys, 8}, {2, keys, 8}};
      return made;
    }
    case Kind::Lstm:
    case Kind::Gru:
      made.inputs = {{3, 0, 8}};
      return made;
    case Kind::Add:
    case Kind::Sub:
    case Kind::Mul:
    case Kind::Div:
    case Kind::Maximum:
    case Kind::Minimum:
    case Kind::Equal:
    case Kind::NotEqual:
    case Kind::Less:
    case Kind::LessEqual:
      made.inputs.push_back(random.coin() ? plain : Shape{1, 1});
      return made;
    case Kind::Where:
      made.inputs = {plain, {1}, plain};
      return made;
    case Kind::Concat:
      operation.axis = 1;
      made.inputs = {{2, 0, 3}, random.coin() ? Shape{2, 4, 3} : Shape{2, 0, 3}, {0}};
      return made;
    case Kind::Mean:
    case Kind::Sum:
      operation.axes = random.any_of<Shape>({{0}, {1}, {-1}, {0, 2}, {}});
      operation.keep_dims = random.coin();
      return made;
    case Kind::Amax:
    case Kind::Amin:
      operation.axes = {2};
      made.inputs = {with_zeros(random, {3, 4, 6}, 0, 1)};
      return made;
    case Kind::Pad:
      operation.fill = 2;
      operation.padding_begin = {1, 0};
      operation.padding_end = {0, 2};
      return made;
    case Kind::Softmax:
    case Kind::LogSoftmax:
      operation.axis = random.integer(0, 2);
      return made;
    case Kind::GroupNorm:
      operation.groups = 2;
      made.inputs = {random.coin() ? Shape{0, 4, 6} : Shape{3, 4, 0}};
      return made;
    case Kind::Activation:
      operation.post_ops = {any_function(random)};
      return made;
    case Kind::Reshape:
      made.inputs = {{4, 0, 6}};
      operation.shape = {2, 2, random.coin() ? -1 : 0};
      if (operation.shape[2].number == 0) made.inputs = {{4, 3, 0}};
      return made;
    case Kind::Permute:
      operation.order = {2, 0, 1};
      return made;
    case Kind::Unsqueeze:
    case Kind::Squeeze:
    case Kind::ScaleShift:
      operation.axis = 1;
      return made;
    case Kind::Flatten:
      operation.axis = 1;
      operation.end_axis = 2;
      return made;
    case Kind::Unflatten:
      operation.axis = 2;
      operation.shape = {3, -1};
      return made;
    case Kind::Expand:
      made.inputs = {{1, 3}};
      operation.shape = {2, 0, 3};
      return made;
    case Kind::Slice:
      operation.axis = 1;
      operation.begin = random.integer(0, 3);
      operation.end = random.integer(0, 9);
      return made;
    case Kind::Convolution:
    case Kind::TransposedConvolution:
    case Kind::MaxPool:
    case Kind::AvgPool:
    case Kind::GlobalAvgPool:
    case Kind::AdaptiveAvgPool:
    case Kind::AdaptiveMaxPool:
    case Kind::ResizeNearest:
    case Kind::ResizeBilinear:
      return image_case(kind);
    default:
      return made;
  }
}

void add_gates(Random& random, Writer& writer, Operation& operation) {
  const std::int64_t gates = operation.kind == Kind::Lstm ? 16 : 12;
  operation.weight = writer.constant(random_tensor(random, Dtype::F32, {gates, 8}));
  operation.recurrent_weight = writer.constant(random_tensor(random, Dtype::F32, {gates, 4}));
}

/// The operation between others, so that what it reads and writes is no border of the program.
Writer written(Random& random, Case made, Dtype dtype) {
  Writer writer;
  const bool reads_rows = made.operation.kind == Kind::Embedding;
  const Value type = reads_rows ? Value{.dtype = Dtype::I64} : random_value(random, dtype);
  for (std::size_t i = 0; i < made.inputs.size(); ++i) {
    const int input = writer.input(type);
    made.operation.inputs.push_back(
        reads_rows ? input : writer.add({.kind = Kind::Convert, .inputs = {input}}, type));
  }
  if (!made.weight.empty()) add_weights(random, writer, made.operation, made.weight, made.channels);
  if (runtime::is_recurrent(made.operation.kind)) add_gates(random, writer, made.operation);
  if (reads_rows) made.operation.weight = writer.constant(random_tensor(random, Dtype::F32, {5, 3}));
  if (made.operation.kind == Kind::Prelu)
    made.operation.weight = writer.constant(random_tensor(random, Dtype::F32, {1}));
  const bool writes_truths = made.operation.kind >= Kind::Equal && made.operation.kind <= Kind::LessEqual;
  const bool moves = is_view(made.operation.kind) || made.operation.kind == Kind::MaxPool;
  const Value output = writes_truths ? Value{.dtype = Dtype::U8} : moves ? type : random_value(random, dtype);
  const int result = writer.add(made.operation, output);
  writer.returns({result, writer.add({.kind = Kind::Convert, .inputs = {result}}, float_value())});
  return writer;
}

TEST(Empty, EveryKindOfOperationComputesNothing) {
  for (const auto& row : operation_table()) {
    if (row.kind == Kind::Number) continue;  // reads no tensor
    SCOPED_TRACE(std::string(row.name));
    for_random_cases([&](Random& random) {
      const Case made = case_of(row.kind, random);
      const Dtype dtype = any_dtype(random);
      const Writer writer = written(random, made, dtype);
      std::vector<Tensor> inputs;
      for (std::size_t i = 0; i < made.inputs.size(); ++i) {
        const auto& value =
            writer.model.program.values[static_cast<std::size_t>(writer.model.program.inputs[i])];
        inputs.push_back(random_tensor(random, value.dtype, made.inputs[i]));
      }
      expect_right(writer, inputs);
    });
  }
}

/// What an operation is in ATen.
struct Row {
  const char* name;
  Operation operation;
  std::vector<Shape> inputs;
  std::function<at::Tensor(const std::vector<at::Tensor>&)> aten;
};

/// The shape and the numbers that ATen returns; none where it refuses.
std::optional<at::Tensor> by_aten(const Row& row) {
  std::vector<at::Tensor> inputs;
  for (const auto& sizes : row.inputs) inputs.push_back(at::zeros(sizes));
  try {
    return row.aten(inputs);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::optional<Tensor> by_program(const Row& row) {
  Writer writer;
  Operation operation = row.operation;
  std::vector<Tensor> inputs;
  for (const auto& sizes : row.inputs) {
    operation.inputs.push_back(writer.input(float_value()));
    inputs.push_back({Dtype::F32, sizes, std::vector<double>(static_cast<std::size_t>(elements_of(sizes)))});
  }
  writer.returns({writer.add(operation, float_value())});
  LoadedProgram program(writer.model);
  try {
    return run(program, inputs).front();
  } catch (const ProgramError&) {
    return std::nullopt;
  }
}

TEST(Empty, WhatPyTorchRefusesIsRefused) {
  using Tensors = std::vector<at::Tensor>;
  std::vector<Row> rows;
  for (const Shape& sizes : {Shape{0, 3}, Shape{3, 0}, Shape{0, 0}}) {
    for (const std::int64_t axis : {0, 1}) {
      rows.push_back({"amax", {.kind = Kind::Amax, .axes = {axis}}, {sizes}, [axis](const Tensors& x) {
                        return at::amax(x[0], axis);
                      }});
      rows.push_back({"amin", {.kind = Kind::Amin, .axes = {axis}}, {sizes}, [axis](const Tensors& x) {
                        return at::amin(x[0], axis);
                      }});
      rows.push_back({"mean", {.kind = Kind::Mean, .axes = {axis}}, {sizes}, [axis](const Tensors& x) {
                        return at::mean(x[0], axis);
                      }});
      rows.push_back({"sum", {.kind = Kind::Sum, .axes = {axis}}, {sizes}, [axis](const Tensors& x) {
                        return at::sum(x[0], axis);
                      }});
      rows.push_back({"softmax", {.kind = Kind::Softmax, .axis = axis}, {sizes}, [axis](const Tensors& x) {
                        return at::softmax(x[0], axis);
                      }});
    }
    rows.push_back(
        {"amax of all", {.kind = Kind::Amax}, {sizes}, [](const Tensors& x) { return at::amax(x[0]); }});
    rows.push_back(
        {"mean of all", {.kind = Kind::Mean}, {sizes}, [](const Tensors& x) { return at::mean(x[0]); }});
    rows.push_back({"pad",
                    {.kind = Kind::Pad, .padding_begin = {1}, .padding_end = {2}, .fill = 5},
                    {sizes},
                    [](const Tensors& x) {
                      return at::constant_pad_nd(x[0], {1, 2}, 5);
                    }});
    if (sizes[0] > 0) {
      rows.push_back({"view [3, -1]",
                      {.kind = Kind::Reshape, .shape = {sizes[0], -1}},
                      {sizes},
                      [sizes](const Tensors& x) {
                        return x[0].view({sizes[0], -1});
                      }});
    }
    rows.push_back({"view [-1, 3]", {.kind = Kind::Reshape, .shape = {-1, 3}}, {sizes}, [](const Tensors& x) {
                      return x[0].view({-1, 3});
                    }});
    rows.push_back({"expand", {.kind = Kind::Expand, .shape = {5, -1, -1}}, {sizes}, [](const Tensors& x) {
                      return x[0].expand({5, -1, -1});
                    }});
    for (const Shape& other : {Shape{1, 3}, Shape{1, 1}, Shape{3}, Shape{5, 1}, Shape{0}}) {
      rows.push_back(
          {"add", {.kind = Kind::Add}, {sizes, other}, [](const Tensors& x) { return x[0] + x[1]; }});
      rows.push_back({"cat", {.kind = Kind::Concat, .axis = 0}, {sizes, other}, [](const Tensors& x) {
                        return at::cat({x[0], x[1]}, 0);
                      }});
      rows.push_back({"cat", {.kind = Kind::Concat, .axis = -1}, {other, sizes}, [](const Tensors& x) {
                        return at::cat({x[0], x[1]}, -1);
                      }});
      if (other.size() > 1)
        rows.push_back({"matmul", {.kind = Kind::Matmul}, {sizes, other}, [](const Tensors& x) {
                          return at::matmul(x[0], x[1]);
                        }});
    }
  }
  for (const Shape& sizes :
       {Shape{0, 3, 4, 4}, Shape{1, 0, 4, 4}, Shape{1, 3, 0, 4}, Shape{0, 3, 1, 1}, Shape{0, 0, 4, 4}}) {
    rows.push_back({"max_pool", {.kind = Kind::MaxPool, .kernel = {2, 2}}, {sizes}, [](const Tensors& x) {
                      return at::max_pool2d(x[0], 2);
                    }});
    rows.push_back({"avg_pool", {.kind = Kind::AvgPool, .kernel = {2, 2}}, {sizes}, [](const Tensors& x) {
                      return at::avg_pool2d(x[0], 2);
                    }});
    for (const std::int64_t size : {1, 2, 3}) {
      rows.push_back({"adaptive_avg_pool",
                      {.kind = Kind::AdaptiveAvgPool, .size = {size, size}},
                      {sizes},
                      [size](const Tensors& x) {
                        return at::adaptive_avg_pool2d(x[0], {size, size});
                      }});
      rows.push_back({"adaptive_max_pool",
                      {.kind = Kind::AdaptiveMaxPool, .size = {size, size}},
                      {sizes},
                      [size](const Tensors& x) {
                        return std::get<0>(at::adaptive_max_pool2d(x[0], {size, size}));
                      }});
    }
    rows.push_back(
        {"nearest", {.kind = Kind::ResizeNearest, .scale_factors = {2, 2}}, {sizes}, [](const Tensors& x) {
           return at::upsample_nearest2d(x[0], std::nullopt, std::vector<double>{2, 2});
         }});
    rows.push_back(
        {"bilinear", {.kind = Kind::ResizeBilinear, .size = {4, 4}}, {sizes}, [](const Tensors& x) {
           return at::upsample_bilinear2d(x[0], {4, 4}, false);
         }});
    rows.push_back({"resized to nothing",
                    {.kind = Kind::ResizeNearest, .scale_factors = {.1, .1}},
                    {sizes},
                    [](const Tensors& x) {
                      return at::upsample_nearest2d(x[0], std::nullopt, std::vector<double>{.1, .1});
                    }});
    rows.push_back(
        {"attention", {.kind = Kind::Attention, .alpha = 0}, {sizes, sizes, sizes}, [](const Tensors& x) {
           return at::scaled_dot_product_attention(x[0], x[1], x[2]);
         }});
  }
  std::set<bool> seen;
  for (const auto& row : rows) {
    std::string inputs;
    for (const auto& sizes : row.inputs) inputs += " " + to_text(sizes);
    SCOPED_TRACE(row.name + inputs);
    const auto expected = by_aten(row);
    const auto got = by_program(row);
    seen.insert(expected.has_value());
    ASSERT_EQ(got.has_value(), expected.has_value());
    if (!got) continue;
    ASSERT_EQ(got->sizes, expected->sizes().vec());
    const auto numbers = expected->contiguous();
    for (std::size_t i = 0; i < got->numbers.size(); ++i) {
      const double number = numbers.const_data_ptr<float>()[i];
      EXPECT_TRUE(got->numbers[i] == number || (std::isnan(got->numbers[i]) && std::isnan(number)));
    }
  }
  EXPECT_EQ(seen.size(), 2U);
}

/// A network on a batch without images, and on a batch of some right after it.
TEST(Empty, BatchesPassThroughANetwork) {
  LoadedProgram program(small_network(1));
  const Tensor none{Dtype::F32, {0, 3, 8, 8}, {}};
  EXPECT_EQ(run(program, {none}).front().sizes, (Shape{0, 10}));
  EXPECT_EQ(run(program, {none}, 2).front().sizes, (Shape{0, 10}));
  Random random(1);
  EXPECT_EQ(run(program, {random_tensor(random, Dtype::F32, {2, 3, 8, 8})}).front().sizes, (Shape{2, 10}));
}

/// view(x.size(0), n) of no rows has no rows; a 0 that is written keeps a size.
TEST(Empty, SizesThatCallsComputeMayBeZero) {
  Writer writer;
  const int input = writer.input(float_value());
  const auto rows = writer.integer({.kind = IntegerKind::Size, .value = input, .axis = 0});
  writer.returns(
      {writer.add({.kind = Kind::Reshape, .inputs = {input}, .shape = {2, rows, 3}}, float_value())});
  LoadedProgram program(writer.model);
  EXPECT_EQ(run(program, {{Dtype::F32, {0, 6}, {}}}).front().sizes, (Shape{2, 0, 3}));
  // As in PyTorch, -1 could be any size beside them.
  writer.model.program.operations.back().shape = {rows, -1};
  LoadedProgram open(writer.model);
  EXPECT_EQ(run(open, {{Dtype::F32, {1, 6}, {1, 2, 3, 4, 5, 6}}}).front().sizes, (Shape{1, 6}));
  EXPECT_THROW((void)run(open, {{Dtype::F32, {0, 6}, {}}}), ProgramError);
}

}  // namespace empty_test
}  // namespace tsq::runtime::test
