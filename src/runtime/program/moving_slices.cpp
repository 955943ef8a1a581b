#include "runtime/program/moving_slices.h"

#include <algorithm>

#include "runtime/program/integers.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/shapes.h"

namespace tsq::runtime {

MovingSlices::MovingSlices(const Program& program, const ResolvedModel& resolved,
                           std::span<const std::int64_t> integers)
    : slices_(resolved.moving.size()) {
  if (program.given_integers == 0) return;
  integers_.integers = program.integers;
  shapes_ = resolved.shapes;
  Integers known(integers_, integers, shapes_);
  const auto of_call = rows_of_call(program);
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const auto& written = program.operations[i];
    Row row;
    if (std::ranges::binary_search(resolved.moving, i)) {
      const auto& input = shapes_[static_cast<std::size_t>(written.inputs[0])];
      const auto axis = axis_of(written, input.size());
      row.slice = {.begin = written.begin,
                   .end = written.end,
                   .step = written.step,
                   .size = input[axis],
                   .length = shapes_[static_cast<std::size_t>(written.output)][axis]};
      rows_.push_back(std::move(row));
      continue;
    }
    for (const auto& extent : extents_of(written)) {
      if (!extent.is_computed() || !of_call[static_cast<std::size_t>(extent.integer)]) continue;
      row.numbers.written.push_back(extent);
      row.numbers.known.push_back(known.number_of(extent));
    }
    if (!row.numbers.written.empty()) rows_.push_back(std::move(row));
  }
}

std::optional<Shape> MovingSlices::begins(std::span<const std::int64_t> integers) const {
  if (rows_.empty()) return Shape{};
  Integers computed(integers_, integers, shapes_);
  Shape begins;
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.numbers.written.size(); ++i) {
      if (computed.number_of(row.numbers.written[i]) != row.numbers.known[i]) return std::nullopt;
    }
    if (!row.slice) continue;
    const auto range = clamped_range(computed.number_of(row.slice->begin), computed.number_of(row.slice->end),
                                     row.slice->size);
    if (places_of(range, row.slice->step) != row.slice->length) return std::nullopt;
    begins.push_back(range.begin);
  }
  return begins;
}

}  // namespace tsq::runtime
