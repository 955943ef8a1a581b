#include <algorithm>
#include <numeric>

#include "fuzz/call.h"
#include "runtime/program/error.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/resolve.h"
#include "runtime/program/validate.h"

namespace tsq::fuzz {

using namespace runtime;
using test::Tensor;

namespace {

/// What a program may compute, so that a call takes milliseconds.
constexpr std::int64_t kMostElements = 20000;

class Drawing {
 public:
  explicit Drawing(Input& input) : input_(input) {}

  Call run() {
    draw_inputs();
    draw_integers();
    for (std::int64_t left = input_.integer(1, 6); left > 0 && !input_.is_empty(); --left) draw_operation();
    auto& program = call_.model.program;
    const int last = static_cast<int>(program.values.size()) - 1;
    program.outputs = {last};
    if (input_.one_in(4)) program.outputs.push_back(any_value());
    return std::move(call_);
  }

 private:
  Program& program() { return call_.model.program; }

  int add_value(const Value& value, const Shape& shape) {
    program().values.push_back(value);
    shapes_.push_back(shape);
    return static_cast<int>(shapes_.size()) - 1;
  }

  int add_constant(Dtype dtype, const Shape& shape) {
    test::Writer writer;
    Tensor tensor = any_tensor(input_, dtype, shape);
    writer.constant(tensor);
    call_.model.constants.push_back(writer.model.constants.front());
    return static_cast<int>(call_.model.constants.size()) - 1;
  }

  /// Numbers that are small and positive, as scales are.
  int add_scales(std::int64_t count) {
    test::Writer writer;
    Tensor tensor{Dtype::F32, {count}, {}};
    for (std::int64_t i = 0; i < count; ++i) tensor.numbers.push_back(0.002 * static_cast<double>(1 + i % 5));
    writer.constant(tensor);
    call_.model.constants.push_back(writer.model.constants.front());
    return static_cast<int>(call_.model.constants.size()) - 1;
  }

  Value any_kind_of_value() {
    const auto dtype = static_cast<Dtype>(input_.integer(0, 2));
    if (dtype == Dtype::F32) return {};
    const auto lowest = dtype == Dtype::U8 ? 0 : -128;
    return {.dtype = dtype,
            .scale = input_.real(0.005, 0.05),
            .zero_point = static_cast<int>(input_.coin() ? 0 : lowest + input_.byte())};
  }

  void draw_inputs() {
    for (std::int64_t left = input_.integer(1, 3); left > 0; --left) {
      const Value value = input_.one_in(10) ? Value{.dtype = Dtype::I64} : any_kind_of_value();
      const Shape shape = any_shape(input_, 5, 7);
      program().inputs.push_back(add_value(value, shape));
      call_.inputs.push_back(any_tensor(input_, value.dtype, shape));
    }
    if (!input_.one_in(4)) return;
    Value held = any_kind_of_value();
    const Shape shape = any_shape(input_, 4, 7);
    held.constant = add_constant(held.dtype, shape);
    add_value(held, shape);
  }

  Extent any_operand() {
    const auto rows = static_cast<std::int64_t>(program().integers.size());
    if (rows > 0 && input_.coin()) return Extent::of_integer(static_cast<int>(input_.integer(0, rows - 1)));
    return input_.integer(-3, 9);
  }

  void draw_integers() {
    if (!input_.one_in(4)) return;
    program().given_integers = static_cast<int>(input_.integer(0, 2));
    for (int i = 0; i < program().given_integers; ++i) call_.integers.push_back(input_.integer(-4, 9));
    for (std::int64_t left = input_.integer(0, 4); left > 0; --left) {
      Integer row{.kind = static_cast<IntegerKind>(
                      input_.integer(0, static_cast<std::int64_t>(IntegerKind::Border)))};
      row.value = any_value();
      row.axis = row.kind == IntegerKind::Size ? input_.integer(-3, 3) : input_.integer(0, 1);
      row.left = any_operand();
      row.right = any_operand();
      program().integers.push_back(row);
    }
  }

  /// The last one most often.
  int any_value() {
    const auto last = static_cast<std::int64_t>(program().values.size()) - 1;
    return static_cast<int>(input_.coin() ? last : input_.integer(0, last));
  }

