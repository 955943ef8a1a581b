#pragma once

#include "runtime/program/checked.h"
#include "runtime/program/error.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/shapes.h"

/// What the rules for shapes of operations share.
namespace tsq::runtime {

/// One operation's question, and how it complains.
struct Asked {
  const Model& model;
  std::size_t index;
  const Operation& plain;
  const std::vector<Shape>& shapes;

  [[nodiscard]] const Operation& operation() const { return plain; }
  [[nodiscard]] const Shape& input(std::size_t i = 0) const {
    return shapes[static_cast<std::size_t>(operation().inputs[i])];
  }
  [[nodiscard]] const Shape& weight() const {
    return model.constants[static_cast<std::size_t>(*operation().weight)].shape;
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw ProgramError(name_of_operation(model.program, index), problem,
                       "call the program with shapes like those that it was made for");
  }
  void require(bool condition, const std::string& problem) const {
    if (!condition) fail(problem);
  }
  /// A size that has not left 64 bits.
  [[nodiscard]] std::int64_t known(Checked size) const {
    if (!size) fail("a size of its output leaves 64 bits");
    return *size;
  }
};

Shape broadcast_shape(const Asked& asked, const Shape& a, const Shape& b);

Shape shape_of_reshape(const Asked& asked);
Shape shape_of_expand(const Asked& asked);
Shape shape_of_permute(const Asked& asked);
Shape shape_of_slice(const Asked& asked);

}  // namespace tsq::runtime
