#pragma once

#include <optional>
#include <span>

#include "runtime/program/resolve.h"

/// What a model that is resolved for one call is for others, with tensors of the same shapes.
namespace tsq::runtime {

class MovingSlices {
 public:
  MovingSlices() = default;
  /// `resolved` is what `program` has become with these integers, before anything is fused.
  MovingSlices(const Program& program, const ResolvedModel& resolved, std::span<const std::int64_t> integers);

  /// Where the slices begin for these integers of a call; none if they make another shape or number.
  /// Throws ProgramError where an index leaves its dimension.
  [[nodiscard]] std::optional<Shape> begins(std::span<const std::int64_t> integers) const;

  /// Does any slice move?
  [[nodiscard]] bool any() const { return slices_ > 0; }

 private:
  /// The numbers of one operation that calls compute.
  struct Numbers {
    Extents written{};
    Shape known{};
  };
  struct Slice {
    Extent begin{};
    Extent end{};
    std::int64_t step = 1;
    std::int64_t size = 0;    ///< of the dimension
    std::int64_t length = 0;  ///< of the slice
  };
  /// One for each operation that integers of a call change, in their order: what later ones read of shapes is
  /// known to be alike by then.
  struct Row {
    Numbers numbers{};
    std::optional<Slice> slice{};
  };

  Program integers_{};  ///< its integers, and nothing else
  std::vector<Shape> shapes_{};
  std::vector<Row> rows_{};
  std::size_t slices_ = 0;
};

}  // namespace tsq::runtime
