#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "runtime/loaded_program.h"

/// Programs written by hand, and tensors for them.
namespace tsq::runtime::test {

/// Numbers as they stand in memory: integers for int8 dtypes.
struct Tensor {
  Dtype dtype = Dtype::F32;
  Shape sizes{};
  std::vector<double> numbers{};
};

class Random {
 public:
  explicit Random(unsigned seed) : generator_(seed) {}
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator_);
  }
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(generator_);
  }
  bool coin() { return integer(0, 1) == 1; }
  template <typename T>
  T any_of(std::vector<T> choices) {
    return choices[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(choices.size()) - 1))];
  }

 private:
  std::mt19937 generator_;
};

/// Random numbers that fit a dtype.
Tensor random_tensor(Random& random, Dtype dtype, const Shape& sizes);
Value random_value(Random& random, Dtype dtype);
Value float_value();

/// Writes a program operation by operation.
class Writer {
 public:
  Model model{};

  int input(const Value& value);
  int value(const Value& value);
  int constant(const Tensor& tensor);
  /// A number that calls compute.
  Extent integer(const Integer& integer);
  /// A value that a constant holds.
  int constant_value(const Value& value, const Tensor& tensor);
  /// Adds the operation, which writes a new value of this kind.
  int add(Operation operation, const Value& output);
  void returns(std::vector<int> outputs) { model.program.outputs = std::move(outputs); }
};

/// int8 weights that cannot saturate, with a scale for each of `channels`, and a bias.
void add_weights(Random& random, Writer& writer, Operation& operation, const Shape& sizes,
                 std::int64_t channels);

/// Calls the program with contiguous tensors.
std::vector<Tensor> run(LoadedProgram& program, const std::vector<Tensor>& inputs, int threads = 1,
                        const Shape& integers = {});
std::vector<Tensor> run(const CompiledProgram& compiled, const std::vector<Tensor>& inputs,
                        const Shape& integers = {});
std::shared_ptr<const CompiledProgram> compile(LoadedProgram& program, const std::vector<Tensor>& inputs,
                                               int threads = 1, const Shape& integers = {});

/// A small network: quantize, convolution with stride, depthwise, projection with residual, pool, linear.
Model small_network(unsigned seed);

}  // namespace tsq::runtime::test
