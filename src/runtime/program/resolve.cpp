#include "runtime/program/resolve.h"

#include <algorithm>
#include <numeric>

#include "runtime/program/checked.h"
#include "runtime/program/error.h"
#include "runtime/program/integers.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

/// Resolves operations one after the other, each with the shapes of those before it.
class Resolver {
 public:
  Resolver(const Model& model, std::span<const std::int64_t> integers)
      : original_(model),
        of_call_(rows_of_call(model.program)),
        resolved_{.model = model, .shapes = std::vector<Shape>(model.program.values.size())},
        integers_(model.program, integers, resolved_.shapes) {}
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  ResolvedModel run(std::span<const Shape> inputs) {
    for (std::size_t i = 0; i < resolved_.shapes.size(); ++i) {
      const auto& constant = original_.program.values[i].constant;
      if (constant) resolved_.shapes[i] = original_.constants[at(*constant)].shape;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) take_input(i, inputs[i]);
    for (std::size_t i = 0; i < original_.program.operations.size(); ++i) {
      auto& operation = resolved_.model.program.operations[i];
      where_ = name_of_operation(original_.program, i);
      make_plain(operation);
      lower(operation);
      if (is_moving(original_.program.operations[i])) {
        operation.begin.integer = static_cast<int>(resolved_.moving.size());
        resolved_.moving.push_back(i);
      }
      resolved_.shapes[at(operation.output)] = shape_of(original_, i, operation, resolved_.shapes);
    }
    return std::move(resolved_);
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  void take_input(std::size_t index, const Shape& shape) {
    if (shape.size() > static_cast<std::size_t>(kMostDimensions) || !is_possible(shape)) {
      throw ProgramError(
          "the call", "tensor " + std::to_string(index) + " is " + to_text(shape),
          "give one of at most " + std::to_string(kMostDimensions) + " dimensions and 2^59 elements");
    }
    resolved_.shapes[at(original_.program.inputs[index])] = shape;
  }

  void make_plain(Operation& operation) {
    if (operation.kind == Kind::Reshape) keep_written_zeros(operation);
    for (auto& extent : operation.shape) extent = integers_.number_of(extent);
    for (auto& extent : operation.size) extent = integers_.number_of(extent);
    operation.begin = integers_.number_of(operation.begin);
    operation.end = integers_.number_of(operation.end);
    operation.number = integers_.number_of(operation.number);
  }

  [[nodiscard]] bool is_moving(const Operation& written) const {
    const auto moves = [&](const Extent& extent) {
      return extent.is_computed() && of_call_[at(extent.integer)];
    };
    return written.kind == Kind::Slice && (moves(written.begin) || moves(written.end));
  }

  /// A 0 that is written keeps the input's size; one that a call computes is a dimension without elements.
  /// What is left for -1 is found beside sizes that are kept, which may be empty.
  void keep_written_zeros(Operation& operation) const {
    const auto& input = input_of(operation);
    Shape others = input;
    Checked known = 1;
    bool keeps = false;
    for (std::size_t d = 0; d < operation.shape.size(); ++d) {
      auto& extent = operation.shape[d];
      if (extent.is_computed()) {
        known = 0;
      } else if (extent.number != 0) {
        known = checked_product(known, extent.number == -1 ? 1 : extent.number);
      } else if (d < input.size()) {
        extent = input[d];
        others[d] = 1;
        keeps = true;
      } else {
        throw ProgramError(
            where_, "its shape keeps dimension " + std::to_string(d) + ", which " + to_text(input) + " lacks",
            "call the program with shapes like those that it was made for");
      }
    }
    const auto open = std::ranges::find(operation.shape, Extent(-1));
    const bool is_known = keeps && known && *known > 0 && open != operation.shape.end();
    if (is_known && elements_of(others) % *known == 0) *open = elements_of(others) / *known;
  }

  [[nodiscard]] const Shape& input_of(const Operation& operation) const {
    return resolved_.shapes[at(operation.inputs[0])];
  }

  /// An axis counted from the front, which is one of `rank`.
  [[nodiscard]] std::size_t axis_within(std::int64_t axis, std::size_t rank) const {
    const auto counted = axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
    if (counted >= 0 && counted < static_cast<std::int64_t>(rank)) return static_cast<std::size_t>(counted);
    throw ProgramError(
        where_, "its axis " + std::to_string(axis) + " is none of " + std::to_string(rank) + " dimensions",
        "call the program with shapes like those that it was made for");
  }

  /// How many dimensions an axis is one of. PyTorch's rule for concatenations: [0] is nothing.
  [[nodiscard]] std::size_t rank_of_axis(const Operation& operation) const {
    for (const int input : operation.inputs) {
      const Shape& shape = resolved_.shapes[at(input)];
      if (operation.kind != Kind::Concat || shape != Shape{0}) return shape.size();
    }
    return 1;
  }

  /// One number stands for all dimensions after the second.
  void repeat_size(Operation& operation) const {
    const std::size_t rank = input_of(operation).size();
    if (rank < 3) return;  // has no size after it, which shape_of says
    if (operation.size.size() == 1) operation.size.resize(rank - 2, operation.size.front());
    if (operation.scale_factors.size() == 1)
      operation.scale_factors.resize(rank - 2, operation.scale_factors.front());
  }

  /// Says what an operation does in numbers that count from the front.
  void lower(Operation& operation) const {
    if (has(row_of(operation.kind).attributes, Attribute::Axis) && operation.kind != Kind::Unsqueeze)
      operation.axis = static_cast<std::int64_t>(axis_within(operation.axis, rank_of_axis(operation)));
    switch (operation.kind) {
      case Kind::ResizeNearest:
      case Kind::ResizeBilinear:
        return repeat_size(operation);
      case Kind::Slice:
        return clamp_range(operation);
      case Kind::Permute:
        for (auto& axis : operation.order) {
          axis = static_cast<std::int64_t>(axis_within(axis, input_of(operation).size()));
        }
        return;
      case Kind::Transpose:
        return lower_transpose(operation);
      case Kind::Unsqueeze:
      case Kind::Squeeze:
      case Kind::Flatten:
      case Kind::Unflatten:
        return lower_to_reshape(operation);
      case Kind::Expand:
        return keep_sizes(operation);
      case Kind::Mean:
      case Kind::Sum:
      case Kind::Amax:
      case Kind::Amin:
        return sort_axes(operation);
      case Kind::AdaptiveAvgPool:
      case Kind::AdaptiveMaxPool:
        return lower_to_pool(operation);
      default:
        return;
    }
  }

  void lower_transpose(Operation& operation) const {
    const auto rank = input_of(operation).size();
    operation.kind = Kind::Permute;
    operation.order.resize(rank);
    std::iota(operation.order.begin(), operation.order.end(), 0);
    std::swap(operation.order[axis_within(operation.axis, rank)],
              operation.order[axis_within(operation.other_axis, rank)]);
  }

  void lower_to_reshape(Operation& operation) const {
    Shape shape = input_of(operation);
    const auto rank = shape.size();
    const auto place = [&shape](std::size_t axis) {
      return shape.begin() + static_cast<std::ptrdiff_t>(axis);
    };
    if (operation.kind == Kind::Unsqueeze) {
      shape.insert(place(axis_within(operation.axis, rank + 1)), 1);
    } else if (operation.kind == Kind::Squeeze) {
      const auto axis = axis_within(operation.axis, rank);
      if (shape[axis] == 1) shape.erase(place(axis));
    } else if (operation.kind == Kind::Unflatten) {
      const auto axis = axis_within(operation.axis, rank);
      const auto parts = parts_of(shape[axis], numbers_of(operation.shape));
      shape.erase(place(axis));
      shape.insert(place(axis), parts.begin(), parts.end());
    } else {
      const auto first = axis_within(operation.axis, rank);
      const auto last = axis_within(operation.end_axis, rank);
      if (first > last) {
        throw ProgramError(where_, "its end_axis stands before its axis",
                           "call the program with shapes like those that it was made for");
      }
      for (auto axis = first + 1; axis <= last; ++axis) shape[first] *= shape[axis];
      shape.erase(place(first + 1), place(last + 1));
    }
    operation.kind = Kind::Reshape;
    operation.shape.assign(shape.begin(), shape.end());
  }

  /// Into how many a dimension is divided, where one of the numbers may be -1.
  [[nodiscard]] Shape parts_of(std::int64_t size, Shape parts) const {
    const auto open = std::ranges::find(parts, -1);
    if (open == parts.end()) return parts;
    *open = 1;
    const auto known = checked_elements(parts);
    if (!known || *known <= 0 || size % *known != 0) {
      throw ProgramError(where_, std::to_string(size) + " is not divided into parts like " + to_text(parts),
                         "call the program with shapes like those that it was made for");
    }
    *open = size / *known;
    return parts;
  }

  /// -1 keeps the input's size, counted from the last dimension.
  void keep_sizes(Operation& operation) const {
    const auto& input = input_of(operation);
    for (std::size_t d = 0; d < operation.shape.size() && d < input.size(); ++d) {
      auto& extent = operation.shape[operation.shape.size() - 1 - d];
      if (extent.number == -1) extent = input[input.size() - 1 - d];
    }
  }

  void sort_axes(Operation& operation) const {
    const auto rank = input_of(operation).size();
    if (operation.axes.empty()) {
      operation.axes.resize(rank);
      std::iota(operation.axes.begin(), operation.axes.end(), 0);
    }
    for (auto& axis : operation.axes) axis = static_cast<std::int64_t>(axis_within(axis, rank));
    std::ranges::sort(operation.axes);
    const auto repeated = std::ranges::unique(operation.axes);
    operation.axes.erase(repeated.begin(), repeated.end());
  }

  /// Windows of equal size that do not overlap are those of a pool.
  void lower_to_pool(Operation& operation) const {
    const auto& input = input_of(operation);
    if (input.size() != operation.size.size() + 2) return;  // its shape is refused
    const bool average = operation.kind == Kind::AdaptiveAvgPool;
    const bool one = std::ranges::all_of(operation.size, [](const Extent& size) { return size.number == 1; });
    if (average && one) {
      operation.kind = Kind::GlobalAvgPool;
      return;
    }
    if (elements_of(input) == 0) return;
    Shape kernel;
    for (std::size_t d = 0; d < operation.size.size(); ++d) {
      const auto size = operation.size[d].number;
      if (size <= 0 || input[d + 2] % size != 0) return;
      kernel.push_back(input[d + 2] / size);
    }
    operation.kind = average ? Kind::AvgPool : Kind::MaxPool;
    operation.kernel = kernel;
    operation.stride = kernel;
  }

  void clamp_range(Operation& operation) const {
    const auto& input = input_of(operation);
    const auto size = input[axis_within(operation.axis, input.size())];
    const auto range = clamped_range(operation.begin.number, operation.end.number, size);
    operation.begin = range.begin;
    operation.end = range.end;
    operation.step = std::min(operation.step, std::max<std::int64_t>(size, 1));  // takes the same places
  }

  const Model& original_;
  std::vector<bool> of_call_;
  ResolvedModel resolved_;
  Integers integers_;
  std::string where_{};
};

}  // namespace

Range clamped_range(std::int64_t begin, std::int64_t end, std::int64_t size) {
  const auto clamped = [size](std::int64_t number, std::int64_t lowest) {
    return std::clamp(number < 0 ? number + size : number, lowest, size);
  };
  const auto first = clamped(begin, 0);
  return {first, clamped(end, first)};
}

std::int64_t places_of(Range range, std::int64_t step) {
  const auto length = range.end - range.begin;
  return length == 0 ? 0 : (length - 1) / step + 1;
}

std::vector<bool> rows_of_call(const Program& program) {
  std::vector<bool> of_call;
  const auto is_of_call = [&](const Extent& extent) {
    return extent.is_computed() && of_call[static_cast<std::size_t>(extent.integer)];
  };
  for (const auto& integer : program.integers) {
    of_call.push_back(integer.kind == IntegerKind::Given || is_of_call(integer.left) ||
                      is_of_call(integer.right));
  }
  return of_call;
}

ResolvedModel resolve(const Model& model, std::span<const Shape> inputs,
                      std::span<const std::int64_t> integers) {
  return Resolver(model, integers).run(inputs);
}

}  // namespace tsq::runtime
