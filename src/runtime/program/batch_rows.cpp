#include "runtime/program/batch_rows.h"

#include <algorithm>
#include <array>
#include <set>

#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

/// The dimensions that an operation mixes: a number of its output depends on numbers of its inputs that
/// differ from it in these places alone.
enum class Mixes : std::uint8_t {
  Nothing,
  Last,
  LastTwo,
  AfterFirst,
  Axis,     ///< `axis`
  Axes,     ///< `axes`
  Padded,   ///< those that are padded
  Order,    ///< those that change places
  Reshape,  ///< keeps the order of the elements
  Expand,
  Everything,
};

struct MixesRow {
  Kind kind;
  Mixes mixes;
};

/// Operations that a resolved model has; what is not here mixes everything.
constexpr std::array kMixes{
    MixesRow{Kind::Convert, Mixes::Nothing},
    MixesRow{Kind::Convolution, Mixes::AfterFirst},
    MixesRow{Kind::TransposedConvolution, Mixes::AfterFirst},
    MixesRow{Kind::Linear, Mixes::Last},
    MixesRow{Kind::Matmul, Mixes::LastTwo},
    MixesRow{Kind::Attention, Mixes::LastTwo},
    MixesRow{Kind::Add, Mixes::Nothing},
    MixesRow{Kind::Sub, Mixes::Nothing},
    MixesRow{Kind::Mul, Mixes::Nothing},
    MixesRow{Kind::Div, Mixes::Nothing},
    MixesRow{Kind::Maximum, Mixes::Nothing},
    MixesRow{Kind::Minimum, Mixes::Nothing},
    MixesRow{Kind::Activation, Mixes::Nothing},
    MixesRow{Kind::Prelu, Mixes::Last},  // its slopes belong to dimension 1, or to the only one
    MixesRow{Kind::ScaleShift, Mixes::Axis},
    MixesRow{Kind::Concat, Mixes::Axis},
    MixesRow{Kind::MaxPool, Mixes::AfterFirst},
    MixesRow{Kind::AvgPool, Mixes::AfterFirst},
    MixesRow{Kind::GlobalAvgPool, Mixes::AfterFirst},
    MixesRow{Kind::AdaptiveAvgPool, Mixes::AfterFirst},
    MixesRow{Kind::AdaptiveMaxPool, Mixes::AfterFirst},
    MixesRow{Kind::Mean, Mixes::Axes},
    MixesRow{Kind::Sum, Mixes::Axes},
    MixesRow{Kind::Amax, Mixes::Axes},
    MixesRow{Kind::Amin, Mixes::Axes},
    MixesRow{Kind::Softmax, Mixes::Axis},
    MixesRow{Kind::LogSoftmax, Mixes::Axis},
    MixesRow{Kind::LayerNorm, Mixes::Last},
    MixesRow{Kind::GroupNorm, Mixes::AfterFirst},
    MixesRow{Kind::Embedding, Mixes::Nothing},
    MixesRow{Kind::Pad, Mixes::Padded},
    MixesRow{Kind::Reshape, Mixes::Reshape},
    MixesRow{Kind::Permute, Mixes::Order},
    MixesRow{Kind::Expand, Mixes::Expand},
    MixesRow{Kind::Slice, Mixes::Axis},
    MixesRow{Kind::ResizeNearest, Mixes::AfterFirst},
    MixesRow{Kind::ResizeBilinear, Mixes::AfterFirst},
};

Mixes mixes_of(Kind kind) {
  const auto* row = std::ranges::find(kMixes, kind, &MixesRow::kind);
  return row == kMixes.end() ? Mixes::Everything : row->mixes;
}

/// Follows the rows of a batch from the inputs to the outputs.
class Follower {
 public:
  Follower(const ResolvedModel& resolved, std::int64_t rows)
      : resolved_(resolved), batch_{rows, std::vector<bool>(resolved.shapes.size(), false)} {}

