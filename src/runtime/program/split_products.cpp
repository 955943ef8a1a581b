#include "runtime/program/split_products.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/program/operation_table.h"
#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

/// What takes the columns of a linear layer apart: slices of its last dimension, or of one of the dimensions
/// into which the columns have been divided.
struct Parting {
  std::vector<std::size_t> moves{};   ///< a reshape and a permutation before the slices, or none
  std::vector<std::size_t> slices{};  ///< none where the layer stays whole
  std::int64_t width = 1;             ///< columns for each place of the sliced dimension
};

class Splitter {
 public:
  explicit Splitter(ResolvedModel& resolved) : resolved_(resolved) {}

  void run() {
    before_ = std::move(program().operations);
    program().operations.clear();
    std::vector<bool> replaced(before_.size(), false);
    for (std::size_t i = 0; i < before_.size(); ++i) {
      if (replaced[i]) continue;
      const auto parting = parting_of(before_[i]);
      for (const auto move : parting.moves) replaced[move] = !parting.slices.empty();
      for (const auto slice : parting.slices) {
        replaced[slice] = true;
        append_part(before_[i], parting, before_[slice]);
      }
      if (parting.slices.empty()) append(before_[i]);
    }
  }

 private:
  Program& program() { return resolved_.model.program; }
  [[nodiscard]] const Shape& shape(int value) const {
    return resolved_.shapes[static_cast<std::size_t>(value)];
  }

  void append(const Operation& operation) { program().operations.push_back(operation); }

  Parting parting_of(const Operation& linear) {
    const bool reads_tensors =
        std::ranges::any_of(linear.post_ops, [](const PostOp& post_op) { return post_op.value >= 0; });
    if (linear.kind != Kind::Linear || reads_tensors) return {};
    Parting parting;
    int divided = linear.output;
    std::size_t axis = shape(divided).size() - 1;
    if (const auto reshape = only_reader(divided); reshape && before_[*reshape].kind == Kind::Reshape) {
      const auto permute = only_reader(before_[*reshape].output);
      if (!permute || before_[*permute].kind != Kind::Permute) return {};
      const Shape& sizes = shape(before_[*reshape].output);
      if (!divides_last(shape(divided), sizes)) return {};
      for (auto d = axis + 1; d < sizes.size(); ++d) parting.width *= sizes[d];
      divided = before_[*permute].output;
      const auto& order = before_[*permute].order;
      axis =
          static_cast<std::size_t>(std::ranges::find(order, static_cast<std::int64_t>(axis)) - order.begin());
      parting.moves = {*reshape, *permute};
    }
    parting.slices = slices_of(divided, axis, parting.width);
    return parting;
  }

  /// Are all sizes but the last the same, and the last perhaps several?
  static bool divides_last(const Shape& whole, const Shape& divided) {
    if (divided.size() < whole.size()) return false;
    return std::equal(whole.begin(), whole.end() - 1, divided.begin());
  }

  [[nodiscard]] bool is_returned(int value) {
    return std::ranges::find(program().outputs, value) != program().outputs.end();
  }

  std::optional<std::size_t> only_reader(int value) {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < before_.size(); ++i) {
      if (!reads(before_[i], value)) continue;
      if (found) return std::nullopt;
      found = i;
    }
    return is_returned(value) ? std::nullopt : found;
  }

  /// All that reads a value, if it takes parts of an axis, at least two and none twice.
  std::vector<std::size_t> slices_of(int value, std::size_t axis, std::int64_t width) {
    constexpr std::int64_t kFewest = 16;  // columns that are worth a kernel
    if (is_returned(value)) return {};
    std::vector<std::size_t> slices;
    std::int64_t taken = 0;
    for (std::size_t i = 0; i < before_.size(); ++i) {
      if (!reads(before_[i], value)) continue;
      const bool takes_part = before_[i].kind == Kind::Slice && before_[i].step == 1 &&
                              !before_[i].begin.is_computed() &&
                              axis_of(before_[i], shape(value).size()) == axis;
      const auto size = before_[i].end.number - before_[i].begin.number;
      taken += size;
      if (!takes_part || size * width < kFewest || taken > shape(value)[axis]) return {};
      slices.push_back(i);
    }
    return slices.size() < 2 ? std::vector<std::size_t>{} : slices;
  }

  /// A layer with some of the columns, moved as the whole has been, in the place of a slice.
  void append_part(const Operation& linear, const Parting& parting, const Operation& slice) {
    const auto begin = slice.begin.number;
    const auto size = slice.end.number - begin;
    Operation part = linear;
    const auto columns = shape(linear.output).back();
    for (auto* index : {&part.weight, &part.weight_scales, &part.bias}) {
      if (*index) *index = rows_of(**index, columns, begin * parting.width, size * parting.width);
    }
    if (parting.moves.empty()) {
      part.output = slice.output;
      return append(part);
    }
    Operation reshape = before_[parting.moves[0]];
    Operation permute = before_[parting.moves[1]];
    const auto axis = shape(linear.output).size() - 1;
    part.output = add_like(linear.output, axis, size * parting.width);
    reshape.inputs = {part.output};
    reshape.output = add_like(reshape.output, axis, size);
    reshape.shape.assign(shape(reshape.output).begin(), shape(reshape.output).end());
    permute.inputs = {reshape.output};
    permute.output = slice.output;
    append(part);
    append(reshape);
    append(permute);
  }

  /// A new value that differs from another in one size.
  int add_like(int value, std::size_t axis, std::int64_t size) {
    const Value type = program().values[static_cast<std::size_t>(value)];
    Shape sizes = shape(value);
    sizes[axis] = size;
    program().values.push_back(type);
    resolved_.shapes.push_back(std::move(sizes));
    return static_cast<int>(program().values.size()) - 1;
  }

  /// Some rows of a constant that has `count` of them, whatever its shape; they stay where they are.
  int rows_of(int index, std::int64_t count, std::int64_t begin, std::int64_t size) {
    auto& constants = resolved_.model.constants;
    Constant rows = constants[static_cast<std::size_t>(index)];
    if (elements_of(rows.shape) == 1) return index;  // one scale for all
    const auto length = elements_of(rows.shape) / count;
    const auto* data = static_cast<const std::byte*>(rows.data.get()) + begin * length * bytes_of(rows.dtype);
    rows.data = std::shared_ptr<const void>(rows.data, data);
    rows.shape = rows.shape.size() == 2 && rows.shape[0] == count ? Shape{size, length} : Shape{size};
    constants.push_back(rows);
    return static_cast<int>(constants.size()) - 1;
  }

  ResolvedModel& resolved_;
  std::vector<Operation> before_{};
};

}  // namespace

void split_products(ResolvedModel& resolved) { Splitter(resolved).run(); }

}  // namespace tsq::runtime
