#include "runtime/program/fuse_operations.h"

#include <algorithm>
#include <optional>

#include "runtime/program/operation_table.h"

namespace tsq::runtime {
namespace {

bool is_clamp(PostOpKind kind) { return kind == PostOpKind::Relu || kind == PostOpKind::Clamp; }

/// May an operation of this kind do it after its own work?
bool takes(const Operation& operation, PostOpKind kind) {
  switch (row_of(operation.kind).post_ops) {
    case PostOpsAllowed::None:
      return false;
    case PostOpsAllowed::Clamps:
      return is_clamp(kind);
    case PostOpsAllowed::Functions:
      return kind != PostOpKind::Add && kind != PostOpKind::Mul;
    case PostOpsAllowed::All:
      return true;
  }
  return false;
}

class Fusing {
 public:
  explicit Fusing(ResolvedModel resolved)
      : model_(std::move(resolved.model)),
        shapes_(std::move(resolved.shapes)),
        writers_(model_.program.values.size()) {
    uses_.resize(model_.program.values.size(), 0);
    same_.resize(model_.program.values.size());
    for (std::size_t i = 0; i < same_.size(); ++i) same_[i] = static_cast<int>(i);
    for (const Operation& operation : model_.program.operations) count_uses(operation);
    for (const int output : model_.program.outputs) ++uses_[at(output)];
  }