  std::optional<BatchRows> run() {
    const auto& program = resolved_.model.program;
    for (const int input : program.inputs) {
      batch_.batched[at(input)] = !shape(input).empty() && shape(input)[0] == batch_.rows;
    }
    for (const auto& operation : program.operations) {
      if (!follow(operation)) return std::nullopt;
    }
    const bool all = std::ranges::all_of(program.outputs, [&](int output) { return is_batched(output); });
    return all ? std::optional(std::move(batch_)) : std::nullopt;
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  [[nodiscard]] const Shape& shape(int value) const { return resolved_.shapes[at(value)]; }
  [[nodiscard]] bool is_batched(int value) const { return batch_.batched[at(value)]; }

  bool follow(const Operation& operation) {
    const bool batched = std::ranges::any_of(operation.inputs, [&](int input) { return is_batched(input); });
    if (!batched) return follow_shared(operation);
    batch_.batched[at(operation.output)] = true;
    std::size_t rank = 0;
    for (const int input : operation.inputs) rank = std::max(rank, shape(input).size());
    return std::ranges::all_of(operation.inputs, [&](int input) { return lines_up(input, rank); }) &&
           keeps_rows(operation, rank) && post_ops_line_up(operation);
  }

  /// What every row has in common, unless it is repeated for each of them.
  bool follow_shared(const Operation& operation) {
    if (operation.kind == Kind::Expand) {
      const auto& input = shape(operation.inputs[0]);
      const auto& output = shape(operation.output);
      const bool repeats = input.size() < output.size() || (!input.empty() && input[0] == 1);
      batch_.batched[at(operation.output)] = repeats && !output.empty() && output[0] == batch_.rows;
    }
    return is_batched(operation.output) || std::ranges::none_of(operation.post_ops, [&](const auto& post_op) {
             return post_op.value >= 0 && is_batched(post_op.value);
           });
  }

  /// Does a tensor that is read as one of `rank` dimensions have its rows in the first, or the same for all?
  [[nodiscard]] bool lines_up(int value, std::size_t rank) const {
    if (is_batched(value)) return shape(value).size() == rank;
    return shape(value).size() < rank || shape(value)[0] == 1;
  }

  [[nodiscard]] bool post_ops_line_up(const Operation& operation) const {
    return std::ranges::all_of(operation.post_ops, [&](const auto& post_op) {
      return post_op.value < 0 || lines_up(post_op.value, shape(operation.output).size());
    });
  }

  /// `rank` is that of its inputs.
  [[nodiscard]] bool keeps_rows(const Operation& operation, std::size_t rank) const {
    switch (mixes_of(operation.kind)) {
      case Mixes::Nothing:
      case Mixes::AfterFirst:
        return true;
      case Mixes::Last:
        return rank > 1;
      case Mixes::LastTwo:
        return rank > 2;
      case Mixes::Axis:
        return axis_of(operation, rank) != 0;
      case Mixes::Axes:
        return !std::ranges::binary_search(operation.axes, 0);
      case Mixes::Padded:
        return rank > operation.padding_begin.size();
      case Mixes::Order:
        return operation.order.front() == 0;
      case Mixes::Reshape:
        return !shape(operation.output).empty() && shape(operation.output)[0] % batch_.rows == 0;
      case Mixes::Expand:
        return shape(operation.output).size() == rank;
      case Mixes::Everything:
        break;
    }
    return false;
  }

  const ResolvedModel& resolved_;
  BatchRows batch_;
};

}  // namespace

std::optional<BatchRows> batch_rows(const ResolvedModel& resolved) {
  std::set<std::int64_t> tried{0, 1};
  for (const int input : resolved.model.program.inputs) {
    const auto& shape = resolved.shapes[static_cast<std::size_t>(input)];
    if (shape.empty() || !tried.insert(shape[0]).second) continue;
    if (auto batch = Follower(resolved, shape[0]).run()) return batch;
  }
  return std::nullopt;
}

ResolvedModel with_rows(ResolvedModel resolved, const BatchRows& batch, std::int64_t rows) {
  for (std::size_t value = 0; value < resolved.shapes.size(); ++value) {
    if (batch.batched[value]) resolved.shapes[value][0] = resolved.shapes[value][0] / batch.rows * rows;
  }
  for (auto& operation : resolved.model.program.operations) {
    if (operation.kind != Kind::Reshape && operation.kind != Kind::Expand) continue;
    const auto& shape = resolved.shapes[static_cast<std::size_t>(operation.output)];
    operation.shape.assign(shape.begin(), shape.end());
  }
  return resolved;
}

}  // namespace tsq::runtime