  Extent any_extent(std::int64_t low, std::int64_t high) {
    if (!program().integers.empty() && input_.one_in(6)) return any_operand();
    return input_.integer(low, high);
  }

  /// One number for each dimension of space.
  Shape spatial_numbers(std::size_t count, std::int64_t low, std::int64_t high) {
    if (input_.one_in(3)) return {};
    Shape numbers(input_.one_in(32) ? count + 1 : count);
    for (auto& number : numbers) number = input_.integer(low, high);
    return numbers;
  }

  /// The sizes that a constant should have, which it mostly gets.
  Shape disturbed(Shape sizes) {
    if (!sizes.empty() && input_.one_in(24))
      sizes[static_cast<std::size_t>(input_.integer(0, static_cast<std::int64_t>(sizes.size()) - 1))] =
          input_.integer(0, 9);
    return sizes;
  }

  void add_weight(Operation& operation, std::optional<int>& weight, std::optional<int>& scales,
                  const Shape& sizes, std::int64_t channels, bool int8) {
    (void)operation;
    weight = add_constant(int8 ? Dtype::S8 : Dtype::F32, disturbed(sizes));
    if (int8) scales = add_scales(input_.one_in(4) ? 1 : channels);
  }

  void draw_convolution(Operation& operation, const Shape& shape) {
    if (shape.size() < 3) return;
    const auto channels = shape[1];
    const auto groups = input_.coin() ? 1 : input_.coin() ? channels : input_.integer(1, 4);
    if (groups == 0) return;
    operation.groups = groups;
    const auto outputs = groups * input_.integer(1, 5);
    const bool transposed = operation.kind == Kind::TransposedConvolution;
    Shape sizes = transposed ? Shape{channels, outputs / groups} : Shape{outputs, channels / groups};
    for (std::size_t d = 2; d < shape.size(); ++d) sizes.push_back(input_.integer(1, 4));
    add_weight(operation, operation.weight, operation.weight_scales, sizes, outputs, input_.coin());
    if (input_.coin()) operation.bias = add_constant(Dtype::F32, disturbed({outputs}));
  }

  void draw_recurrent(Operation& operation, const Shape& shape) {
    if (shape.empty()) return;
    const std::int64_t gates = operation.kind == Kind::Lstm ? 4 : 3;
    const auto states = input_.integer(1, 9);
    const bool int8 = input_.coin();
    add_weight(operation, operation.weight, operation.weight_scales, {gates * states, shape.back()},
               gates * states, int8);
    add_weight(operation, operation.recurrent_weight, operation.recurrent_scales, {gates * states, states},
               gates * states, int8);
    if (input_.coin()) operation.bias = add_constant(Dtype::F32, disturbed({gates * states}));
    if (input_.coin()) operation.recurrent_bias = add_constant(Dtype::F32, disturbed({gates * states}));
    operation.backward = input_.coin();
    operation.reads_states = input_.one_in(4);
  }

  void draw_constants(Operation& operation, const OperationRow& row, const Shape& shape) {
    const auto size_at = [&](std::int64_t axis) {
      const auto rank = static_cast<std::int64_t>(shape.size());
      const auto place = axis < 0 ? axis + rank : axis;
      return place >= 0 && place < rank ? shape[static_cast<std::size_t>(place)] : 1;
    };
    if (operation.kind == Kind::Convolution || operation.kind == Kind::TransposedConvolution)
      return draw_convolution(operation, shape);
    if (is_recurrent(operation.kind)) return draw_recurrent(operation, shape);
    if (operation.kind == Kind::Linear) {
      const auto outputs = input_.integer(1, 40);
      add_weight(operation, operation.weight, operation.weight_scales, {outputs, size_at(-1)}, outputs,
                 input_.coin());
      if (input_.coin()) operation.bias = add_constant(Dtype::F32, disturbed({outputs}));
      return;
    }
    if (operation.kind == Kind::Embedding) {
      add_weight(operation, operation.weight, operation.weight_scales, {4, input_.integer(1, 40)}, 4,
                 input_.coin());
      if (operation.weight_scales && input_.coin()) operation.bias = add_constant(Dtype::F32, {4});
      return;
    }
    const bool by_channel = operation.kind == Kind::GroupNorm || operation.kind == Kind::Prelu;
    const auto count = size_at(by_channel ? 1 : operation.kind == Kind::LayerNorm ? -1 : operation.axis);
    if (has(row.attributes, Attribute::OptionalWeight) && !input_.one_in(4))
      operation.weight = add_constant(Dtype::F32, disturbed({count}));
    if (has(row.attributes, Attribute::Bias) && !input_.one_in(4))
      operation.bias = add_constant(Dtype::F32, disturbed({count}));
  }

