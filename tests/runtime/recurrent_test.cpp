// LSTM and GRU against the reference: what they read as words is as exact as floats are, and states that are
// multiplied as bytes are off by less than their steps.
#include "runtime/kernels/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/cases.h"

namespace tsq::runtime::test {
namespace recurrent_test {

/// A matrix of a layer: codes with scales, or floats.
void add_matrix(Random& random, Writer& writer, std::optional<int>& weight, std::optional<int>& scales,
                const Shape& sizes, bool codes) {
  Tensor numbers{codes ? Dtype::S8 : Dtype::F32, sizes, {}};
  for (std::int64_t i = 0; i < elements_of(sizes); ++i) {
    numbers.numbers.push_back(codes ? static_cast<double>(random.integer(-127, 127))
                                    : static_cast<float>(random.real(-0.5, 0.5)));
  }
  weight = writer.constant(numbers);
  if (!codes) return;
  Tensor each{Dtype::F32, {random.coin() ? 1 : sizes[0]}, {}};
  for (std::int64_t i = 0; i < each.sizes[0]; ++i)
    each.numbers.push_back(static_cast<float>(random.real(0.0005, 0.0015)));
  scales = writer.constant(each);
}

struct Layer {
  Writer writer{};
  Operation operation{};
  std::vector<Tensor> inputs{};
  bool has_bytes = false;  ///< its states are multiplied as bytes

  Layer(Random& random, Kind kind, std::int64_t depth, std::int64_t width, bool codes) {
    operation.kind = kind;
    const auto rows = (kind == Kind::Lstm ? 4 : 3) * width;
    add_matrix(random, writer, operation.weight, operation.weight_scales, {rows, depth}, codes);
    has_bytes = random.integer(0, 3) == 0 ? !codes : codes;
    add_matrix(random, writer, operation.recurrent_weight, operation.recurrent_scales, {rows, width},
               has_bytes);
    for (auto* bias : {&operation.bias, &operation.recurrent_bias}) {
      if (random.coin()) *bias = writer.constant(random_tensor(random, Dtype::F32, {rows}));
    }
  }
  void read(const Value& value, const Tensor& tensor) {
    operation.inputs.push_back(writer.input(value));
    inputs.push_back(tensor);
  }
  void expect_right(const Value& output) {
    writer.returns({writer.add(operation, output)});
    test::expect_right(writer, inputs, {}, has_bytes ? 3e-2 : 1e-3);
  }
};

void check_layer(Random& random, Kind kind) {
  const auto depth = random.any_of<std::int64_t>({1, 3, 16, 40, 70});
  const auto width = random.any_of<std::int64_t>({1, 5, 16, 24, 40});
  const auto steps = random.any_of<std::int64_t>({1, 2, 9});
  const auto batch = random.any_of<std::int64_t>({0, 1, 2, 3, 18, 35});  // 0: no dimension for samples
  const auto sizes = [&](std::int64_t first, std::int64_t last) {
    return batch == 0 ? Shape{first, last} : Shape{first, batch, last};
  };
  Layer layer(random, kind, depth, width, random.coin());
  layer.operation.backward = random.coin();
  layer.operation.reads_states = random.integer(0, 3) == 0;
  layer.has_bytes |= layer.operation.reads_states;
  const Value input = random_value(random, any_dtype(random));
  layer.read(input, random_tensor(random, input.dtype, sizes(steps, depth)));
  const auto states = random.integer(0, kind == Kind::Lstm ? 2 : 1);
  for (std::int64_t i = 0; i < states; ++i)
    layer.read(float_value(), random_tensor(random, Dtype::F32, sizes(1, width)));
  layer.expect_right(output_value(random, any_dtype(random), 2));
}

TEST(Operations, RunsLstmLayers) {
  for_random_cases([](Random& random) { check_layer(random, Kind::Lstm); }, 80);
}
TEST(Operations, RunsGruLayers) {
  for_random_cases([](Random& random) { check_layer(random, Kind::Gru); }, 80);
}

/// Bytes would lose the small numbers, each of which is 1/4000 of the largest.
TEST(Operations, ARecurrentLayerSeesSmallNumbersBesideALargeOne) {
  Random random(5);
  Layer layer(random, Kind::Lstm, 40, 24, true);
  Tensor input = random_tensor(random, Dtype::F32, {6, 2, 40});
  for (std::size_t i = 0; i < input.numbers.size(); i += 40) input.numbers[i] = 4000;
  layer.read(float_value(), input);
  layer.expect_right(float_value());
}

TEST(Operations, WhatIsNoNumberStaysInItsSample) {
  Random random(6);
  Layer layer(random, Kind::Gru, 8, 8, true);
  Tensor input = random_tensor(random, Dtype::F32, {3, 2, 8});
  input.numbers[3] = std::numeric_limits<float>::quiet_NaN();
  layer.read(float_value(), input);
  layer.writer.returns({layer.writer.add(layer.operation, float_value())});
  LoadedProgram program(layer.writer.model);
  const auto output = run(program, layer.inputs).front();
  for (std::size_t i = 0; i < output.numbers.size(); ++i)
    EXPECT_EQ(std::isnan(output.numbers[i]), i / 8 % 2 == 0) << i;
}

TEST(Operations, SamplesOfARecurrentLayerAreDividedAmongThreads) {
  Random random(7);
  Layer layer(random, Kind::Lstm, 20, 24, true);
  layer.read(float_value(), random_tensor(random, Dtype::F32, {7, 21, 20}));
  layer.writer.returns({layer.writer.add(layer.operation, float_value())});
  LoadedProgram program(layer.writer.model);
  EXPECT_EQ(run(program, layer.inputs, 1).front().numbers, run(program, layer.inputs, 3).front().numbers);
}

/// Fewer samples than threads: the threads share each step, and meet after it.
TEST(Operations, ColumnsOfAWideRecurrentLayerAreSharedByThreads) {
  for (const Kind kind : {Kind::Lstm, Kind::Gru}) {
    for (const bool has_bytes : {true, false}) {
      for (const std::int64_t samples : {1, 2}) {
        SCOPED_TRACE(has_bytes);
        Random random(9);
        Layer layer(random, kind, 20, 330, has_bytes);
        layer.operation.backward = samples == 2;
        layer.read(float_value(), random_tensor(random, Dtype::F32, {5, samples, 20}));
        layer.read(float_value(), random_tensor(random, Dtype::F32, {1, samples, 330}));
        layer.writer.returns({layer.writer.add(layer.operation, float_value())});
        LoadedProgram program(layer.writer.model);
        EXPECT_EQ(run(program, layer.inputs, 1).front().numbers,
                  run(program, layer.inputs, 4).front().numbers);
      }
    }
  }
}

TEST(Operations, WeightsOfARecurrentLayerArePackedOnceForAllShapes) {
  Random random(8);
  Layer layer(random, Kind::Lstm, 20, 24, true);
  layer.read(float_value(), random_tensor(random, Dtype::F32, {7, 2, 20}));
  layer.writer.returns({layer.writer.add(layer.operation, float_value())});
  LoadedProgram program(layer.writer.model);
  run(program, layer.inputs);
  const auto packed = program.packed_weights();
  run(program, {random_tensor(random, Dtype::F32, {3, 1, 20})});
  EXPECT_EQ(program.packed_weights(), packed);
}

}  // namespace recurrent_test
}  // namespace tsq::runtime::test
