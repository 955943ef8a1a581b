#include "backends/kernels/program_work.h"

#include <algorithm>
#include <string_view>

#include "backends/kernels/call_work.h"
#include "runtime/program/channels_last.h"
#include "runtime/program/fuse_attention.h"
#include "runtime/program/fuse_operations.h"
#include "runtime/program/known_values.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/resolve.h"
#include "runtime/program/split_products.h"

namespace tsq::kernels {
namespace {

using runtime::Kind;
using runtime::Operation;
using runtime::PostOpKind;
using runtime::ResolvedModel;
using runtime::Shape;

double elements(const Shape& shape) { return static_cast<double>(runtime::elements_of(shape)); }
double size_at(const Shape& shape, std::size_t from_end) {
  return shape.size() < from_end ? 1 : static_cast<double>(shape[shape.size() - from_end]);
}

const Shape& shape_of(const ResolvedModel& resolved, int value) {
  return resolved.shapes[static_cast<std::size_t>(value)];
}
runtime::Dtype dtype_of(const ResolvedModel& resolved, int value) {
  return resolved.model.program.values[static_cast<std::size_t>(value)].dtype;
}
const Shape& weight_of(const ResolvedModel& resolved, const Operation& operation) {
  return resolved.model.constants[static_cast<std::size_t>(*operation.weight)].shape;
}

/// Whether it computes with codes: those of its input, or of a weight alone.
bool reads_codes(const ResolvedModel& resolved, const Operation& operation) {
  const bool goes_by_weight = runtime::is_recurrent(operation.kind) || operation.kind == Kind::Embedding;
  if (goes_by_weight && operation.weight)
    return runtime::is_int8(resolved.model.constants[static_cast<std::size_t>(*operation.weight)].dtype);
  return !operation.inputs.empty() && runtime::is_int8(dtype_of(resolved, operation.inputs.front()));
}

/// The operation that writes a value; null for inputs.
const Operation* writer_of(const ResolvedModel& resolved, int value) {
  const auto& operations = resolved.model.program.operations;
  const auto found = std::ranges::find(operations, value, &Operation::output);
  return found == operations.end() ? nullptr : &*found;
}

/// Values of which an image's channels lie last in memory.
using LieLast = std::vector<bool>;
bool lies_last(const LieLast& last, int value) { return last[static_cast<std::size_t>(value)]; }

/// With one channel or one position both orders are the same.
bool has_two_orders(const Shape& image) {
  return image.size() >= 3 && image[1] != 1 && elements(image) != static_cast<double>(image[0] * image[1]);
}

/// Whether it joins dimensions that lie in another order in memory: it copies, where other views do not.
bool copies(const ResolvedModel& resolved, const Operation& operation, const LieLast& last) {
  if (operation.kind != Kind::Reshape && operation.kind != Kind::Flatten) return false;
  const int input = operation.inputs.front();
  const Operation* writer = writer_of(resolved, input);
  const bool is_permuted = writer != nullptr && writer->kind == Kind::Permute;
  const Shape& before = shape_of(resolved, input);
  const bool joins = shape_of(resolved, operation.output).size() < before.size();
  return (is_permuted && operation.kind == Kind::Reshape) ||
         (joins && lies_last(last, input) && has_two_orders(before));
}

/// Views leave values where they lie.
LieLast values_that_lie_last(const ResolvedModel& resolved) {
  LieLast last = runtime::channels_last_values(resolved.model.program, resolved.shapes);
  for (const Operation& operation : resolved.model.program.operations) {
    if (runtime::is_view(operation.kind))
      last[static_cast<std::size_t>(operation.output)] =
          lies_last(last, operation.inputs.front()) && !copies(resolved, operation, last);
  }
  return last;
}

bool requantizes(const ResolvedModel& resolved, const Operation& operation) {
  const auto value_of = [&](int value) -> const runtime::Value& {
    return resolved.model.program.values[static_cast<std::size_t>(value)];
  };
  const runtime::Value& written = value_of(operation.output);
  return std::ranges::any_of(operation.inputs, [&](int input) {
    return value_of(input).scale != written.scale || value_of(input).zero_point != written.zero_point;
  });
}

std::string name_of(const ResolvedModel& resolved, const Operation& operation, const LieLast& last) {
  const bool reads = reads_codes(resolved, operation);
  if (operation.kind == Kind::Convert) {
    if (!reads) return "quantize";
    return runtime::is_int8(dtype_of(resolved, operation.output)) ? "requantize" : "dequantize";
  }
  if (copies(resolved, operation, last)) return reads ? "int8 permuted copy" : "float permuted copy";
  if (runtime::is_view(operation.kind)) return "view";
  if (operation.kind == Kind::Concat && reads && requantizes(resolved, operation))
    return "requantizing concat";
  return std::string(reads ? "int8 " : "float ").append(runtime::name_of(operation.kind));
}

/// Of the values that it reads and writes; what follows from the kind comes on top.
KernelWork values_of(const ResolvedModel& resolved, const Operation& operation) {
  std::vector<Sizes> inputs;
  for (const int input : operation.inputs) inputs.push_back(shape_of(resolved, input));
  const std::vector<Sizes> outputs{shape_of(resolved, operation.output)};
  KernelWork work = values_work(inputs, outputs);
  constexpr std::size_t kOfImages = 4;
  if (!inputs.empty() && inputs.front().size() >= kOfImages)
    work.lines = elements(inputs.front()) / std::max(1.0, static_cast<double>(inputs.front()[1]));
  return work;
}

/// Whether an operation turns an image: inside of a program its channels may lie last, while the caller's lie
/// in the order of their dimensions, and so do those that were joined.
bool turns_image(const ResolvedModel& resolved, const Operation& operation, const LieLast& last) {
  const runtime::Program& program = resolved.model.program;
  const auto is_among = [](const std::vector<int>& values, int value) {
    return std::ranges::find(values, value) != values.end();
  };
  if (operation.inputs.empty()) return false;
  const int input = operation.inputs.front();
  const bool comes_in = is_among(program.inputs, input);
  if (!has_two_orders(shape_of(resolved, comes_in ? input : operation.output)))
    return copies(resolved, operation, last) && lies_last(last, input);
  const bool reads_last = lies_last(last, input);
  const bool writes_last = lies_last(last, operation.output);
  if (comes_in) return writes_last;
  if (is_among(program.outputs, operation.output)) return writes_last || reads_last;
  return reads_last != writes_last && (operation.kind == Kind::Convert || copies(resolved, operation, last));
}

KernelWork convolution_of(const ResolvedModel& resolved, const Operation& operation) {
  return convolution_work({.input = shape_of(resolved, operation.inputs.front()),
                           .output = shape_of(resolved, operation.output),
                           .weight = weight_of(resolved, operation),
                           .stride = operation.stride,
                           .padding = operation.padding_begin,
                           .dilation = operation.dilation,
                           .groups = operation.groups,
                           .is_transposed = operation.kind == Kind::TransposedConvolution});
}

KernelWork linear_of(const ResolvedModel& resolved, const Operation& operation) {
  const Shape& input = shape_of(resolved, operation.inputs.front());
  const double inputs = size_at(input, 1);
  return linear_work(elements(input) / std::max(1.0, inputs), inputs,
                     size_at(shape_of(resolved, operation.output), 1));
}

KernelWork product_of(const ResolvedModel& resolved, const Operation& operation) {
  KernelWork work = values_of(resolved, operation);
  const Shape& left = shape_of(resolved, operation.inputs[0]);
  work.inputs = size_at(left, 1);
  work.rows = size_at(left, 2);
  work.outputs = size_at(shape_of(resolved, operation.inputs[1]), 1);
  work.groups = work.values_out / std::max(1.0, work.rows * work.outputs);
  return work;
}

KernelWork attention_of(const ResolvedModel& resolved, const Operation& operation) {
  KernelWork work = values_of(resolved, operation);
  const Shape& query = shape_of(resolved, operation.inputs[0]);
  work.inputs = size_at(query, 1);
  work.rows = size_at(query, 2);
  work.outputs = size_at(shape_of(resolved, operation.inputs[1]), 2);  // the keys
  work.groups = elements(query) / std::max(1.0, work.rows * work.inputs);
  return work;
}

KernelWork recurrent_of(const ResolvedModel& resolved, const Operation& operation) {
  KernelWork work = values_of(resolved, operation);
  const Shape& input = shape_of(resolved, operation.inputs.front());
  const double features = size_at(input, 1);
  const double gates = operation.kind == Kind::Lstm ? 4 : 3;
  work.outputs = static_cast<double>(weight_of(resolved, operation)[0]) / gates;
  work.inputs = features + work.outputs;
  work.rows = elements(input) / std::max(1.0, features);
  work.steps = static_cast<double>(input.front());
  work.weights = work.inputs * work.outputs;
  return work;
}

KernelWork work_of(const ResolvedModel& resolved, const Operation& operation) {
  switch (operation.kind) {
    case Kind::Convolution:
    case Kind::TransposedConvolution:
      return convolution_of(resolved, operation);
    case Kind::Linear:
      return linear_of(resolved, operation);
    case Kind::Matmul:
      return product_of(resolved, operation);
    case Kind::Attention:
      return attention_of(resolved, operation);
    case Kind::Lstm:
    case Kind::Gru:
      return recurrent_of(resolved, operation);
    case Kind::Embedding: {
      KernelWork work = values_of(resolved, operation);
      work.values_in = work.values_out;
      return work;
    }
    default:
      return values_of(resolved, operation);
  }
}

void add_post_ops(const Operation& operation, KernelWork& work) {
  for (const runtime::PostOp& post_op : operation.post_ops) {
    switch (post_op.kind) {
      case PostOpKind::Add:
      case PostOpKind::Mul:
        work.tensor_posts += work.values_out;
        break;
      case PostOpKind::Relu:
      case PostOpKind::Clamp:
      case PostOpKind::Linear:
      case PostOpKind::Abs:
      case PostOpKind::Neg:
      case PostOpKind::Square:
      case PostOpKind::LeakyRelu:
      case PostOpKind::Hardsigmoid:
      case PostOpKind::Hardswish:
        work.simple_posts += work.values_out;
        break;
      case PostOpKind::Sigmoid:
      case PostOpKind::Silu:
      case PostOpKind::Exp:
      case PostOpKind::Elu:
        work.function_posts += work.values_out;
        break;
      default:
        work.heavy_posts += work.values_out;
    }
  }
}

}  // namespace

std::vector<OperationWork> operations_of_program(const runtime::Model& model,
                                                 const std::vector<Shape>& inputs,
                                                 const std::vector<std::int64_t>& integers) {
  ResolvedModel resolved = runtime::resolve(model, inputs, integers);
  runtime::settle_known_values(resolved);
  runtime::split_products(resolved);
  const ResolvedModel fused =
      runtime::with_fused_operations(runtime::with_fused_attention(std::move(resolved)));
  const LieLast last = values_that_lie_last(fused);
  std::vector<OperationWork> operations;
  for (const Operation& operation : fused.model.program.operations) {
    operations.push_back({.name = name_of(fused, operation, last), .work = work_of(fused, operation)});
    KernelWork& work = operations.back().work;
    add_post_ops(operation, work);
    work.is_turned = turns_image(fused, operation, last);
    // Layers read and write the layout in which the program computes, but for images that come in or go out.
    if (operation.kind == Kind::Convolution || operation.kind == Kind::TransposedConvolution)
      work.is_channels_last = !work.is_turned;
    if (operation.kind == Kind::Concat) {
      work.is_channels_last = lies_last(last, operation.output);
      work.lines *= static_cast<double>(operation.inputs.size());  // each is copied by itself
    }
    work.is_returned =
        std::ranges::find(fused.model.program.outputs, operation.output) != fused.model.program.outputs.end();
    if (operation.kind == Kind::MaxPool || operation.kind == Kind::AvgPool)
      work.taps = elements(operation.kernel);
  }
  return operations;
}

KernelWork program_call_work(const runtime::Model& model, const std::vector<Shape>& inputs,
                             std::size_t operations) {
  KernelWork work{.steps = static_cast<double>(operations)};
  for (const Shape& shape : inputs) work.values_in += elements(shape);
  work.rows = static_cast<double>(model.program.inputs.size() + model.program.outputs.size());
  return work;
}

}  // namespace tsq::kernels
