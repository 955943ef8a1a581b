// Arithmetic, functions, reductions and normalizations in any mix of float and int8, against the reference.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/cases.h"
#include "runtime/program/error.h"

namespace tsq::runtime::test {
namespace arithmetic_test {

/// A pool that changes nothing writes a value so.
int channels_last(Writer& writer, int value, const Value& type) {
  return writer.add({.kind = Kind::MaxPool, .inputs = {value}, .kernel = {1, 1}}, type);
}

TEST(Arithmetic, ComputesWithTwoTensors) {
  for_random_cases(
      [](Random& random) {
        const auto sizes = image(random, 2, random.integer(1, 20));
        const Value left = random_value(random, any_dtype(random));
        const Value right = random_value(random, any_dtype(random));
        Writer writer;
        Operation operation{.kind = random.any_of<Kind>(
                                {Kind::Add, Kind::Sub, Kind::Mul, Kind::Div, Kind::Maximum, Kind::Minimum})};
        const auto other = random.any_of<Shape>({sizes, {sizes[0], sizes[1], 1, 1}, {}, {sizes[3]}});
        std::vector<Tensor> inputs{random_tensor(random, left.dtype, sizes)};
        operation.inputs = {writer.input(left)};
        const auto numbers = random_tensor(random, right.dtype, other);
        if (random.coin()) {
          operation.inputs.push_back(writer.constant_value(right, numbers));
        } else {
          operation.inputs.push_back(writer.input(right));
          inputs.push_back(numbers);
        }
        if (random.coin()) std::swap(operation.inputs[0], operation.inputs[1]);
        if (random.coin()) operation.post_ops = {{.kind = PostOpKind::Clamp, .alpha = -1, .beta = 2.5}};
        writer.returns({writer.add(operation, output_value(random, any_dtype(random), 3))});
        expect_right(writer, inputs);
      },
      120);
}

TEST(Arithmetic, ComparesTwoTensors) {
  struct Comparison {
    Kind kind;
    std::vector<double> of_smaller_equal_and_larger;
  };
  const Tensor left{Dtype::F32, {3}, {-1, 2, 5}};
  const Tensor right{Dtype::F32, {3}, {0, 2, 4}};
  for (const Comparison& each : std::vector<Comparison>{{Kind::Equal, {0, 1, 0}},
                                                        {Kind::NotEqual, {1, 0, 1}},
                                                        {Kind::Less, {1, 0, 0}},
                                                        {Kind::LessEqual, {1, 1, 0}}}) {
    Writer writer;
    const int first = writer.input({});
    const int second = writer.input({});
    writer.returns({writer.add({.kind = each.kind, .inputs = {first, second}}, {})});
    LoadedProgram program(writer.model);
    EXPECT_EQ(run(program, {left, right}).front().numbers, each.of_smaller_equal_and_larger);
  }
}

TEST(Arithmetic, ReadsANumberOfTheCall) {
  Writer writer;
  const int input = writer.input({});
  const Extent count = writer.integer({.kind = IntegerKind::Size, .value = input, .axis = 0});
  const int number = writer.add({.kind = Kind::Number, .number = count}, {});
  writer.returns({writer.add({.kind = Kind::Mul, .inputs = {input, number}}, {})});
  LoadedProgram program(writer.model);
  EXPECT_EQ(run(program, {{Dtype::F32, {2}, {3, 4}}}).front().numbers, (std::vector<double>{6, 8}));
}

/// Each function alone, where it is defined.
TEST(Arithmetic, AppliesEachFunction) {
  for_random_cases(
      [](Random& random) {
        for (auto kind = PostOpKind::Relu; kind < PostOpKind::Add;
             kind = static_cast<PostOpKind>(static_cast<int>(kind) + 1)) {
          const bool power = kind == PostOpKind::Pow || kind == PostOpKind::Sqrt ||
                             kind == PostOpKind::Rsqrt || kind == PostOpKind::Log;
          Value input = random_value(random, any_dtype(random));
          if (is_int8(input.dtype) && power) input.zero_point = input.dtype == Dtype::U8 ? 0 : -128;
          auto numbers = random_tensor(random, input.dtype, image(random, 2, 5));
          if (power) {
            for (auto& number : numbers.numbers) {
              number = input.dtype == Dtype::F32 ? std::abs(number) + 0.01
                                                 : std::max(number, input.zero_point + 1.0);
            }
          }
          Operation operation{.kind = Kind::Activation,
                              .post_ops = {{.kind = kind, .alpha = random.real(0.1, 2.5), .beta = 3}}};
          expect_right(single(operation, input, output_value(random, any_dtype(random), 2)), {numbers});
          if (testing::Test::HasFailure()) FAIL() << "function " << static_cast<int>(kind);
        }
      },
      8);
}

TEST(Arithmetic, AppliesEachFunctionToProducts) {
  for_random_cases(
      [](Random& random) {
        for (const auto kind : {PostOpKind::Linear, PostOpKind::Neg, PostOpKind::Square, PostOpKind::Abs,
                                PostOpKind::Softplus, PostOpKind::Mish, PostOpKind::Exp}) {
          Writer writer;
          const Value input{.dtype = Dtype::U8, .scale = 0.01, .zero_point = 100};
          Operation operation{.kind = Kind::Linear, .inputs = {writer.input(input)}};
          add_weights(random, writer, operation, {7, 12}, 7);
          if (random.coin()) operation.post_ops.push_back({.kind = PostOpKind::Relu});
          operation.post_ops.push_back({.kind = kind, .alpha = random.real(-1, 2), .beta = 0.7});
          writer.returns({writer.add(operation, output_value(random, any_dtype(random), 3))});
          expect_right(writer, {random_tensor(random, Dtype::U8, {5, 12})});
        }
      },
      8);
}

TEST(Arithmetic, ScalesChannels) {
  for_random_cases(
      [](Random& random) {
        const bool slopes = random.coin();
        const auto channels = random.any_of<std::int64_t>({1, 3, 6, 12, 17, 24, 70});
        const auto sizes = image(random, static_cast<std::size_t>(random.integer(0, 2)), channels);
        const Value input = random_value(random, any_dtype(random));
        Writer writer;
        Operation operation{.kind = slopes ? Kind::Prelu : Kind::ScaleShift, .inputs = {writer.input(input)}};
        operation.axis = 1;
        const bool one = slopes && random.coin();
        if (slopes || random.coin()) {
          operation.weight = writer.constant(random_tensor(random, Dtype::F32, {one ? 1 : channels}));
        }
        if (!slopes && random.coin()) {
          operation.bias = writer.constant(random_tensor(random, Dtype::F32, {channels}));
        }
        if (!slopes && random.coin()) operation.post_ops.push_back({.kind = PostOpKind::Relu});
        if (!slopes && random.coin())
          operation.post_ops.push_back({.kind = PostOpKind::Clamp, .alpha = -0.5, .beta = 0.75});
        int read = operation.inputs[0];
        if (sizes.size() == 4 && random.coin()) {
          read = channels_last(writer, read, input);
        }
        operation.inputs = {read};
        writer.returns({writer.add(operation, output_value(random, any_dtype(random), 3))});
        expect_right(writer, {random_tensor(random, input.dtype, sizes)});
      },
      120);
}

/// What is joined along channels is copied row by row, into rows with gaps.
TEST(Arithmetic, ConvertsRowsOfAnyLength) {
  for_random_cases(
      [](Random& random) {
        Writer writer;
        Operation operation{.kind = Kind::Concat, .axis = 1};
        std::vector<Tensor> tensors;
        const auto pixels = random.integer(1, 5);
        for (int part = 0; part < 2; ++part) {
          const Value input = random_value(random, any_dtype(random));
          operation.inputs.push_back(channels_last(writer, writer.input(input), input));
          tensors.push_back(random_tensor(random, input.dtype, {2, random.integer(1, 40), 3, pixels}));
        }
        writer.returns({writer.add(operation, output_value(random, any_dtype(random), 2))});
        expect_right(writer, tensors);
      },
      200);
}

/// A batch norm of what is joined: parts of other scales are rounded to the concatenation's on the way. Other
/// operations read a part too, also after the concatenation.
TEST(Arithmetic, ScalesChannelsOfAConcatenation) {
  for_random_cases(
      [](Random& random) {
        Writer writer;
        Operation concat{.kind = Kind::Concat, .axis = 1};
        std::vector<Tensor> tensors;
        std::vector<Value> values;
        std::int64_t channels = 0;
        for (int part = 0; part < 3; ++part) {
          const Value input = random_value(random, any_dtype(random));
          values.push_back(input);
          concat.inputs.push_back(channels_last(writer, writer.input(input), input));
          tensors.push_back(random_tensor(random, input.dtype, {2, random.integer(1, 40), 3, 5}));
          channels += tensors.back().sizes[1];
        }
        const Value joined = random.coin() ? values[1] : output_value(random, any_dtype(random), 2);
        const int read = writer.add(concat, joined);
        std::vector<int> returned;
        if (random.coin()) {
          const Operation relu{.kind = Kind::Activation,
                               .inputs = {concat.inputs[0]},
                               .post_ops = {{.kind = PostOpKind::Relu}}};
          returned.push_back(writer.add(relu, values[0]));
        }
        Operation operation{.kind = Kind::ScaleShift, .inputs = {read}, .axis = 1};
        operation.weight = writer.constant(random_tensor(random, Dtype::F32, {channels}));
        operation.bias = writer.constant(random_tensor(random, Dtype::F32, {channels}));
        if (random.coin()) operation.post_ops.push_back({.kind = PostOpKind::Relu});
        const Value output = output_value(random, any_dtype(random), 3);
        returned.push_back(writer.add(operation, output));
        if (random.coin()) {
          returned.back() =
              writer.add({.kind = Kind::MaxPool, .inputs = {returned.back()}, .kernel = {1, 1}}, output);
        }
        if (random.integer(0, 5) == 0) returned.push_back(read);
        writer.returns(returned);
        expect_right(writer, tensors);
      },
      100);
}

TEST(Arithmetic, ReducesOverAnyAxes) {
  for_random_cases(
      [](Random& random) {
        const Value input = random_value(random, any_dtype(random));
        Writer writer;
        int read = writer.input(input);
        if (random.coin()) read = channels_last(writer, read, input);
        Operation operation{.kind = random.any_of<Kind>({Kind::Mean, Kind::Sum, Kind::Amax, Kind::Amin}),
                            .inputs = {read}};
        operation.keep_dims = random.coin();
        operation.axes = random.any_of<Shape>({{}, {-1}, {1}, {2, 3}, {-1, -2}, {0, 2}, {1, 2, 3}, {0}});
        const double spread = operation.kind == Kind::Sum ? 20 : 1;
        writer.returns({writer.add(operation, output_value(random, any_dtype(random), spread))});
        const auto channels = random.any_of<std::int64_t>({3, 64, 70});
        expect_right(writer, {random_tensor(random, input.dtype, image(random, 2, channels))});
      },
      120);
}

TEST(Arithmetic, PoolsToASize) {
  for_random_cases(
      [](Random& random) {
        const auto dimensions = static_cast<std::size_t>(random.integer(1, 3));
        Operation operation{.kind = random.coin() ? Kind::AdaptiveAvgPool : Kind::AdaptiveMaxPool};
        const bool one = random.integer(0, 4) == 0;
        for (std::size_t d = 0; d < dimensions; ++d)
          operation.size.emplace_back(one ? 1 : random.integer(1, 8));
        const Value input = random_value(random, any_dtype(random));
        expect_right(single(operation, input, random_value(random, any_dtype(random))),
                     {random_tensor(random, input.dtype,
                                    image(random, dimensions, random.any_of<std::int64_t>({3, 70})))});
      },
      60);
}

TEST(Arithmetic, PoolsToAPartOfTheSizeWithTheKernelOfPools) {
  Random random(1);
  const auto writer = single({.kind = Kind::AdaptiveAvgPool, .size = {2, 3}}, float_value(), float_value());
  LoadedProgram program(writer.model);
  const auto inputs = {random_tensor(random, Dtype::F32, {1, 4, 6, 6})};
  EXPECT_FALSE(compile(program, inputs)->steps().front().implementation.starts_with("tsq:adaptive"));
}

TEST(Arithmetic, NormalizesGroups) {
  for_random_cases([](Random& random) {
    const Value input = random_value(random, any_dtype(random));
    Writer writer;
    int read = writer.input(input);
    const bool pooled = random.coin();
    if (pooled) read = channels_last(writer, read, input);
    Operation operation{
        .kind = Kind::GroupNorm, .inputs = {read}, .groups = random.any_of<std::int64_t>({1, 2, 8})};
    if (random.coin()) operation.weight = writer.constant(random_tensor(random, Dtype::F32, {8}));
    if (random.coin()) operation.bias = writer.constant(random_tensor(random, Dtype::F32, {8}));
    writer.returns({writer.add(operation, output_value(random, any_dtype(random), 4))});
    const auto sizes = pooled || random.coin() ? image(random, 2, 8) : Shape{2, 8, 33};
    expect_right(writer, {random_tensor(random, input.dtype, pooled ? image(random, 2, 8) : sizes)});
  });
}

TEST(Arithmetic, PadsWithANumber) {
  for_random_cases([](Random& random) {
    const Value input = random_value(random, any_dtype(random));
    Writer writer;
    int read = writer.input(input);
    if (random.coin()) read = channels_last(writer, read, input);
    Operation operation{.kind = Kind::Pad, .inputs = {read}};
    const auto padded = random.integer(1, 3);
    for (std::int64_t d = 0; d < padded; ++d) {
      operation.padding_begin.push_back(random.integer(0, 2));
      operation.padding_end.push_back(random.integer(0, 2));
    }
    operation.fill = random.coin() ? 0 : 0.5;
    const Value output = random.coin() ? input : random_value(random, any_dtype(random));
    writer.returns({writer.add(operation, output)});
    expect_right(writer, {random_tensor(random, input.dtype, image(random, 2, random.integer(1, 20)))});
  });
}

TEST(Arithmetic, ReadsRowsOfAnEmbedding) {
  Random random(1);
  for (const auto dtype : {Dtype::F32, Dtype::U8, Dtype::S8}) {
    Writer writer;
    const Value rows{.dtype = Dtype::I64};
    const int moved = writer.add({.kind = Kind::Transpose, .inputs = {writer.input(rows)}}, rows);
    Operation operation{.kind = Kind::Embedding, .inputs = {moved}};
    operation.weight = writer.constant(random_tensor(random, Dtype::F32, {9, 20}));
    writer.returns({writer.add(operation, output_value(random, dtype, 3))});
    expect_right(writer, {{Dtype::I64, {2, 3}, {0, 8, 4, 4, 7, 1}}});
    LoadedProgram program(writer.model);
    EXPECT_THROW((void)run(program, {{Dtype::I64, {1, 2}, {0, 9}}}), ProgramError);
    EXPECT_THROW((void)run(program, {{Dtype::I64, {1, 2}, {-1, 0}}}), ProgramError);
  }
}

TEST(Arithmetic, ReadsRowsOfCodes) {
  for_random_cases([](Random& random) {
    Writer writer;
    Operation operation{.kind = Kind::Embedding, .inputs = {writer.input({.dtype = Dtype::I64})}};
    const auto length = random.any_of<std::int64_t>({1, 20, 600});
    operation.weight = writer.constant(random_tensor(random, any_int8(random), {9, length}));
    operation.weight_scales = writer.constant(random_tensor(random, Dtype::F32, {9}));
    if (random.coin()) operation.bias = writer.constant(random_tensor(random, Dtype::F32, {9}));
    writer.returns({writer.add(operation, output_value(random, any_dtype(random), 3))});
    expect_right(writer, {{Dtype::I64, {2, 3}, {0, 8, 4, 4, 7, 1}}});
  });
}

/// A truth value chooses; what is not chosen may be infinite.
TEST(Arithmetic, ChoosesByAMaskThatBroadcasts) {
  for_random_cases([](Random& random) {
    Writer writer;
    const Value input = random_value(random, any_dtype(random));
    const Value mask{.dtype = Dtype::U8};
    const int infinity =
        writer.constant_value(float_value(), {Dtype::F32, {1}, {-std::numeric_limits<double>::infinity()}});
    const auto masks = random.any_of<Shape>({{2, 1, 1, 9}, {5, 9}, {2, 3, 5, 9}});
    Operation operation{.kind = Kind::Where, .inputs = {writer.input(mask), infinity, writer.input(input)}};
    writer.returns({writer.add(operation, float_value())});
    Tensor truths{Dtype::U8, masks, {}};
    for (std::int64_t i = 0; i < elements_of(masks); ++i) truths.numbers.push_back(random.coin() ? 1 : 0);
    expect_right(writer, {truths, random_tensor(random, input.dtype, {2, 3, 5, 9})});
  });
}

/// The scores of attention, divided by a number and masked for each image.
TEST(Arithmetic, AddsMasksToProducts) {
  for_random_cases(
      [](Random& random) {
        const bool in_float = random.coin();
        const Value left = in_float ? float_value() : random_value(random, Dtype::U8);
        const Value right = in_float ? float_value() : random_value(random, Dtype::S8);
        Writer writer;
        const auto batch = random.integer(1, 2);
        Operation operation{.kind = Kind::Matmul, .inputs = {writer.input(left), writer.input(right)}};
        std::vector<Tensor> inputs{random_tensor(random, left.dtype, {batch, 3, 6, 8}),
                                   random_tensor(random, right.dtype, {batch, 3, 8, 7})};
        operation.post_ops.push_back({.kind = PostOpKind::Linear, .alpha = 0.25});
        const Value mask = random_value(random, random.coin() ? Dtype::F32 : Dtype::U8);
        operation.post_ops.push_back({.kind = PostOpKind::Add, .value = writer.input(mask)});
        inputs.push_back(random_tensor(random, mask.dtype,
                                       random.any_of<Shape>({{batch, 1, 1, 7},
                                                             {1, 1, 6, 7},
                                                             {6, 1},
                                                             {3, 1, 1},
                                                             {batch, 1, 6, 7},
                                                             {},
                                                             {batch, 3, 6, 7}})));
        writer.returns({writer.add(operation, output_value(random, any_dtype(random), 4))});
        expect_right(writer, inputs);
      },
      80);
}

}  // namespace arithmetic_test
}  // namespace tsq::runtime::test