  std::int64_t any_axis(std::size_t rank) {
    const auto dimensions = static_cast<std::int64_t>(rank);
    return input_.one_in(32) ? input_.integer(-9, 9)
                             : input_.integer(-dimensions, std::max<std::int64_t>(dimensions - 1, 0));
  }

  /// Sizes with as many elements as `shape`, mostly.
  Extents any_target(const Operation& operation, const Shape& shape) {
    Extents target;
    if (operation.kind == Kind::Expand) {
      if (input_.coin()) target.push_back(any_extent(1, 4));
      for (const auto size : shape)
        target.push_back(size == 1 && input_.coin() ? any_extent(1, 5) : Extent(input_.coin() ? -1 : size));
      return target;
    }
    auto left = operation.kind == Kind::Reshape ? elements_of(shape) : input_.integer(1, 8);
    for (std::int64_t divisor = 2; divisor < 8 && left > 1; ++divisor) {
      if (left % divisor != 0 || !input_.coin()) continue;
      target.push_back(divisor);
      left /= divisor;
    }
    target.push_back(input_.coin() ? Extent(-1) : Extent(left));
    if (input_.one_in(8)) target[0] = any_extent(-1, 6);
    return target;
  }

  void draw_attributes(Operation& operation, const OperationRow& row, const Shape& shape) {
    const auto wants = [&](Attribute attribute) { return has(row.attributes, attribute); };
    const auto space = shape.size() < 2 ? 0 : shape.size() - 2;
    if (wants(Attribute::Kernel)) {
      for (std::size_t d = 0; d < space; ++d) operation.kernel.push_back(input_.integer(1, 4));
    }
    if (wants(Attribute::Stride)) operation.stride = spatial_numbers(space, 1, 3);
    if (wants(Attribute::Dilation)) operation.dilation = spatial_numbers(space, 1, 3);
    if (wants(Attribute::Padding)) {
      const auto count = operation.kind == Kind::Pad ? static_cast<std::size_t>(input_.integer(0, 3)) : space;
      operation.padding_begin = spatial_numbers(count, 0, 3);
      operation.padding_end =
          spatial_numbers(count, operation.kind == Kind::TransposedConvolution ? -2 : 0, 3);
      if (operation.kind == Kind::Pad) operation.padding_end.resize(operation.padding_begin.size());
    }
    operation.ceil_mode = wants(Attribute::CeilMode) && input_.coin();
    operation.count_include_pad = wants(Attribute::CountIncludePad) && input_.coin();
    operation.causal = wants(Attribute::Causal) && input_.coin();
    if (wants(Attribute::Alpha)) operation.alpha = input_.coin() ? 1 : input_.real(0.1, 2);
    if (wants(Attribute::Axis))
      operation.axis = any_axis(shape.size() + (operation.kind == Kind::Unsqueeze ? 1 : 0));
    if (wants(Attribute::OtherAxis)) operation.other_axis = any_axis(shape.size());
    if (wants(Attribute::EndAxis)) operation.end_axis = any_axis(shape.size());
    if (wants(Attribute::Range)) {
      operation.begin = any_extent(-4, 5);
      operation.end = any_extent(-4, 12);
      operation.step = input_.integer(1, 3);
    }
    if (wants(Attribute::TargetShape)) operation.shape = any_target(operation, shape);
    if (wants(Attribute::Order)) draw_order(operation, shape.size());
    if (wants(Attribute::Size)) draw_size(operation, space);
    if (wants(Attribute::Axes)) {
      for (std::int64_t left = input_.integer(0, 3); left > 0; --left)
        operation.axes.push_back(any_axis(shape.size()));
      operation.keep_dims = input_.coin();
    }
    if (wants(Attribute::Fill)) operation.fill = input_.real(-2, 2);
    if (wants(Attribute::Number)) operation.number = any_extent(-3, 9);
    if (operation.kind == Kind::GroupNorm) operation.groups = input_.integer(1, 4);
  }

