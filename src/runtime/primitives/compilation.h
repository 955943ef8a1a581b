#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/primitives/packed_weights.h"
#include "runtime/primitives/view.h"
#include "runtime/program/program.h"

/// A program on its way from operations to steps.
namespace tsq::runtime {

enum class Place : std::uint8_t { Arena, Input, Output, Constant };

struct Buffer {
  Place place = Place::Arena;
  std::int64_t bytes = 0;
  int index = 0;  ///< which input or output of the program
  std::shared_ptr<const void> constant{};
};

/// What a step reads or writes: `offset` bytes into a buffer.
struct Operand {
  int buffer = -1;
  std::int64_t offset = 0;
  int argument = 0;           ///< of a primitive
  dnnl::memory::desc desc{};  ///< of a primitive
  std::vector<Move> moves{};  ///< their strides count bytes
};

/// One primitive of oneDNN, or one kernel of ours.
struct Step {
  std::size_t operation = 0;     ///< for which it is there
  std::string implementation{};  ///< the kernel's name
  std::string shape{};
  std::vector<Operand> operands{};
  dnnl::primitive primitive{};
  std::function<void(std::byte* const* pointers)> kernel{};  ///< gets a pointer for each operand
};

/// Computes the units [begin, end) of a kernel's work.
using Part = std::function<void(std::byte* const* pointers, std::int64_t begin, std::int64_t end)>;

/// What the builders of operations work on. They read views of values, write steps, and deliver views.
class Compilation {
 public:
  /// `memory_limit`: the bytes that a call may need.
  Compilation(const Model& model, std::vector<Shape> shapes, std::span<const View> inputs, int threads,
              PackedWeights& weights, std::int64_t memory_limit);

