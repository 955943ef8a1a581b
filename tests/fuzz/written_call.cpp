#include <limits>

#include "fuzz/call.h"
#include "runtime/program/program_json.h"

namespace tsq::fuzz {

using namespace runtime;
using test::Tensor;

namespace {

/// What a tensor may have, so that a call takes milliseconds.
constexpr std::int64_t kMostElements = 4096;

Dtype any_dtype(Input& input) { return static_cast<Dtype>(input.integer(0, 3)); }

std::int64_t any_integer(Input& input) {
  const auto byte = input.byte();
  if (byte == 255) return std::numeric_limits<std::int64_t>::max();
  if (byte == 254) return std::numeric_limits<std::int64_t>::min();
  if (byte == 253) return std::int64_t{1} << 40;
  return static_cast<std::int8_t>(byte);
}

}  // namespace

Shape any_shape(Input& input, std::int64_t most_dimensions, std::int64_t largest) {
  Shape shape(static_cast<std::size_t>(input.integer(0, most_dimensions)));
  for (auto& size : shape) {
    size = input.one_in(64) ? 0 : input.integer(1, largest);
    if (elements_of(shape) > kMostElements) size = 1;
  }
  return shape;
}

Tensor any_tensor(Input& input, Dtype dtype, const Shape& sizes) {
  test::Random random(input.byte());
  Tensor tensor = test::random_tensor(random, dtype, sizes);
  // Rows of a table, most of them there.
  if (dtype == Dtype::I64) {
    for (auto& number : tensor.numbers)
      number = static_cast<double>(random.integer(input.one_in(16) ? -9 : 0, 3));
  }
  return tensor;
}

Call written_call(Input& input) {
  test::Writer constants;
  for (std::int64_t left = input.integer(0, 7); left > 0; --left) {
    const Dtype dtype = any_dtype(input);
    constants.constant(any_tensor(input, dtype, any_shape(input, 5, 8)));
  }
  std::vector<Shape> shapes;
  for (std::int64_t left = input.integer(0, 4); left > 0; --left) shapes.push_back(any_shape(input, 6, 12));
  const auto seed = input;
  Call call;
  for (std::int64_t left = input.integer(0, 3); left > 0; --left) call.integers.push_back(any_integer(input));
  call.model.constants = std::move(constants.model.constants);
  call.model.program = program_from_json(input.rest());
  const auto& program = call.model.program;
  for (std::size_t i = 0; i < program.inputs.size() && i < shapes.size(); ++i) {
    const auto value = static_cast<std::size_t>(program.inputs[i]);
    const Dtype dtype = value < program.values.size() ? program.values[value].dtype : Dtype::F32;
    Input numbers = seed;
    call.inputs.push_back(any_tensor(numbers, dtype, shapes[i]));
  }
  return call;
}

}  // namespace tsq::fuzz
