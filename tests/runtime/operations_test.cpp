// Every operation against a reference in double precision, on random shapes: int8 results within one step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/cases.h"
#include "runtime/reference.h"
#include "runtime/support.h"

namespace tsq::runtime::test {
namespace operations_test {

TEST(Operations, ConvertsBetweenDtypesScalesAndLayouts) {
  for_random_cases([](Random& random) {
    const Value from = random_value(random, any_dtype(random));
    Value to = random_value(random, any_dtype(random));
    const auto sizes = image(random, 2, random.any_of<std::int64_t>({1, 3, 5, 70, 130}));
    expect_right(single({.kind = Kind::Convert}, from, to), {random_tensor(random, from.dtype, sizes)});
  });
}

/// From the layout of the caller to that of convolutions, and back.
TEST(Operations, ConvertsAtTheBordersInOnePass) {
  for (const std::int64_t channels : {3, 4, 64, 100}) {
    Random random(1);
    Writer writer;
    const Value middle{.dtype = Dtype::U8, .scale = 0.03, .zero_point = 100};
    const int input = writer.add({.kind = Kind::Convert, .inputs = {writer.input(float_value())}}, middle);
    const int pooled = writer.add({.kind = Kind::MaxPool, .inputs = {input}, .kernel = {1, 1}}, middle);
    writer.returns({writer.add({.kind = Kind::Convert, .inputs = {pooled}}, float_value())});
    const std::vector<Tensor> inputs{random_tensor(random, Dtype::F32, {2, channels, 9, 17})};
    const auto names = implementations(writer, inputs);
    ASSERT_EQ(names.size(), 3U);
    EXPECT_EQ(names.front(), "tsq:convert:tiles");
    EXPECT_EQ(names.back(), "tsq:convert:tiles");
    LoadedProgram program(writer.model);
    const auto output = run(program, inputs).front();
    for (std::size_t i = 0; i < output.numbers.size(); ++i) {
      EXPECT_NEAR(output.numbers[i], inputs[0].numbers[i], 0.0151);
    }
  }
}

void check_convolution(Random& random, std::size_t dimensions, bool transposed) {
  const auto groups = random.any_of<std::int64_t>({1, 1, 2, 4, 8});
  const auto inputs = groups * (groups == 8 ? 1 : random.integer(1, 9));
  const auto outputs = groups * random.integer(1, 9);
  const Value input = random_value(random, any_int8(random));
  Writer writer;
  Operation operation{.kind = transposed ? Kind::TransposedConvolution : Kind::Convolution,
                      .inputs = {writer.input(input)},
                      .groups = groups};
  Shape weight = transposed ? Shape{inputs, outputs / groups} : Shape{outputs, inputs / groups};
  for (std::size_t d = 0; d < dimensions; ++d) {
    weight.push_back(random.integer(1, 3));
    operation.stride.push_back(random.integer(1, 2));
    operation.dilation.push_back(transposed ? 1 : random.integer(1, 2));
    const bool pads = random.coin();
    operation.padding_begin.push_back(pads ? random.integer(0, weight.back() - 1) : 0);
    operation.padding_end.push_back(pads ? random.integer(0, weight.back() - 1) : 0);
    // Output padding, as far as PyTorch allows it.
    if (transposed && random.coin()) operation.padding_end.back() -= operation.stride.back() - 1;
  }
  add_weights(random, writer, operation, weight, outputs);
  if (random.coin()) operation.post_ops.push_back(any_function(random));
  const auto sizes = image(random, dimensions, inputs);
  writer.returns({writer.add(operation, output_value(random, any_dtype(random), 4))});
  expect_right(writer, {random_tensor(random, input.dtype, sizes)});
}

TEST(Operations, ConvolvesOneDimension) {
  for_random_cases([](Random& random) { check_convolution(random, 1, false); });
}
TEST(Operations, ConvolvesTwoDimensions) {
  for_random_cases([](Random& random) { check_convolution(random, 2, false); }, 60);
}
TEST(Operations, ConvolvesThreeDimensions) {
  for_random_cases([](Random& random) { check_convolution(random, 3, false); }, 12);
}
TEST(Operations, ConvolvesTransposed) {
  for_random_cases([](Random& random) {
    check_convolution(random, static_cast<std::size_t>(random.integer(1, 2)), true);
  });
}

TEST(Operations, ConvolvesDepthwise) {
  for_random_cases(
      [](Random& random) {
        const auto channels = random.any_of<std::int64_t>({3, 8, 24, 40, 64, 100, 130});
        const Value input = random_value(random, any_int8(random));
        Writer writer;
        const auto padding = random.integer(0, 3);
        Operation operation{.kind = Kind::Convolution,
                            .inputs = {writer.input(input)},
                            .stride = random.any_of<Shape>({{1, 1}, {2, 2}}),
                            .padding_begin = {padding, padding},
                            .padding_end = {1, 1},
                            .groups = channels};
        const auto kernel = random.any_of<std::int64_t>({3, 5, 7});
        add_weights(random, writer, operation, {channels, 1, kernel, kernel}, channels);
        if (random.coin()) operation.post_ops = {{.kind = PostOpKind::Clamp, .alpha = -1, .beta = 2}};
        operation.bounded = false;  // adds no pairs of products
        writer.returns({writer.add(operation, output_value(random, any_int8(random), 2))});
        const std::vector<Tensor> inputs{
            random_tensor(random, input.dtype,
                          {random.integer(1, 2), channels, random.integer(7, 9), random.integer(7, 40)})};
        expect_right(writer, inputs);
        EXPECT_EQ(LoadedProgram(writer.model).float_operations(), 0);
      },
      80);
}

/// Which post-ops are tried: sums in place and beside, products, functions before and after.
TEST(Operations, FusesPostOpsIntoConvolutions) {
  for_random_cases(
      [](Random& random) {
        const auto channels = random.any_of<std::int64_t>({8, 16, 20});
        const auto sizes = image(random, 2, channels);
        Writer writer;
        const Value input{.dtype = Dtype::U8, .scale = 0.02, .zero_point = random.coin() ? 0 : 110};
        const int pixels = writer.input(input);
        std::vector<Tensor> inputs{random_tensor(random, Dtype::U8, sizes)};
        Operation operation{.kind = Kind::Convolution, .inputs = {pixels}};
        add_weights(random, writer, operation, {channels, channels, 1, 1}, channels);
        const Value output = output_value(random, any_dtype(random), 3);
        // Read here alone, so that it can be overwritten; or by another operation too.
        Value residual = random_value(random, random.coin() ? output.dtype : any_dtype(random));
        const int read = writer.input(residual);
        inputs.push_back(random_tensor(random, residual.dtype, sizes));
        const int own = writer.add(
            {.kind = Kind::Activation, .inputs = {read}, .post_ops = {{.kind = PostOpKind::Relu}}}, residual);
        const bool gated = random.coin();
        const int gate = writer.input(gated ? Value{.dtype = Dtype::U8, .scale = 1.0 / 255} : float_value());
        const bool narrow = random.coin();
        inputs.push_back(random_tensor(random, gated ? Dtype::U8 : Dtype::F32,
                                       narrow ? Shape{sizes[0], channels, 1, 1} : sizes));
        if (random.coin()) operation.post_ops.push_back(any_function(random));
        if (random.coin()) operation.post_ops.push_back({.kind = PostOpKind::Mul, .value = gate});
        operation.post_ops.push_back({.kind = PostOpKind::Add, .value = random.coin() ? own : read});
        if (random.coin()) operation.post_ops.push_back(any_function(random));
        writer.returns({writer.add(
            {.kind = Kind::MaxPool, .inputs = {writer.add(operation, output)}, .kernel = {1, 1}}, output)});
        expect_right(writer, inputs);
      },
      80);
}

TEST(Operations, MultipliesChannelsBeforeRounding) {
  for_random_cases([](Random& random) {
    const auto groups = random.any_of<std::int64_t>({1, 16});
    Writer writer;
    Operation operation{.kind = Kind::Convolution,
                        .inputs = {writer.input(random_value(random, Dtype::U8))},
                        .groups = groups};
    add_weights(random, writer, operation, {16, 16 / groups, 3, 3}, 16);
    const int made = writer.add(operation, float_value());
    const auto kind = random.any_of<PostOpKind>({PostOpKind::Relu, PostOpKind::Hardswish, PostOpKind::Silu});
    const int function =
        writer.add({.kind = Kind::Activation, .inputs = {made}, .post_ops = {{.kind = kind}}}, float_value());
    const int factors = writer.constant_value(float_value(), random_tensor(random, Dtype::F32, {16, 1, 1}));
    const int product = writer.add({.kind = Kind::Mul, .inputs = {function, factors}}, float_value());
    writer.returns(
        {writer.add({.kind = Kind::Convert, .inputs = {product}}, random_value(random, any_int8(random)))});
    const Tensor input = random_tensor(random, Dtype::U8, {2, 16, 5, random.integer(3, 20)});
    expect_right(writer, {input});
  });
}

TEST(Operations, SumsAResidualInPlace) {
  Random random(3);
  Writer writer;
  const Value value{.dtype = Dtype::S8, .scale = 0.05, .zero_point = 3};
  const int input = writer.input(value);
  const int own = writer.add({.kind = Kind::MaxPool, .inputs = {input}, .kernel = {1, 1}}, value);
  Operation operation{
      .kind = Kind::Convolution, .inputs = {input}, .post_ops = {{.kind = PostOpKind::Add, .value = own}}};
  add_weights(random, writer, operation, {16, 16, 1, 1}, 16);
  writer.returns(
      {writer.add({.kind = Kind::Convert, .inputs = {writer.add(operation, value)}}, float_value())});
  const std::vector<Tensor> inputs{random_tensor(random, Dtype::S8, {1, 16, 8, 8})};
  LoadedProgram program(writer.model);
  const auto compiled = compile(program, inputs);
  const auto step =
      std::ranges::find_if(compiled->steps(), [](const Step& s) { return s.operation == 1 && s.primitive; });
  const auto pool =
      std::ranges::find_if(compiled->steps(), [](const Step& s) { return s.operation == 0 && s.primitive; });
  ASSERT_NE(step, compiled->steps().end());
  EXPECT_EQ(step->operands[1].buffer, pool->operands[1].buffer);
}

/// The block's input has been copied for a reshape before its memory is written over.
TEST(Operations, CopiesOfAnOverwrittenResidualAreMadeAgain) {
  Random random(3);
  Writer writer;
  const Value value{.dtype = Dtype::U8, .scale = 0.05, .zero_point = 3};
  const Extents flat{0, -1};
  const int block =
      writer.add({.kind = Kind::MaxPool, .inputs = {writer.input(value)}, .kernel = {1, 1}}, value);
  const int before = writer.add({.kind = Kind::Reshape, .inputs = {block}, .shape = flat}, value);
  const int kept = writer.add(
      {.kind = Kind::Activation, .inputs = {before}, .post_ops = {{.kind = PostOpKind::Relu}}}, value);
  const int other = writer.add({.kind = Kind::MaxPool, .inputs = {block}, .kernel = {1, 1}}, value);
  Operation operation{
      .kind = Kind::Convolution, .inputs = {other}, .post_ops = {{.kind = PostOpKind::Add, .value = block}}};
  add_weights(random, writer, operation, {16, 16, 1, 1}, 16);
  const int after =
      writer.add({.kind = Kind::Reshape, .inputs = {writer.add(operation, value)}, .shape = flat}, value);
  writer.returns(
      {writer.add({.kind = Kind::Add, .inputs = {kept, after}}, {.dtype = Dtype::U8, .scale = 0.1})});
  expect_right(writer, {random_tensor(random, Dtype::U8, {1, 16, 8, 8})});
}

TEST(Operations, MultipliesByWeights) {
  for_random_cases(
      [](Random& random) {
        const auto length = random.integer(1, 70);
        const auto columns = random.integer(1, 40);
        Shape sizes{length};
        while (sizes.size() < 3 && random.coin()) sizes.insert(sizes.begin(), random.integer(1, 6));
        if (sizes.size() == 1) sizes.insert(sizes.begin(), 1);
        const Value input = random_value(random, any_int8(random));
        Writer writer;
        Operation operation{.kind = Kind::Linear, .inputs = {writer.input(input)}};
        add_weights(random, writer, operation, {columns, length}, columns);
        std::vector<Tensor> inputs{random_tensor(random, input.dtype, sizes)};
        Shape out = sizes;
        out.back() = columns;
        if (random.coin()) operation.post_ops.push_back(any_function(random));
        if (random.coin()) {
          const Value residual = random_value(random, any_dtype(random));
          const auto shape = random.any_of<Shape>({out, {columns}, {1}, Shape(out.begin() + 1, out.end())});
          operation.post_ops.push_back({.kind = PostOpKind::Add, .value = writer.input(residual)});
          inputs.push_back(random_tensor(random, residual.dtype, shape));
        }
        writer.returns({writer.add(operation, output_value(random, any_dtype(random), 4))});
        expect_right(writer, inputs);
      },
      60);
}

TEST(Operations, TakesFloatWeights) {
  for_random_cases([](Random& random) {
    const bool linear = random.coin();
    Writer writer;
    Operation operation{.kind = linear ? Kind::Linear : Kind::Convolution,
                        .inputs = {writer.input(float_value())}};
    operation.weight =
        writer.constant(random_tensor(random, Dtype::F32, linear ? Shape{9, 12} : Shape{9, 12, 3, 3}));
    operation.bias = writer.constant(random_tensor(random, Dtype::F32, {9}));
    operation.post_ops.push_back(any_function(random));
    writer.returns({writer.add(operation, output_value(random, any_dtype(random), 20))});
    expect_right(writer, {random_tensor(random, Dtype::F32, linear ? Shape{5, 12} : Shape{2, 12, 7, 6})});
  });
}

TEST(Operations, MultipliesActivations) {
  for_random_cases(
      [](Random& random) {
        const auto batch = random.integer(1, 3);
        const auto heads = random.integer(1, 3);
        const auto rows = random.integer(1, 9);
        const auto length = random.integer(1, 20);
        const auto columns = random.integer(1, 9);
        const bool in_float = random.integer(0, 3) == 0;
        const Value left = in_float ? float_value() : random_value(random, any_int8(random));
        Value right = in_float ? float_value() : random_value(random, any_int8(random));
        Writer writer;
        const int a = writer.input(left);
        const int b = writer.input(right);
        Operation operation{.kind = Kind::Matmul, .inputs = {a, b}, .alpha = random.coin() ? 1 : 0.125};
        const bool transposed = random.coin();
        const Shape right_sizes =
            transposed ? Shape{batch, heads, columns, length} : Shape{batch, heads, length, columns};
        if (transposed) {
          operation.inputs[1] =
              writer.add({.kind = Kind::Permute, .inputs = {b}, .order = {0, 1, 3, 2}}, right);
        }
        std::vector<Tensor> inputs{
            random_tensor(random, left.dtype, {batch, random.coin() ? 1 : heads, rows, length}),
            random_tensor(random, right.dtype, right_sizes)};
        // Values that cannot saturate.
        operation.bounded = !in_float && right.dtype == Dtype::S8;
        if (operation.bounded) {
          for (auto& number : inputs[1].numbers) number = std::round(number / 2);
        }
        if (random.coin()) {
          operation.post_ops.push_back({.kind = PostOpKind::Add, .value = writer.input(float_value())});
          inputs.push_back(random_tensor(random, Dtype::F32, {batch, 1, 1, columns}));
        }
        writer.returns({writer.add(operation, output_value(random, any_dtype(random), 6))});
        expect_right(writer, inputs);
      },
      60);
}

TEST(Operations, AddsAndMultiplies) {
  for_random_cases(
      [](Random& random) {
        const auto sizes = image(random, 2, random.integer(1, 20));
        const Value left = random_value(random, any_dtype(random));
        const Value right = random_value(random, any_dtype(random));
        Writer writer;
        Operation operation{.kind = random.coin() ? Kind::Add : Kind::Mul,
                            .inputs = {writer.input(left), writer.input(right)}};
        if (random.coin()) operation.post_ops = {{.kind = PostOpKind::Relu}};
        if (random.coin())
          operation.post_ops.push_back({.kind = PostOpKind::Clamp, .alpha = -1, .beta = 2.5});
        const auto other = random.any_of<Shape>({sizes, {sizes[0], sizes[1], 1, 1}, {1}, {sizes[3]}});
        writer.returns({writer.add(operation, output_value(random, any_dtype(random), 3))});
        expect_right(writer,
                     {random_tensor(random, left.dtype, sizes), random_tensor(random, right.dtype, other)});
      },
      60);
}

TEST(Operations, AppliesFunctions) {
  for_random_cases(
      [](Random& random) {
        const Value input = random_value(random, any_dtype(random));
        Operation operation{.kind = Kind::Activation, .post_ops = {any_function(random)}};
        if (random.coin()) operation.post_ops.push_back(any_function(random));
        const auto sizes = image(random, 2, random.integer(1, 20));
        expect_right(single(operation, input, output_value(random, any_dtype(random), 2)),
                     {random_tensor(random, input.dtype, sizes)});
      },
      60);
}

TEST(Operations, Concatenates) {
  for_random_cases(
      [](Random& random) {
        auto sizes = image(random, 2, random.integer(1, 20));
        Writer writer;
        const Value output = random_value(random, any_dtype(random));
        const auto axis = random.integer(0, 3);
        Operation concat{.kind = Kind::Concat, .axis = axis};
        std::vector<Tensor> inputs;
        for (int i = 0; i < 3; ++i) {
          const Value own = random.coin() ? output : random_value(random, any_dtype(random));
          sizes[static_cast<std::size_t>(axis)] = random.integer(1, 9);
          const int input = writer.input(own);
          inputs.push_back(random_tensor(random, own.dtype, sizes));
          const bool written = random.coin();
          concat.inputs.push_back(written ? writer.add({.kind = Kind::Convert, .inputs = {input}}, output)
                                          : input);
        }
        const int joined = writer.add(concat, output);
        const bool pooled = random.coin();
        writer.returns(
            {pooled ? writer.add({.kind = Kind::MaxPool, .inputs = {joined}, .kernel = {1, 1}}, output)
                    : joined});
        expect_right(writer, inputs);
      },
      40);
}

TEST(Operations, ConcatenatesResultsOfConvolutions) {
  for_random_cases([](Random& random) {
    const auto sizes = image(random, 2, 8);
    const Value value = output_value(random, any_int8(random), 3);
    Writer writer;
    const Value input{.dtype = Dtype::U8, .scale = 0.02, .zero_point = 100};
    const int pixels = writer.input(input);
    Operation concat{.kind = Kind::Concat, .axis = random.integer(0, 1)};
    for (int i = 0; i < 3; ++i) {
      Operation operation{.kind = Kind::Convolution, .inputs = {pixels}};
      const auto channels = concat.axis == 0 ? 16 : random.any_of<std::int64_t>({5, 16, 32});
      add_weights(random, writer, operation, {channels, 8, 1, 1}, channels);
      concat.inputs.push_back(writer.add(operation, value));
    }
    const int joined = writer.add(concat, value);
    writer.returns({writer.add({.kind = Kind::MaxPool, .inputs = {joined}, .kernel = {2, 2}}, value)});
    expect_right(writer, {random_tensor(random, Dtype::U8, sizes)});
  });
}

/// Dense blocks: a layer reads what all before it wrote, joined anew or joined to the last concatenation.
TEST(Operations, ConcatenatesWhatWasConcatenated) {
  for_random_cases(
      [](Random& random) {
        const Value value = output_value(random, any_int8(random), 3);
        const auto pool = [&](int input) {
          return Operation{.kind = Kind::MaxPool, .inputs = {input}, .kernel = {1, 1}};
        };
        Writer writer;
        std::vector<int> features{writer.add(pool(writer.input(value)), value)};
        std::vector<std::int64_t> channels{random.integer(1, 9)};
        const Tensor pixels = random_tensor(random, value.dtype, image(random, 2, channels[0]));
        const bool anew = random.coin();
        int joined = features[0];
        for (int layer = 0; layer < 4; ++layer) {
          const auto read = std::accumulate(channels.begin(), channels.end(), std::int64_t{0});
          channels.push_back(random.any_of<std::int64_t>({3, 8, 16}));
          Operation operation{.kind = Kind::Convolution, .inputs = {joined}};
          add_weights(random, writer, operation, {channels.back(), read, 1, 1}, channels.back());
          features.push_back(writer.add(operation, value));
          if (random.integer(0, 3) == 0) features.back() = writer.add(pool(features.back()), value);
          Operation concat{.kind = Kind::Concat,
                           .inputs = anew ? features : std::vector{joined, features.back()},
                           .axis = 1};
          if (random.integer(0, 5) == 0) std::ranges::reverse(concat.inputs);
          joined = writer.add(concat, value);
        }
        std::vector<int> returned{writer.add(pool(joined), value)};
        if (random.coin()) returned.push_back(features[2]);
        if (random.coin()) returned.push_back(joined);
        writer.returns(returned);
        expect_right(writer, {pixels});
      },
      60);
}

/// Chunks of channels, convolved into a concatenation with a residual.
TEST(Operations, ConvolvesSlicesOfChannels) {
  for_random_cases([](Random& random) {
    const Value value = output_value(random, any_int8(random), 3);
    Writer writer;
    const int input = writer.input(value);
    const auto half = random.any_of<std::int64_t>({8, 16, 32});
    const int pixels = writer.add({.kind = Kind::MaxPool, .inputs = {input}, .kernel = {1, 1}}, value);
    Operation concat{.kind = Kind::Concat, .axis = 1};
    for (const std::int64_t part : {0, 1}) {
      const int slice = writer.add({.kind = Kind::Slice,
                                    .inputs = {pixels},
                                    .axis = 1,
                                    .begin = part * half,
                                    .end = (part + 1) * half},
                                   value);
      Operation operation{.kind = Kind::Convolution, .inputs = {slice}};
      add_weights(random, writer, operation, {half, half, 1, 1}, half);
      if (random.coin()) operation.post_ops.push_back({.kind = PostOpKind::Add, .value = slice});
      concat.inputs.push_back(writer.add(operation, value));
    }
    const int joined = writer.add(concat, value);
    writer.returns({writer.add({.kind = Kind::MaxPool, .inputs = {joined}, .kernel = {2, 2}}, value)});
    expect_right(writer, {random_tensor(random, value.dtype, image(random, 2, 2 * half))});
  });
}

TEST(Operations, Pools) {
  for_random_cases(
      [](Random& random) {
        const auto dimensions = static_cast<std::size_t>(random.integer(1, 3));
        Operation operation{.kind = random.coin() ? Kind::MaxPool : Kind::AvgPool};
        const bool largest = operation.kind == Kind::MaxPool;
        for (std::size_t d = 0; d < dimensions; ++d) {
          operation.kernel.push_back(random.integer(1, 3));
          operation.stride.push_back(random.integer(1, 2));
          operation.padding_begin.push_back(random.integer(0, operation.kernel.back() / 2));
          operation.padding_end.push_back(operation.padding_begin.back());
        }
        operation.ceil_mode = largest && random.coin();
        operation.count_include_pad = !largest && random.coin();
        const Value input = random_value(random, any_dtype(random));
        const Value output = random.coin() ? input : random_value(random, any_dtype(random));
        expect_right(single(operation, input, output),
                     {random_tensor(random, input.dtype, image(random, dimensions, random.integer(1, 20)))});
      },
      60);
}

TEST(Operations, AveragesOverAllPositions) {
  for_random_cases([](Random& random) {
    const Value input = random_value(random, any_dtype(random));
    const auto channels = random.any_of<std::int64_t>({1, 10, 64, 100});
    expect_right(single({.kind = Kind::GlobalAvgPool}, input, output_value(random, any_dtype(random), 0.5)),
                 {random_tensor(random, input.dtype, image(random, 2, channels))});
  });
}

TEST(Operations, TakesSoftmax) {
  for_random_cases([](Random& random) {
    const Value input = random_value(random, any_dtype(random));
    const Value output =
        random.coin() ? float_value()
                      : Value{.dtype = Dtype::U8, .scale = 1.0 / 255, .zero_point = random.coin() ? 0 : 5};
    expect_right(single({.kind = Kind::Softmax, .axis = random.integer(-1, 2)}, input, output),
                 {random_tensor(random, input.dtype, {2, 5, random.any_of<std::int64_t>({7, 64, 197})})});
  });
}

TEST(Operations, TakesLogarithmsOfSoftmax) {
  for_random_cases([](Random& random) {
    const Value input = random_value(random, any_dtype(random));
    const Value output = output_value(random, any_dtype(random), 8);
    expect_right(single({.kind = Kind::LogSoftmax, .axis = random.integer(-1, 2)}, input, output),
                 {random_tensor(random, input.dtype, {2, 5, random.any_of<std::int64_t>({7, 64, 5000})})});
  });
}

/// Their shares are too small for a float.
TEST(Operations, LogarithmsOfSmallSharesAreNumbers) {
  const Writer writer = single({.kind = Kind::LogSoftmax, .axis = -1}, float_value(), float_value());
  LoadedProgram program(writer.model);
  const auto output = run(program, {{Dtype::F32, {1, 3}, {0, 300, -500}}}).front();
  EXPECT_EQ(output.numbers, (std::vector<double>{-300, 0, -800}));
}

TEST(Operations, NormalizesLayers) {
  for_random_cases([](Random& random) {
    const Value input = random_value(random, any_dtype(random));
    const auto length = random.any_of<std::int64_t>({5, 16, 384, 700});
    Writer writer;
    Operation operation{.kind = Kind::LayerNorm, .inputs = {writer.input(input)}};
    if (random.coin()) operation.weight = writer.constant(random_tensor(random, Dtype::F32, {length}));
    if (random.coin()) operation.bias = writer.constant(random_tensor(random, Dtype::F32, {length}));
    writer.returns({writer.add(operation, output_value(random, any_dtype(random), 4))});
    expect_right(writer, {random_tensor(random, input.dtype, {3, random.integer(1, 5), length})});
  });
}

TEST(Operations, Resizes) {
  for_random_cases([](Random& random) {
    Operation operation{.kind = random.coin() ? Kind::ResizeNearest : Kind::ResizeBilinear};
    // One number stands for all dimensions.
    const auto dimensions = operation.kind == Kind::ResizeNearest ? random.integer(1, 3) : 2;
    const auto numbers = random.coin() ? 1 : dimensions;
    const bool has_size = random.coin();
    for (std::int64_t i = 0; i < numbers; ++i) {
      if (has_size)
        operation.size.emplace_back(random.integer(1, 12));
      else
        operation.scale_factors.push_back(random.any_of<double>({0.5, 1.5, 2, 3}));
    }
    const Value input = random_value(random, any_dtype(random));
    const Value output = random.coin() ? input : random_value(random, any_dtype(random));
    expect_right(single(operation, input, output),
                 {random_tensor(random, input.dtype,
                                image(random, static_cast<std::size_t>(dimensions), random.integer(1, 20)))});
  });
}

/// Weights of 127 for bytes of 255: without VNNI the sums of pairs leave 16 bits.
TEST(Operations, SumsThatWouldSaturateAreRightToo) {
  for (const auto kind : {Kind::Convolution, Kind::Linear}) {
    Writer writer;
    const bool linear = kind == Kind::Linear;
    Operation operation{.kind = kind, .inputs = {writer.input({.dtype = Dtype::U8, .scale = 0.1})}};
    const Shape sizes = linear ? Shape{32, 64} : Shape{32, 64, 1, 1};
    operation.weight = writer.constant({Dtype::S8, sizes, std::vector<double>(32 * 64, 127)});
    operation.weight_scales = writer.constant({Dtype::F32, {1}, {0.01}});
    writer.returns({writer.add(operation, float_value())});
    const Shape input = linear ? Shape{5, 64} : Shape{1, 64, 4, 4};
    expect_right(
        writer, {{Dtype::U8, input, std::vector<double>(static_cast<std::size_t>(elements_of(input)), 255)}});
  }
}

TEST(Operations, ANetworkIsRightOnAnyNumberOfThreads) {
  const auto model = small_network(5);
  Writer writer;
  writer.model = model;
  Random random(2);
  const std::vector<Tensor> inputs{random_tensor(random, Dtype::F32, {2, 3, 20, 24})};
  LoadedProgram program(model);
  const auto expected = reference(model, inputs).front();
  for (const int threads : {1, 2, 3}) {
    const auto got = run(program, inputs, threads).front();
    for (std::size_t i = 0; i < got.numbers.size(); ++i)
      EXPECT_NEAR(got.numbers[i], expected.numbers[i], 0.25) << i;
  }
}

}  // namespace operations_test
}  // namespace tsq::runtime::test
