#include "runtime/support.h"

#include <cstring>

#include "runtime/primitives/packed_weights.h"
#include "runtime/primitives/view.h"

namespace tsq::runtime::test {
namespace {

std::shared_ptr<void> bytes_of_tensor(const Tensor& tensor) {
  auto memory = aligned_memory(tensor.numbers.size() * static_cast<std::size_t>(bytes_of(tensor.dtype)));
  for (std::size_t i = 0; i < tensor.numbers.size(); ++i) {
    if (tensor.dtype == Dtype::F32) {
      static_cast<float*>(memory.get())[i] = static_cast<float>(tensor.numbers[i]);
    } else if (tensor.dtype == Dtype::I64) {
      static_cast<std::int64_t*>(memory.get())[i] = static_cast<std::int64_t>(tensor.numbers[i]);
    } else {
      static_cast<std::uint8_t*>(memory.get())[i] =
          static_cast<std::uint8_t>(static_cast<int>(tensor.numbers[i]));
    }
  }
  return memory;
}

Tensor tensor_of(const void* memory, Dtype dtype, const Shape& sizes) {
  Tensor tensor{dtype, sizes, {}};
  for (std::int64_t i = 0; i < elements_of(sizes); ++i) {
    tensor.numbers.push_back(dtype == Dtype::F32  ? static_cast<const float*>(memory)[i]
                             : dtype == Dtype::U8 ? static_cast<const std::uint8_t*>(memory)[i]
                                                  : static_cast<const std::int8_t*>(memory)[i]);
  }
  return tensor;
}

/// Inputs as the runtime sees them, with what they point to.
struct Arguments {
  std::vector<Shape> strides{};
  std::vector<InputTensor> tensors{};
  explicit Arguments(const std::vector<Tensor>& inputs) {
    for (const auto& input : inputs) strides.push_back(row_major_strides(input.sizes));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      tensors.push_back({.dtype = inputs[i].dtype, .sizes = inputs[i].sizes, .strides = strides[i]});
    }
  }
};

}  // namespace

Tensor random_tensor(Random& random, Dtype dtype, const Shape& sizes) {
  Tensor tensor{dtype, sizes, {}};
  for (std::int64_t i = 0; i < elements_of(sizes); ++i) {
    tensor.numbers.push_back(dtype == Dtype::F32  ? static_cast<float>(random.real(-3, 3))
                             : dtype == Dtype::U8 ? static_cast<double>(random.integer(0, 255))
                                                  : static_cast<double>(random.integer(-128, 127)));
  }
  return tensor;
}

Value random_value(Random& random, Dtype dtype) {
  if (dtype == Dtype::F32) return {};
  const auto zero_point = random.coin()        ? 0
                          : dtype == Dtype::U8 ? random.integer(0, 255)
                                               : random.integer(-128, 127);
  return {.dtype = dtype, .scale = random.real(0.005, 0.05), .zero_point = static_cast<int>(zero_point)};
}

Value float_value() { return {}; }

int Writer::value(const Value& value) {
  model.program.values.push_back(value);
  return static_cast<int>(model.program.values.size()) - 1;
}

int Writer::input(const Value& added) {
  model.program.inputs.push_back(value(added));
  return model.program.inputs.back();
}

int Writer::constant(const Tensor& tensor) {
  model.constants.push_back({tensor.dtype, tensor.sizes, bytes_of_tensor(tensor)});
  return static_cast<int>(model.constants.size()) - 1;
}

Extent Writer::integer(const Integer& integer) {
  model.program.integers.push_back(integer);
  return Extent::of_integer(static_cast<int>(model.program.integers.size()) - 1);
}

int Writer::constant_value(const Value& added, const Tensor& tensor) {
  Value held = added;
  held.constant = constant(tensor);
  return value(held);
}

int Writer::add(Operation operation, const Value& output) {
  operation.output = value(output);
  model.program.operations.push_back(operation);
  return operation.output;
}

void add_weights(Random& random, Writer& writer, Operation& operation, const Shape& sizes,
                 std::int64_t channels) {
  Tensor weight{Dtype::S8, sizes, {}};
  for (std::int64_t i = 0; i < elements_of(sizes); ++i) {
    weight.numbers.push_back(static_cast<double>(random.integer(-63, 63)));
  }
  operation.weight = writer.constant(weight);
  const bool one = random.integer(0, 3) == 0;
  Tensor scales{Dtype::F32, {one ? 1 : channels}, {}};
  for (std::int64_t i = 0; i < scales.sizes[0]; ++i) {
    scales.numbers.push_back(static_cast<float>(random.real(0.001, 0.01)));
  }
  operation.weight_scales = writer.constant(scales);
  if (random.coin()) operation.bias = writer.constant(random_tensor(random, Dtype::F32, {channels}));
  operation.bounded = true;
}

