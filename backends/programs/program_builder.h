#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/programs/translation_cache.h"
#include "ir/model.h"
#include "runtime/program/program.h"

namespace tsq::programs {

/// A number that each call computes from a number of shapes.
struct ComputedNumber {
  runtime::Extent number{};
  std::vector<runtime::PostOp> post_ops{};
};

/// A fused program while nodes of a graph are written into it. What they read and nothing in the program has
/// written becomes an input of the program, or one of its constants.
class ProgramBuilder {
 public:
  using Regions = std::unordered_map<const ir::Node*, std::size_t>;

  /// What the nodes of regions compute is float or quantized.
  ProgramBuilder(const ir::Model& model, const Regions& regions, TranslationCache& cache)
      : model_(model), regions_(regions), cache_(cache) {}

  // What a node reads. All are empty where a program cannot have it.

  /// A float tensor, or a quantized one: the value of the program.
  std::optional<int> tensor(const ir::Value* value);
  /// A tensor of truth values, as bytes that are 0 or 1.
  std::optional<int> truths(const ir::Value* value);
  /// A tensor of whole numbers, which are rows of a table.
  std::optional<int> rows(const ir::Value* value);
  /// A list of tensors.
  std::optional<std::vector<int>> tensors(const ir::Value* list);
  /// A number of a shape.
  std::optional<runtime::Extent> extent(const ir::Value* value);
  std::optional<std::vector<runtime::Extent>> extents(const ir::Value* list);
  /// A number that operations on tensors read, of their sizes. None where it is known before the model runs.
  std::optional<ComputedNumber> number(const ir::Value* value);
  /// What is known before the model runs.
  [[nodiscard]] std::optional<c10::IValue> constant(const ir::Value* value) const;

  // What it writes.

  /// Operations that are written from now on are of the layer of this name.
  void set_name(std::string name) { name_ = std::move(name); }
  /// An operation with a new value as its output, without a dtype given a float one; returns the value.
  int write(runtime::Operation operation, const runtime::Value& output = {});
  /// The index of a tensor among the constants. Float or int8.
  int add_constant(const at::Tensor& tensor);
  /// The same as a value that operations read.
  int constant_value(const at::Tensor& tensor);
  /// A number that each call computes.
  runtime::Extent integer(const runtime::Integer& row);

  // What the values of the graph are in the program.

  void define(const ir::Value* value, int written) { tensors_[resolved(value)] = written; }
  void define_truths(const ir::Value* value, int written) {
    define(value, written);
    truths_.insert(resolved(value));
  }
  void define(const ir::Value* value, const runtime::Extent& extent) { extents_[resolved(value)] = extent; }
  void define(const ir::Value* value, const ComputedNumber& number) { numbers_[resolved(value)] = number; }
  /// The list of all sizes of a tensor.
  void define_sizes(const ir::Value* list, int of) { sizes_[resolved(list)] = of; }
  /// Whether what the program has of a value are truth values.
  [[nodiscard]] bool are_truths(const ir::Value* value) const { return truths_.contains(resolved(value)); }
  [[nodiscard]] bool is_defined(const ir::Value* value) const;
  /// `inner` stands for `outer`: an input of an expanded call.
  void bind(const ir::Value* inner, const ir::Value* outer) { bound_[inner] = resolved(outer); }
  [[nodiscard]] const ir::Value* resolved(const ir::Value* value) const;

  /// The program writes what it returns. `value` is float unless it is quantized in the graph.
  void return_value(const ir::Value* value);

  /// Dtype, scale and zero point of a value.
  [[nodiscard]] runtime::Value type_of(int value) const {
    const runtime::Value& all = program_.values[static_cast<std::size_t>(value)];
    return {.dtype = all.dtype, .scale = all.scale, .zero_point = all.zero_point};
  }
  [[nodiscard]] runtime::Dtype dtype_of(int value) const { return type_of(value).dtype; }
  [[nodiscard]] const ir::Model& model() const { return model_; }
  [[nodiscard]] TranslationCache& cache() const { return cache_; }
  [[nodiscard]] const runtime::Program& program() const { return program_; }
  [[nodiscard]] const std::vector<at::Tensor>& constants() const { return constants_; }
  /// The values of the graph that a call of the program gets: tensors, then integers. Where a quantized
  /// tensor is read its codes are what is given.
  [[nodiscard]] const std::vector<const ir::Value*>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<const ir::Value*>& integers() const { return given_; }
  [[nodiscard]] const std::vector<const ir::Value*>& outputs() const { return outputs_; }

 private:
  /// A constant, or an attribute of the model that nothing writes; undefined where it is no tensor.
  [[nodiscard]] at::Tensor constant_tensor(const ir::Value* value) const;
  /// The dtype of a tensor of the graph: programs compute in float or int8, and TorchScript does not tell it.
  [[nodiscard]] std::optional<c10::ScalarType> known_dtype(const ir::Value* value) const;
  /// Whether a number is computed from sizes of tensors and known numbers: another, a loop's step for
  /// example, would make a compiled program for each of its values.
  [[nodiscard]] bool is_of_shapes(const ir::Value* value) const;
  int new_value(const runtime::Value& value);
  int add_input(const ir::Value* value, const runtime::Value& type);
  std::optional<int> read(const ir::Value* value);

  const ir::Model& model_;
  const Regions& regions_;
  TranslationCache& cache_;
  std::string name_{};
  runtime::Program program_{};
  std::vector<at::Tensor> constants_{};
  std::unordered_map<const void*, int> constant_indexes_{};  ///< by memory
  std::vector<const ir::Value*> inputs_{};
  std::vector<const ir::Value*> given_{};
  std::vector<const ir::Value*> outputs_{};
  std::unordered_map<const ir::Value*, int> tensors_{};
  std::unordered_set<const ir::Value*> truths_{};  ///< those of `tensors_` that hold truth values
  std::unordered_map<const ir::Value*, int> rows_{};
  std::unordered_map<const ir::Value*, runtime::Extent> extents_{};
  std::unordered_map<const ir::Value*, ComputedNumber> numbers_{};
  std::unordered_map<const ir::Value*, int> sizes_{};
  std::unordered_map<const ir::Value*, const ir::Value*> bound_{};
};

/// Truth values: bytes that are 0 or 1.
inline constexpr runtime::Value kTruths{.dtype = runtime::Dtype::U8};

/// The scale, zero point and dtype that a quantize_per_tensor node rounds to, where they are constants that a
/// program can have.
std::optional<runtime::Value> rounded_to(const ir::Node* quantize);

}  // namespace tsq::programs