  void draw_order(Operation& operation, std::size_t rank) {
    operation.order.resize(rank);
    std::iota(operation.order.begin(), operation.order.end(), 0);
    for (std::size_t i = 1; i < rank; ++i)
      std::swap(operation.order[i],
                operation.order[static_cast<std::size_t>(input_.integer(0, static_cast<std::int64_t>(i)))]);
    if (rank > 0 && input_.one_in(32)) operation.order[0] = input_.integer(-7, 7);
  }

  void draw_size(Operation& operation, std::size_t space) {
    const bool resizes = operation.kind == Kind::ResizeNearest || operation.kind == Kind::ResizeBilinear;
    for (std::size_t d = 0; d < space; ++d) {
      if (resizes && operation.size.empty() && (d > 0 ? !operation.scale_factors.empty() : input_.coin()))
        operation.scale_factors.push_back(input_.real(0.3, 2.5));
      else
        operation.size.push_back(any_extent(1, 9));
    }
  }

  PostOp any_post_op() {
    PostOp post_op{
        .kind = static_cast<PostOpKind>(input_.integer(0, static_cast<std::int64_t>(PostOpKind::Mul)))};
    post_op.alpha = input_.real(post_op.kind == PostOpKind::Clamp ? -1 : 0.1, 1);
    if (post_op.kind == PostOpKind::Clamp || post_op.kind == PostOpKind::Linear)
      post_op.beta = input_.real(0.5, 4);
    if (post_op.kind == PostOpKind::Add || post_op.kind == PostOpKind::Mul) post_op.value = any_value();
    return post_op;
  }

  void draw_operation() {
    const auto table = operation_table();
    const auto& row =
        table[static_cast<std::size_t>(input_.integer(0, static_cast<std::int64_t>(table.size()) - 1))];
    Operation operation{.kind = row.kind};
    const auto most = row.inputs < 0 ? input_.integer(1, 3) : row.inputs + input_.integer(0, row.more_inputs);
    for (std::int64_t i = 0; i < most; ++i) operation.inputs.push_back(any_value());
    const Shape shape =
        operation.inputs.empty() ? Shape{} : shapes_[static_cast<std::size_t>(operation.inputs[0])];
    const auto constants = call_.model.constants.size();
    draw_attributes(operation, row, shape);
    draw_constants(operation, row, shape);
    if (row.post_ops != PostOpsAllowed::None && input_.one_in(3)) {
      for (std::int64_t left = input_.integer(1, 3); left > 0; --left)
        operation.post_ops.push_back(any_post_op());
    }
    const bool moves_rows =
        !operation.inputs.empty() && is_view(row.kind) &&
        program().values[static_cast<std::size_t>(operation.inputs[0])].dtype == Dtype::I64;
    Value output = moves_rows ? Value{.dtype = Dtype::I64} : any_kind_of_value();
    if (is_view(row.kind) && !moves_rows && input_.coin())
      output = program().values[static_cast<std::size_t>(operation.inputs[0])];
    output.constant.reset();
    keep_if_it_fits(operation, output, constants);
  }

  /// Now and then one that does not fit is kept, too.
  void keep_if_it_fits(Operation operation, const Value& output, std::size_t constants) {
    operation.output = add_value(output, {});
    program().operations.push_back(operation);
    program().outputs = {operation.output};
    try {
      validate(call_.model);
      std::vector<Shape> given;
      for (const auto& input : call_.inputs) given.push_back(input.sizes);
      const auto shapes = resolve(call_.model, given, call_.integers).shapes;
      const auto elements = [](const Shape& shape) { return elements_of(shape); };
      if (std::ranges::all_of(shapes, [&](const Shape& shape) { return elements(shape) <= kMostElements; })) {
        shapes_ = shapes;
        return;
      }
    } catch (const ProgramError&) {
      if (input_.one_in(64)) return;
    }
    program().operations.pop_back();
    program().values.pop_back();
    shapes_.pop_back();
    call_.model.constants.resize(constants);
  }

  Input& input_;
  Call call_{};
  std::vector<Shape> shapes_{};  ///< of every value
};

}  // namespace

Call drawn_call(Input& input) { return Drawing(input).run(); }

}  // namespace tsq::fuzz