  [[nodiscard]] const Model& model() const { return model_; }
  [[nodiscard]] const Program& program() const { return model_.program; }
  [[nodiscard]] const Operation& operation() const { return program().operations[current_]; }
  [[nodiscard]] const Constant& constant(int index) const {
    return model_.constants[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const Shape& shape(int value) const { return shapes_[static_cast<std::size_t>(value)]; }

  [[nodiscard]] int threads() const { return threads_; }

  /// Throws MemoryError where a call may not need so much.
  void require_memory(std::int64_t bytes) const;
  /// Before so many bytes are held for as long as the compiled program lives: a table of places, for example.
  void hold(std::int64_t count, std::size_t size_of_one);
  [[nodiscard]] std::int64_t held_bytes() const { return held_bytes_; }

  /// Builders run for this operation from now on.
  void begin(std::size_t operation) { current_ = operation; }

  /// Where an input lies.
  View view(int value);
  /// The dtype, scale and zero point with which a value is kept, and no place.
  [[nodiscard]] View stored_as(int value) const;
  /// The same tensor with these strides: copied if it has others.
  View with_strides(const View& view, const Shape& strides);
  View channels_last(const View& view) { return with_strides(view, channels_last_strides(view.sizes)); }
  /// The same tensor as `u8`: copied if it is kept as `s8`. Signed tensors are kept as `u8` with the zero
  /// point 128 higher, which is what the kernels are fast with.
  View as_unsigned(const View& view);
  View as_signed(const View& view);
  View as_float(const View& view);
  /// A point to which an attempt of the current operation can be taken back.
  struct Mark {
    std::size_t buffers;
    std::size_t steps;
    std::vector<std::pair<View, View>> copies;
    std::vector<std::optional<View>> views;
  };
  [[nodiscard]] Mark mark() const;
  void roll_back(Mark mark);

  /// Copies of what this buffer held are of no use any more: an operation writes over it.
  void forget_copies(int buffer);

  /// The strides in which a value is kept.
  Shape strides_of(int value) const;
  /// Where the value has to lie in the end, if that is known: inside of a concatenation, or a tensor that the
  /// call returns.
  const std::optional<View>& reserved(int value) const { return reserved_[static_cast<std::size_t>(value)]; }
  /// New memory for a value.
  View fresh(int value, const Shape& strides);
  View fresh(Dtype dtype, const Shape& sizes, const Shape& strides, double scale = 1, int zero_point = 0);
  /// The reserved place if it has these strides, else new memory.
  View destination(int value, const Shape& strides);
  /// The reserved place whatever its strides, else new memory: for kernels that write any.
  View any_destination(int value);
  /// The place if its numbers are quantized as the input's are, else new memory in channels-last order.
  View quantized_like(const View& input, const View& place);
  /// Has an operation before its own written a value?
  [[nodiscard]] bool is_written(int value) const {
    return views_[static_cast<std::size_t>(value)].has_value();
  }
  /// Says where a value has been written, and copies it to its reserved place if that is elsewhere.
  void deliver(int value, const View& view);

  /// May the tensor in this buffer be overwritten by the current operation?
  bool is_last_use(const View& view) const;

  /// Copies with conversion between dtypes, scales and strides; sizes are equal.
  void add_copy(const View& from, const View& to, const char* implementation = nullptr);
  /// A kernel of ours on `units` units of work, which the threads divide among them.
  /// `check` comes first, and may throw.
  void add_kernel(std::string implementation, std::span<const View> views, std::int64_t units, Part part,
                  std::function<void(std::byte* const* pointers)> check = {});
  /// One whose threads meet on the way: one thread has all units while other programs run beside this one.
  void add_meeting_kernel(std::string implementation, std::span<const View> views, std::int64_t units,
                          Part part);
  /// A primitive; its scratchpad is added.
  void add_primitive(const dnnl::primitive_desc_base& descriptor, const dnnl::primitive& primitive,
                     std::string shape, std::vector<Operand> operands);

  Operand operand(int argument, const View& view, const dnnl::memory::desc& desc) const;
  Operand constant_operand(int argument, std::shared_ptr<const void> data, const dnnl::memory::desc& desc);
  /// A list of numbers that belongs to this compilation.
  Operand floats_operand(int argument, const std::vector<float>& numbers, const dnnl::memory::desc& desc);
  Operand int_operand(int argument, int number);
  Operand packed_operand(int argument, const Constant& plain, const dnnl::memory::desc& from,
                         const dnnl::memory::desc& to);
  /// The weights of a kernel of ours, in numbers of this type, as `pack` writes them.
  View packed_view(const Constant& plain, dnnl::memory::data_type numbers, std::int64_t floats,
                   const std::function<void(float* packed)>& pack);
  /// A constant as a view, for kernels of ours.
  View constant_view(int index);
  /// One float, of no dimensions.
  View number_view(float number);
  View numbers_view(const std::vector<float>& numbers);

  /// Copies what the call returns and no operation has put there.
  void finish();

  std::vector<Buffer> buffers{};
  std::vector<Step> steps{};

 private:
  int add_buffer(Buffer buffer);
  void reserve_outputs();
  void reserve_concatenations();
  void reserve_inputs_of(std::size_t operation);
  /// Where the inputs of a concatenation lie as they do in its output, inside of another one.
  [[nodiscard]] std::optional<View> side_by_side(const Operation& concat) const;
  void add_step(Step step);
  void add_kernel_step(std::string implementation, std::span<const View> views,
                       std::function<void(std::byte* const* pointers)> kernel);

  const Model& model_;
  std::vector<Shape> shapes_;
  int threads_;
  PackedWeights& weights_;
  std::int64_t memory_limit_;
  std::int64_t held_bytes_ = 0;
  std::size_t current_ = 0;
  std::vector<std::optional<View>> views_;
  std::vector<std::optional<View>> reserved_;
  std::vector<int> last_use_;
  std::vector<int> use_count_;
  std::vector<bool> channels_last_;
  std::vector<bool> signed_storage_;
  std::vector<std::pair<View, View>> copies_{};  ///< of views, with what they copy
};

}  // namespace tsq::runtime
