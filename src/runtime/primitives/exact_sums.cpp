#include "runtime/primitives/exact_sums.h"

#include <array>
#include <dnnl.hpp>

#include "runtime/primitives/packed_weights.h"
#include "runtime/primitives/weights.h"

namespace tsq::runtime {
namespace {

using dnnl::memory;

constexpr std::int64_t kLength = 64;

/// The largest sum that `kLength` products can have.
constexpr float kLargest = 255.0F * 127.0F * kLength;

std::shared_ptr<void> filled(std::size_t bytes, int byte) {
  auto memory = aligned_memory(bytes);
  std::fill_n(static_cast<std::uint8_t*>(memory.get()), bytes, static_cast<std::uint8_t>(byte));
  return memory;
}

template <typename Descriptor, typename Primitive>
bool is_exact(const Descriptor& descriptor, const Primitive& primitive, const memory::desc& source,
              const memory::desc& plain, const memory::desc& target) {
  PackedWeights packed;
  const auto weights = packed.get(filled(plain.get_size(), 127), plain, descriptor.weights_desc());
  const auto input = filled(source.get_size(), 255);
  const auto output = filled(target.get_size(), 0);
  const auto scratchpad = aligned_memory(descriptor.scratchpad_desc().get_size());
  const auto& engine = cpu_engine();
  dnnl::stream stream(engine);
  primitive.execute(
      stream,
      {{DNNL_ARG_SRC, memory(source, engine, input.get())},
       {DNNL_ARG_WEIGHTS, memory(descriptor.weights_desc(), engine, const_cast<void*>(weights.get()))},
       {DNNL_ARG_DST, memory(target, engine, output.get())},
       {DNNL_ARG_SCRATCHPAD, memory(descriptor.scratchpad_desc(), engine, scratchpad.get())}});
  stream.wait();
  const auto* sums = static_cast<const float*>(output.get());
  return std::all_of(sums, sums + target.get_size() / sizeof(float),
                     [](float sum) { return sum == kLargest; });
}

bool is_convolution_exact() {
  const auto source = channels_last_desc(Dtype::U8, {1, kLength, 4, 4});
  const auto target = channels_last_desc(Dtype::F32, {1, kLength, 4, 4});
  const Shape sizes{kLength, kLength, 1, 1};
  const dnnl::convolution_forward::primitive_desc descriptor(
      cpu_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, source,
      memory::desc(sizes, memory::data_type::s8, memory::format_tag::any), target, Shape{1, 1}, Shape{0, 0},
      Shape{0, 0}, attributes_with({}));
  return is_exact(descriptor, dnnl::convolution_forward(descriptor), source, row_major_desc(Dtype::S8, sizes),
                  target);
}

bool is_product_exact() {
  const auto source = row_major_desc(Dtype::U8, {kLength, kLength});
  const auto target = row_major_desc(Dtype::F32, {kLength, kLength});
  const Shape sizes{kLength, kLength};
  const dnnl::matmul::primitive_desc descriptor(
      cpu_engine(), source, memory::desc(sizes, memory::data_type::s8, memory::format_tag::any), target,
      attributes_with({}));
  return is_exact(descriptor, dnnl::matmul(descriptor), source, row_major_desc(Dtype::S8, sizes), target);
}

bool may_saturate(const Model& model, const Operation& operation) {
  if (operation.bounded) return false;
  if (operation.kind == Kind::Matmul) {
    return is_int8(model.program.values[static_cast<std::size_t>(operation.inputs[0])].dtype);
  }
  const bool weighted = operation.kind == Kind::Convolution ||
                        operation.kind == Kind::TransposedConvolution || operation.kind == Kind::Linear;
  if (!weighted) return false;
  const auto& weight = model.constants[static_cast<std::size_t>(*operation.weight)];
  return is_int8(weight.dtype) && !is_depthwise(operation, weight.shape);
}

/// Rewrites operations one after the other.
class FloatRewriter {
 public:
  explicit FloatRewriter(const Model& model) : model_(model) { model_.program.operations.clear(); }

  void append(const Operation& operation) {
    if (!may_saturate(model_, operation)) {
      model_.program.operations.push_back(operation);
      return;
    }
    Operation in_float = operation;
    for (auto& input : in_float.inputs) input = converted(input);
    for (auto& post_op : in_float.post_ops) {
      if (post_op.value >= 0) post_op.value = converted(post_op.value);
    }
    if (operation.kind != Kind::Matmul) {
      in_float.weight = float_weight(operation);
      in_float.weight_scales.reset();
    }
    const auto output = value(operation.output);
    if (is_int8(output.dtype)) in_float.output = add_value();
    model_.program.operations.push_back(in_float);
    if (is_int8(output.dtype)) convert(in_float.output, operation.output);
  }

  Model take() { return std::move(model_); }

 private:
  [[nodiscard]] Value value(int index) const {
    return model_.program.values[static_cast<std::size_t>(index)];
  }

  int add_value() {
    model_.program.values.push_back({.dtype = Dtype::F32});
    return static_cast<int>(model_.program.values.size()) - 1;
  }

  void convert(int from, int to) {
    model_.program.operations.push_back({.kind = Kind::Convert, .inputs = {from}, .output = to});
  }

  int converted(int index) {
    if (!is_int8(value(index).dtype)) return index;
    const int in_float = add_value();
    convert(index, in_float);
    return in_float;
  }

  int float_weight(const Operation& operation) {
    const auto& weight = model_.constants[static_cast<std::size_t>(*operation.weight)];
    const auto& scales = model_.constants[static_cast<std::size_t>(*operation.weight_scales)];
    const bool one_scale = elements_of(scales.shape) == 1;
    const auto layout = weight_layout(operation, weight.shape);
    const auto count = elements_of(weight.shape);
    auto numbers = aligned_memory(static_cast<std::size_t>(count) * sizeof(float));
    for (std::int64_t i = 0; i < count; ++i) {
      const auto scale = scales.floats()[one_scale ? 0 : channel_of(layout, weight.shape, i)];
      static_cast<float*>(numbers.get())[i] = scale * static_cast<float>(weight.int8s()[i]);
    }
    model_.constants.push_back({.dtype = Dtype::F32, .shape = weight.shape, .data = numbers});
    return static_cast<int>(model_.constants.size()) - 1;
  }

  Model model_;
};

}  // namespace

bool has_exact_int8_sums() {
  static const bool exact = is_convolution_exact() && is_product_exact();
  return exact;
}

Model with_exact_sums(const Model& model) {
  FloatRewriter rewriter(model);
  for (const auto& operation : model.program.operations) rewriter.append(operation);
  return rewriter.take();
}

}  // namespace tsq::runtime
