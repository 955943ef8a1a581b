#include "runtime/program/resolve.h"

#include <algorithm>

#include "runtime/program/error.h"
#include "runtime/program/integers.h"
#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

/// Resolves operations one after the other, each with the shapes of those before it.
class Resolver {
 public:
  Resolver(const Model& model, std::span<const std::int64_t> integers)
      : original_(model),
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
      make_plain(operation);
      resolved_.shapes[at(operation.output)] = shape_of(original_, i, operation, resolved_.shapes);
    }
    return std::move(resolved_);
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  void take_input(std::size_t index, const Shape& shape) {
    if (elements_of(shape) == 0) {
      throw ProgramError("the call",
                         "tensor " + std::to_string(index) + " is " + to_text(shape) + ", which is empty",
                         "give one with elements");
    }
    resolved_.shapes[at(original_.program.inputs[index])] = shape;
  }

  void make_plain(Operation& operation) {
    for (auto& extent : operation.shape) extent = integers_.number_of(extent);
    for (auto& extent : operation.size) extent = integers_.number_of(extent);
    operation.begin = integers_.number_of(operation.begin);
    operation.end = integers_.number_of(operation.end);
    if (operation.kind == Kind::Slice) clamp_range(operation);
  }

  /// PyTorch's rule: negative numbers count from the end, and what lies outside is moved to the border.
  void clamp_range(Operation& operation) const {
    const auto& input = resolved_.shapes[at(operation.inputs[0])];
    const auto axis = axis_of(operation, input.size());
    if (axis >= input.size()) return;  // its shape is refused
    const auto size = input[axis];
    const auto clamped = [size](std::int64_t number, std::int64_t lowest) {
      return std::clamp(number < 0 ? number + size : number, lowest, size);
    };
    operation.begin = clamped(operation.begin.number, 0);
    operation.end = clamped(operation.end.number, operation.begin.number);
  }

  const Model& original_;
  ResolvedModel resolved_;
  Integers integers_;
};

}  // namespace

ResolvedModel resolve(const Model& model, std::span<const Shape> inputs,
                      std::span<const std::int64_t> integers) {
  return Resolver(model, integers).run(inputs);
}

}  // namespace tsq::runtime