  ResolvedModel take() && {
    for (Operation& operation : model_.program.operations) {
      for (int& input : operation.inputs) input = same_[at(input)];
      for (PostOp& post_op : operation.post_ops) {
        if (post_op.value >= 0) post_op.value = same_[at(post_op.value)];
      }
      if (!is_fused(operation)) append(std::move(operation));
    }
    model_.program.operations.clear();
    for (auto& operation : done_) {
      if (operation) model_.program.operations.push_back(std::move(*operation));
    }
    return {std::move(model_), std::move(shapes_)};
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  void count_uses(const Operation& operation) {
    for (const int input : operation.inputs) ++uses_[at(input)];
    for (const PostOp& post_op : operation.post_ops) {
      if (post_op.value >= 0) ++uses_[at(post_op.value)];
    }
  }

  [[nodiscard]] const Value& value(int index) const { return model_.program.values[at(index)]; }

  void append(Operation operation) {
    writers_[at(operation.output)] = done_.size();
    done_.emplace_back(std::move(operation));
  }

  /// The operation that writes a float value which nobody else reads; null where there is none.
  Operation* only_writer(int read) {
    const auto& writer = writers_[at(read)];
    if (!writer || uses_[at(read)] != 1 || value(read).dtype != Dtype::F32) return nullptr;
    return &*done_[*writer];
  }

  void write_elsewhere(Operation& operation, int output) {
    const auto place = *writers_[at(operation.output)];
    writers_[at(operation.output)].reset();
    writers_[at(output)] = place;
    operation.output = output;
  }

  /// Is there nothing left of an operation, since others do its work?
  bool is_fused(Operation& operation) {
    switch (operation.kind) {
      case Kind::Convert:
        return is_nothing(operation) || is_before_view(operation) || is_rounded_by_writer(operation);
      case Kind::Activation:
        return is_after_layer(operation);
      case Kind::Mul:
        return is_factor(operation) || is_of_layer(operation, PostOpKind::Mul);
      case Kind::Add:
        return is_of_layer(operation, PostOpKind::Add);
      default:
        return false;
    }
  }

  int add_value(const Value& type, const Shape& shape) {
    model_.program.values.push_back(
        {.dtype = type.dtype, .scale = type.scale, .zero_point = type.zero_point});
    shapes_.push_back(shape);
    uses_.push_back(1);
    writers_.emplace_back();
    same_.push_back(static_cast<int>(same_.size()));
    return same_.back();
  }

  /// What only moves values about moves bytes rather than floats, and leaves the rounding to what is before
  /// it.
  bool is_before_view(const Operation& convert) {
    Operation* writer = only_writer(convert.inputs.front());
    if (writer == nullptr || !moves(writer->kind) || !is_int8(value(convert.output).dtype)) return false;
    if (rounds_what_nobody_reads(*writer)) return false;
    Operation view = std::move(*writer);
    done_[*writers_[at(view.output)]].reset();
    writers_[at(view.output)].reset();
    Operation before{.kind = Kind::Convert, .inputs = view.inputs, .name = convert.name};
    before.output = add_value(value(convert.output), shapes_[at(view.inputs.front())]);
    view.inputs = {before.output};
    view.output = convert.output;
    if (!is_fused(before)) append(std::move(before));
    view.inputs = {same_[at(view.inputs.front())]};
    append(std::move(view));
    return true;
  }

  /// Would a rounding in front of views be a step of its own, of more values than a slice among them takes?
  bool rounds_what_nobody_reads(const Operation& view) {
    bool takes_part = false;
    const Operation* each = &view;
    for (; each != nullptr && moves(each->kind); each = only_writer(each->inputs.front()))
      takes_part = takes_part || each->kind == Kind::Slice;
    return takes_part && (each == nullptr || !may_round(*each));
  }

  static bool moves(Kind kind) {
    return is_view(kind) || kind == Kind::MaxPool || kind == Kind::ResizeNearest;
  }

  /// oneDNN has no products of floats with an int8 result.
  [[nodiscard]] bool may_write_int8(const Operation& writer) const {
    return !is_product(writer.kind) || is_int8(value(writer.inputs.front()).dtype);
  }

  /// Neither what moves values does, nor a conversion: what that reads has been rounded before.
  [[nodiscard]] bool may_round(const Operation& writer) const {
    return writer.kind != Kind::Convert && !moves(writer.kind) && may_write_int8(writer);
  }

  bool is_rounded_by_writer(const Operation& convert) {
    Operation* writer = only_writer(convert.inputs.front());
    if (writer == nullptr || !is_int8(value(convert.output).dtype) || !may_round(*writer)) return false;
    write_elsewhere(*writer, convert.output);
    return true;
  }

  /// The same codes under another number. What a call returns is kept apart.
  bool is_nothing(const Operation& convert) {
    const Value& from = value(convert.inputs.front());
    const Value& to = value(convert.output);
    const bool is_returned =
        std::ranges::find(model_.program.outputs, convert.output) != model_.program.outputs.end();
    if (is_returned || from.dtype != to.dtype || from.scale != to.scale || from.zero_point != to.zero_point)
      return false;
    same_[at(convert.output)] = convert.inputs.front();
    uses_[at(convert.inputs.front())] += uses_[at(convert.output)] - 1;
    return true;
  }

  /// oneDNN takes 32, and a change of scale may come with each.
  [[nodiscard]] static bool has_room(const Operation& writer, const Operation& next) {
    constexpr std::size_t kMostPostOps = 12;
    return writer.post_ops.size() + next.post_ops.size() < kMostPostOps;
  }

  bool is_after_layer(const Operation& activation) {
    Operation* writer = only_writer(activation.inputs.front());
    const bool fits = writer != nullptr && has_room(*writer, activation) &&
                      std::ranges::all_of(activation.post_ops,
                                          [&](const PostOp& each) { return takes(*writer, each.kind); });
    if (!fits || (is_int8(value(activation.output).dtype) && !may_write_int8(*writer))) return false;
    writer->post_ops.insert(writer->post_ops.end(), activation.post_ops.begin(), activation.post_ops.end());
    write_elsewhere(*writer, activation.output);
    return true;
  }

  /// A product of activations times a positive number.
  bool is_factor(const Operation& product) {
    for (std::size_t side = 0; side < 2; ++side) {
      Operation* writer = only_writer(product.inputs[side]);
      const auto& factor = value(product.inputs[1 - side]).constant;
      if (writer == nullptr || writer->kind != Kind::Matmul || !writer->post_ops.empty() || !factor) continue;
      const Constant& constant = model_.constants[at(*factor)];
      if (constant.dtype != Dtype::F32 || elements_of(constant.shape) != 1 || *constant.floats() <= 0 ||
          !constant.shape.empty())
        continue;
      writer->alpha *= static_cast<double>(*constant.floats());
      writer->post_ops = product.post_ops;
      write_elsewhere(*writer, product.output);
      return true;
    }
    return false;
  }

  /// A sum or product of what a layer returns and a value of its shape: the later of two layers takes it.
  bool is_of_layer(const Operation& binary, PostOpKind kind) {
    Operation* layer = nullptr;
    int other = -1;
    for (std::size_t side = 0; side < 2; ++side) {
      Operation* writer = only_writer(binary.inputs[side]);
      const bool fits = writer != nullptr && takes(*writer, kind) && has_room(*writer, binary) &&
                        (takes_shape(binary, side, kind) || is_channel_factor(*writer, binary, side, kind));
      if (!fits) continue;
      if (layer != nullptr && *writers_[at(layer->output)] > *writers_[at(writer->output)]) continue;
      layer = writer;
      other = binary.inputs[1 - side];
    }
    if (layer == nullptr || (is_int8(value(binary.output).dtype) && !may_write_int8(*layer))) return false;
    Operation merged = std::move(*layer);
    done_[*writers_[at(merged.output)]].reset();
    writers_[at(merged.output)].reset();
    merged.post_ops.push_back({.kind = kind, .value = other});
    merged.post_ops.insert(merged.post_ops.end(), binary.post_ops.begin(), binary.post_ops.end());
    merged.output = binary.output;
    append(std::move(merged));
    return true;
  }

  /// A product of a convolution's images with a constant for each channel.
  [[nodiscard]] bool is_channel_factor(const Operation& layer, const Operation& binary, std::size_t side,
                                       PostOpKind kind) const {
    const int other = binary.inputs[1 - side];
    const Shape& factors = shapes_[at(other)];
    const Shape& result = shapes_[at(binary.output)];
    if (kind != PostOpKind::Mul || layer.kind != Kind::Convolution || !value(other).constant ||
        value(other).dtype != Dtype::F32 || shapes_[at(binary.inputs[side])] != result ||
        factors.size() > result.size())
      return false;
    const std::size_t before = result.size() - factors.size();
    for (std::size_t d = 0; d < factors.size(); ++d) {
      if (factors[d] != 1 && (before + d != 1 || factors[d] != result[1])) return false;
    }
    return true;
  }

  [[nodiscard]] bool takes_shape(const Operation& binary, std::size_t side, PostOpKind kind) const {
    const int other = binary.inputs[1 - side];
    const Shape& result = shapes_[at(binary.output)];
    const bool is_codes = is_int8(value(other).dtype);
    if (kind == PostOpKind::Mul && is_codes &&
        (value(other).dtype != Dtype::U8 || value(other).zero_point != 0))
      return false;
    return other != binary.inputs[side] && shapes_[at(binary.inputs[side])] == result &&
           shapes_[at(other)] == result;
  }

  Model model_;
  std::vector<Shape> shapes_;
  std::vector<std::optional<std::size_t>> writers_;  ///< of values, places in done_
  std::vector<int> uses_{};                          ///< of values
  std::vector<int> same_{};                          ///< the value that has the codes of this one
  std::vector<std::optional<Operation>> done_{};
};

}  // namespace

ResolvedModel with_fused_operations(ResolvedModel resolved) { return Fusing(std::move(resolved)).take(); }

}  // namespace tsq::runtime
