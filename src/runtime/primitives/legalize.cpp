#include "runtime/primitives/legalize.h"

#include <algorithm>
#include <map>

#include "runtime/primitives/packed_weights.h"
#include "runtime/primitives/weights.h"
#include "runtime/program/operation_table.h"

namespace tsq::runtime {
namespace {

bool may_saturate(const Model& model, const Operation& operation) {
  if (operation.bounded || !is_product(operation.kind)) return false;
  if (operation.kind == Kind::Matmul) {
    return is_int8(model.program.values[static_cast<std::size_t>(operation.inputs[0])].dtype);
  }
  const auto& weight = model.constants[static_cast<std::size_t>(*operation.weight)];
  return is_int8(weight.dtype) && !is_depthwise(operation, weight.shape);
}

/// Are what it multiplies not both int8 or both float?
bool is_mixed_product(const Model& model, const Operation& operation) {
  if (!is_product(operation.kind)) return false;
  const auto dtype_of = [&](int value) {
    return model.program.values[static_cast<std::size_t>(value)].dtype;
  };
  const auto right = operation.kind == Kind::Matmul
                         ? dtype_of(operation.inputs[1])
                         : model.constants[static_cast<std::size_t>(*operation.weight)].dtype;
  return is_int8(dtype_of(operation.inputs[0])) != is_int8(right);
}

/// Does a view write what it moves with another dtype, scale or zero point?
bool converts(const Model& model, const Operation& operation) {
  if (!is_view(operation.kind)) return false;
  const auto& input = model.program.values[static_cast<std::size_t>(operation.inputs[0])];
  const auto& output = model.program.values[static_cast<std::size_t>(operation.output)];
  return input.dtype != output.dtype || input.scale != output.scale || input.zero_point != output.zero_point;
}

/// Does it multiply float numbers by float numbers?
bool is_float_product(const Model& model, const Operation& operation) {
  if (!is_product(operation.kind)) return false;
  return !is_int8(model.program.values[static_cast<std::size_t>(operation.inputs[0])].dtype);
}

/// Do the last positions of a transposed convolution lie where no input adds to them? There oneDNN gets zero
/// points wrong.
bool pads_output(const Operation& operation) {
  return operation.kind == Kind::TransposedConvolution &&
         std::ranges::any_of(operation.padding_end, [](std::int64_t padding) { return padding < 0; });
}

/// Rewrites operations one after the other.
class Legalizer {
 public:
  Legalizer(const Model& model, bool exact_sums) : model_(model), exact_sums_(exact_sums) {
    model_.program.operations.clear();
  }

  void append(const Operation& operation) {
    if (pads_output(operation)) return append(with_more_input(operation));
    const bool saturates = !exact_sums_ && may_saturate(model_, operation);
    if (saturates || is_mixed_product(model_, operation)) return append_in_float(operation);
    if (converts(model_, operation)) return append_converted(operation);
    if (is_float_product(model_, operation)) return append_unrounded(operation, operation);
    model_.program.operations.push_back(operation);
  }

  Model take() { return std::move(model_); }

 private:
  /// Reads zeros after the input, so that all that is written is read, and cuts off what is too much.
  Operation with_more_input(Operation operation) {
    const auto dimensions = operation.padding_end.size();
    Operation pad{.kind = Kind::Pad,
                  .inputs = operation.inputs,
                  .padding_begin = Shape(dimensions, 0),
                  .padding_end = Shape(dimensions, 0)};
    for (std::size_t d = 0; d < dimensions; ++d) {
      const auto stride = operation.stride.empty() ? 1 : operation.stride[d];
      auto& after = operation.padding_end[d];
      if (after < 0) pad.padding_end[d] = (-after + stride - 1) / stride;
      after += pad.padding_end[d] * stride;
    }
    Value padded = value(operation.inputs[0]);
    padded.constant.reset();
    model_.program.values.push_back(padded);
    pad.output = static_cast<int>(model_.program.values.size()) - 1;
    model_.program.operations.push_back(pad);
    operation.inputs = {pad.output};
    return operation;
  }

  void append_in_float(const Operation& operation) {
    Operation in_float = operation;
    for (auto& input : in_float.inputs) input = converted(input);
    for (auto& post_op : in_float.post_ops) {
      if (post_op.value >= 0) post_op.value = converted(post_op.value);
    }
    if (operation.weight_scales) {
      in_float.weight = float_weight(operation);
      in_float.weight_scales.reset();
    }
    append_unrounded(operation, in_float);
  }

  void append_converted(Operation operation) {
    const int output = operation.output;
    Value moved = value(operation.inputs[0]);
    moved.constant.reset();
    model_.program.values.push_back(moved);
    operation.output = static_cast<int>(model_.program.values.size()) - 1;
    model_.program.operations.push_back(operation);
    convert(operation.output, output);
  }

  /// Appends `in_float`, which writes what `operation` writes.
  void append_unrounded(const Operation& operation, Operation in_float) {
    const bool rounds = is_int8(value(operation.output).dtype);
    if (rounds) in_float.output = add_value();
    model_.program.operations.push_back(in_float);
    if (rounds) convert(in_float.output, operation.output);
  }

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
    const auto [found, is_new] = in_float_.try_emplace(index, static_cast<int>(model_.program.values.size()));
    if (is_new) convert(index, add_value());
    return found->second;
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
  bool exact_sums_;
  std::map<int, int> in_float_{};  ///< values that have been converted
};

}  // namespace

Model legalized(const Model& model, bool exact_sums) {
  Legalizer legalizer(model, exact_sums);
  for (const auto& operation : model.program.operations) legalizer.append(operation);
  return legalizer.take();
}

}  // namespace tsq::runtime
