#include "runtime/primitives/exact_sums.h"

#include <array>
#include <dnnl.hpp>

#include "runtime/primitives/epilogue.h"
#include "runtime/primitives/packed_weights.h"

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

}  // namespace

bool has_exact_int8_sums() {
  static const bool exact = is_convolution_exact() && is_product_exact();
  return exact;
}

}  // namespace tsq::runtime