std::shared_ptr<const CompiledProgram> compile(LoadedProgram& program, const std::vector<Tensor>& inputs,
                                               int threads, const Shape& integers) {
  const Arguments arguments(inputs);
  return program.compiled(arguments.tensors, integers, threads);
}

std::vector<Tensor> run(LoadedProgram& program, const std::vector<Tensor>& inputs, int threads,
                        const Shape& integers) {
  return run(*compile(program, inputs, threads, integers), inputs, integers);
}

std::vector<Tensor> run(const CompiledProgram& compiled, const std::vector<Tensor>& inputs,
                        const Shape& integers) {
  std::vector<std::shared_ptr<void>> memory;
  std::vector<const void*> read;
  std::vector<void*> written;
  for (const auto& input : inputs) read.push_back(memory.emplace_back(bytes_of_tensor(input)).get());
  for (std::size_t i = 0; i < compiled.output_shapes().size(); ++i) {
    const auto bytes = elements_of(compiled.output_shapes()[i]) * bytes_of(compiled.output_dtypes()[i]);
    written.push_back(memory.emplace_back(aligned_memory(static_cast<std::size_t>(bytes))).get());
  }
  compiled.run(read, written, integers);
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < written.size(); ++i) {
    outputs.push_back(tensor_of(written[i], compiled.output_dtypes()[i], compiled.output_shapes()[i]));
  }
  return outputs;
}

namespace {

Operation convolution(Random& random, Writer& writer, int input, const Shape& weight, std::int64_t groups,
                      std::int64_t stride) {
  const auto padding = weight[2] / 2;
  Operation operation{.kind = Kind::Convolution,
                      .inputs = {input},
                      .stride = {stride, stride},
                      .padding_begin = {padding, padding},
                      .padding_end = {padding, padding},
                      .groups = groups};
  add_weights(random, writer, operation, weight, weight[0]);
  return operation;
}

}  // namespace

Model small_network(unsigned seed) {
  Random random(seed);
  Writer writer;
  const Value signed_value{.dtype = Dtype::S8, .scale = 0.05, .zero_point = 3};
  const Value positive{.dtype = Dtype::U8, .scale = 0.03, .zero_point = 0};
  const int image = writer.input(float_value());
  const int pixels = writer.add({.kind = Kind::Convert, .inputs = {image}},
                                {.dtype = Dtype::U8, .scale = 0.025, .zero_point = 120});
  auto stem = convolution(random, writer, pixels, {16, 3, 3, 3}, 1, 2);
  stem.post_ops = {{.kind = PostOpKind::Clamp, .alpha = 0, .beta = 6}};
  const int stem_out = writer.add(stem, positive);
  auto expand = convolution(
      random, writer, writer.add(convolution(random, writer, stem_out, {16, 16, 1, 1}, 1, 1), signed_value),
      {32, 16, 1, 1}, 1, 1);
  const int block_input = expand.inputs[0];
  expand.post_ops = {{.kind = PostOpKind::Relu}};
  auto depthwise = convolution(random, writer, writer.add(expand, positive), {32, 1, 3, 3}, 32, 1);
  depthwise.post_ops = {{.kind = PostOpKind::Relu}};
  auto project = convolution(random, writer, writer.add(depthwise, positive), {16, 32, 1, 1}, 1, 1);
  project.post_ops = {{.kind = PostOpKind::Add, .value = block_input}};
  const int block = writer.add(project, signed_value);
  const int pooled = writer.add({.kind = Kind::GlobalAvgPool, .inputs = {block}}, signed_value);
  const int flat = writer.add({.kind = Kind::Reshape, .inputs = {pooled}, .shape = {0, -1}}, signed_value);
  Operation linear{.kind = Kind::Linear, .inputs = {flat}};
  add_weights(random, writer, linear, {10, 16}, 10);
  writer.returns({writer.add(linear, float_value())});
  return writer.model;
}

}  // namespace tsq::runtime::test
