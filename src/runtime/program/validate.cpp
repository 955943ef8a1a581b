#include "runtime/program/validate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

#include "runtime/program/attributes.h"
#include "runtime/program/error.h"
#include "runtime/program/known_values.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/table_rows.h"

namespace tsq::runtime {
namespace {

constexpr auto kRewrite = "the file is damaged or was written by hand: write it again";

/// Checks in the order of the list; `written` grows as operations write their values.
class Checker {
 public:
  explicit Checker(const Model& model) : model_(model), written_(model.program.values.size(), false) {}

  void run() {
    check_counts();
    for (std::size_t i = 0; i < model_.constants.size(); ++i) check_shape_of_constant(i);
    for (std::size_t i = 0; i < values().size(); ++i) check_value(i);
    for (const int input : program().inputs) check_input(input);
    if (program().given_integers < 0)
      fail("there are " + std::to_string(program().given_integers) + " given integers");
    for (std::size_t i = 0; i < program().integers.size(); ++i) check_integer(i);
    where_ = "the list of operations";
    if (program().operations.empty()) fail("it is empty", "write one operation or more");
    for (std::size_t i = 0; i < program().operations.size(); ++i) check_operation(i);
    where_ = "the outputs";
    if (program().outputs.empty()) fail("there are none", "name one value or more");
    for (const int output : program().outputs) require_written(output);
  }

 private:
  [[nodiscard]] const Program& program() const { return model_.program; }
  [[nodiscard]] const std::vector<Value>& values() const { return model_.program.values; }
  [[nodiscard]] const Value& value(int index) const { return values()[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const Constant& constant(int index) const {
    return model_.constants[static_cast<std::size_t>(index)];
  }

  [[noreturn]] void fail(const std::string& problem, const std::string& remedy = kRewrite) const {
    throw ProgramError(where_, problem, remedy);
  }

  /// Larger programs would take minutes to compile: some of that takes time with the square of the counts.
  void check_counts() {
    constexpr std::size_t kMostOperations = std::size_t{1} << 14;
    constexpr std::size_t kMostValues = std::size_t{1} << 16;
    constexpr std::size_t kMostIntegers = std::size_t{1} << 20;
    where_ = "the program";
    const auto require = [&](std::size_t count, std::size_t most, const char* what) {
      if (count <= most) return;
      fail("it has " + std::to_string(count) + " " + what,
           "at most " + std::to_string(most) + " are possible");
    };
    std::size_t read = 0;
    for (const auto& operation : program().operations)
      read += operation.inputs.size() + operation.post_ops.size();
    require(program().operations.size(), kMostOperations, "operations");
    require(values().size(), kMostValues, "values");
    require(program().integers.size(), kMostIntegers, "integers");
    require(read, kMostValues, "inputs and post-ops of operations");
    require(program().inputs.size() + program().outputs.size(), kMostValues, "inputs and outputs");
    require(static_cast<std::size_t>(std::max(program().given_integers, 0)), kMostIntegers, "given integers");
  }

  void check_shape_of_constant(std::size_t index) {
    where_ = "constant " + std::to_string(index);
    const auto& shape = model_.constants[index].shape;
    if (shape.size() > static_cast<std::size_t>(kMostDimensions) || !is_possible(shape)) {
      fail("it is " + to_text(shape),
           "tensors have at most " + std::to_string(kMostDimensions) + " dimensions and 2^59 elements");
    }
  }

  void check_value(std::size_t index) {
    where_ = "value " + std::to_string(index);
    const auto& checked = values()[index];
    if (checked.constant) {
      check_constant(*checked.constant);
      if (constant(*checked.constant).dtype != checked.dtype) fail("its constant has another dtype");
      written_[index] = true;
    }
    if (checked.dtype == Dtype::I64 && checked.constant)
      fail("its constant is i64", "such values are inputs");
    if (!is_int8(checked.dtype)) return;
    constexpr Finite kScales{std::numeric_limits<float>::min(), std::numeric_limits<float>::max()};
    if (!is_within(checked.scale, kScales)) {
      fail("its scale is " + std::to_string(checked.scale),
           "scales are positive numbers that a float of 32 bits holds");
    }
    const int lowest = checked.dtype == Dtype::U8 ? 0 : -128;
    if (checked.zero_point < lowest || checked.zero_point > lowest + 255) {
      fail("its zero point is " + std::to_string(checked.zero_point),
           std::string(name_of(checked.dtype)) + " has those from " + std::to_string(lowest) + " to " +
               std::to_string(lowest + 255));
    }
  }

  void check_input(int input) {
    where_ = "the inputs";
    require_exists(input);
    if (written_[static_cast<std::size_t>(input)])
      fail("value " + std::to_string(input) + " is written twice");
    written_[static_cast<std::size_t>(input)] = true;
  }

  void require_exists(int index) const {
    if (index < 0 || static_cast<std::size_t>(index) >= values().size()) {
      fail("there is no value " + std::to_string(index) + " among " + std::to_string(values().size()));
    }
  }

  void require_written(int index) const {
    require_exists(index);
    if (!written_[static_cast<std::size_t>(index)]) {
      fail("nothing has written value " + std::to_string(index) + " yet",
           "put the operation that writes it first");
    }
  }

  void check_constant(int index) const {
    if (index < 0 || static_cast<std::size_t>(index) >= model_.constants.size()) {
      fail("there is no constant " + std::to_string(index) + " among " +
           std::to_string(model_.constants.size()));
    }
  }

  void check_integer(std::size_t index) {
    where_ = "integer " + std::to_string(index);
    const auto& integer = program().integers[index];
    for (const auto& operand : {integer.left, integer.right}) {
      if (operand.integer >= static_cast<int>(index)) fail("it reads a row that does not stand before it");
    }
    if (integer.kind == IntegerKind::Size) require_exists(integer.value);
    if (integer.kind == IntegerKind::Given &&
        (integer.axis < 0 || integer.axis >= program().given_integers)) {
      fail("there is no integer " + std::to_string(integer.axis) + " among the " +
           std::to_string(program().given_integers) + " that a call gives");
    }
  }

  /// Are the sizes known from which this number is computed? Rows may stand in chains of any length: those
  /// that are still to be looked at wait in a list.
  void require_computable(const Extent& extent) {
    if (!extent.is_computed()) return;
    const auto rows = program().integers.size();
    if (static_cast<std::size_t>(extent.integer) >= rows) {
      fail("there is no integer " + std::to_string(extent.integer) + " among " + std::to_string(rows));
    }
    computable_.resize(rows, false);
    std::vector<Extent> waiting{extent};
    while (!waiting.empty()) {
      const Extent next = waiting.back();
      waiting.pop_back();
      if (!next.is_computed() || computable_[static_cast<std::size_t>(next.integer)]) continue;
      const auto& integer = program().integers[static_cast<std::size_t>(next.integer)];
      if (integer.kind == IntegerKind::Size) require_written(integer.value);
      computable_[static_cast<std::size_t>(next.integer)] = true;
      waiting.push_back(integer.left);
      waiting.push_back(integer.right);
    }
  }

  void check_operation(std::size_t index) {
    where_ = name_of_operation(program(), index);
    const auto& operation = program().operations[index];
    const auto& row = row_of(operation.kind);
    const auto count = static_cast<int>(operation.inputs.size());
    if (row.inputs < 0 ? count == 0 : count < row.inputs || count > row.inputs + row.more_inputs) {
      fail("it has " + std::to_string(count) + " inputs",
           "write " + (row.inputs < 0 ? std::string("one or more") : std::to_string(row.inputs)));
    }
    for (const int input : operation.inputs) require_written(input);
    for (const auto& post_op : operation.post_ops) check_post_op(post_op, row);
    check_weights(operation, row);
    check_dtypes(operation);
    check_numbers(operation);
    for (const auto& extent : extents_of(operation)) require_computable(extent);
    require_exists(operation.output);
    const auto output = static_cast<std::size_t>(operation.output);
    if (written_[output]) fail("value " + std::to_string(output) + " is written twice");
    written_[output] = true;
  }

  void check_post_op(const PostOp& post_op, const OperationRow& row) const {
    const std::string name = "post-op '" + std::string(name_of(post_op.kind)) + "'";
    const bool reads_value = members_of(post_op.kind) == PostOpMembers::Value;
    const bool clamps = post_op.kind == PostOpKind::Relu || post_op.kind == PostOpKind::Clamp;
    const bool is_number = row.kind != Kind::Number || number_after(post_op, 1).has_value();
    const bool allowed = is_number && (row.post_ops == PostOpsAllowed::All ||
                                       (row.post_ops == PostOpsAllowed::Functions && !reads_value) ||
                                       (row.post_ops == PostOpsAllowed::Clamps && clamps));
    if (!allowed) fail(name + " is none of this kind's", "write an operation of its own");
    if (!is_within(post_op.alpha, kFloats) || !is_within(post_op.beta, kFloats))
      fail("a number of " + name + " is no float of 32 bits");
    if (post_op.kind == PostOpKind::Clamp && post_op.alpha > post_op.beta)
      fail(name + " has an alpha above its beta", "write the lower bound as alpha");
    if (!reads_value && post_op.value >= 0)
      fail(name + " has a value", "only 'add' and 'mul' read one: remove it");
    if (reads_value) check_value_of(post_op);
  }

  void check_value_of(const PostOp& post_op) const {
    require_written(post_op.value);
    const auto& read = value(post_op.value);
    if (read.dtype == Dtype::I64) fail("a post-op reads an i64 value");
    if (post_op.kind == PostOpKind::Mul && (read.dtype == Dtype::S8 || read.zero_point != 0)) {
      fail("post-op 'mul' reads an int8 value with a zero point",
           "write an operation of its own, or a value of dtype f32 or u8 with zero point 0");
    }
  }

  void check_weights(const Operation& operation, const OperationRow& row) const {
    const bool weighted = has(row.attributes, Attribute::Weight);
    if (weighted && !operation.weight) fail("its weight is missing");
    for (const auto& index :
         {operation.weight, operation.weight_scales, operation.bias, operation.recurrent_weight,
          operation.recurrent_scales, operation.recurrent_bias}) {
      if (index) check_constant(*index);
    }
    if (operation.bias && constant(*operation.bias).dtype != Dtype::F32) fail("its bias is not f32");
    if (is_recurrent(operation.kind)) return check_recurrent(operation);
    if (weighted) return check_weight(operation);
    if (operation.kind == Kind::Embedding) return check_table(operation);
    if (operation.weight && constant(*operation.weight).dtype != Dtype::F32) fail("its weight is not f32");
    if (operation.kind == Kind::Prelu && !operation.weight) fail("its weight is missing");
  }

  void check_table(const Operation& operation) const {
    if (!operation.weight) fail("its weight is missing");
    const auto& weight = constant(*operation.weight);
    if (weight.shape.size() != 2) fail("its weight has not two dimensions");
    require_length("weight_scales", operation.weight_scales, weight.shape[0], false);
    if (operation.weight_scales) require_finite("weight_scales", constant(*operation.weight_scales));
    require_length("bias", operation.bias, weight.shape[0], false);
    if (is_int8(weight.dtype) != operation.weight_scales.has_value() || weight.dtype == Dtype::I64)
      fail("its weight is " + std::string(name_of(weight.dtype)), "int8 rows have scales, f32 rows none");
    if (operation.bias && !operation.weight_scales) fail("it has a bias and no weight_scales");
  }

  void check_weight(const Operation& operation) const {
    const auto& weight = constant(*operation.weight);
    const bool linear = operation.kind == Kind::Linear;
    const auto rank = weight.shape.size();
    if (linear ? rank != 2 : rank < 3 || rank > 5) {
      fail("its weight has the shape " + to_text(weight.shape),
           linear ? "a linear layer's has two dimensions" : "a convolution's has three to five dimensions");
    }
    if (elements_of(weight.shape) == 0) fail("its weight is empty");
    if (operation.groups < 1 || weight.shape[0] % operation.groups != 0) {
      fail(std::to_string(operation.groups) + " groups do not divide the " + std::to_string(weight.shape[0]) +
           " channels of its weight");
    }
    const bool transposed = operation.kind == Kind::TransposedConvolution;
    const auto channels = transposed ? weight.shape[1] * operation.groups : weight.shape[0];
    require_length("bias", operation.bias, channels, false);
    check_scales(weight, "weight_scales", operation.weight_scales, channels);
  }

  void check_scales(const Constant& weight, const char* name, std::optional<int> scales,
                    std::int64_t channels) const {
    if (weight.dtype == Dtype::F32) return;
    if (weight.dtype != Dtype::S8) fail("its weight is u8", "weights are s8 or f32");
    if (!scales) fail(std::string("its ") + name + " are missing");
    require_length(name, scales, channels, true);
    require_finite(name, constant(*scales));
  }

  void check_recurrent(const Operation& operation) const {
    if (!operation.recurrent_weight) fail("its recurrent_weight is missing");
    const std::int64_t gates = operation.kind == Kind::Lstm ? 4 : 3;
    const auto& weight = constant(*operation.weight);
    const auto& recurrent = constant(*operation.recurrent_weight);
    const auto rows = weight.shape.empty() ? 0 : weight.shape[0];
    const bool fit = weight.shape.size() == 2 && elements_of(weight.shape) > 0 && rows % gates == 0 &&
                     recurrent.shape == Shape{rows, rows / gates};
    if (!fit) {
      fail("its weights have the shapes " + to_text(weight.shape) + " and " + to_text(recurrent.shape),
           "for " + std::to_string(gates) + " gates both have as many rows, and the second a " +
               std::to_string(gates) + "th of them as columns");
    }
    require_length("bias", operation.bias, rows, false);
    require_length("recurrent_bias", operation.recurrent_bias, rows, false);
    check_scales(weight, "weight_scales", operation.weight_scales, rows);
    check_scales(recurrent, "recurrent_scales", operation.recurrent_scales, rows);
  }

  void require_length(const char* name, std::optional<int> index, std::int64_t wanted, bool or_one) const {
    if (!index) return;
    const auto length = elements_of(constant(*index).shape);
    if (constant(*index).dtype != Dtype::F32) fail(std::string("its ") + name + " is not f32");
    if (length == wanted || (or_one && length == 1)) return;
    fail(std::string("its ") + name + " has " + std::to_string(length) + " numbers",
         std::to_string(wanted) + (or_one ? " or one are wanted" : " are wanted"));
  }

  /// Numbers that are folded into others.
  void require_finite(const char* name, const Constant& list) const {
    const std::span numbers(list.floats(), static_cast<std::size_t>(elements_of(list.shape)));
    if (std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); })) return;
    fail(std::string("its ") + name + " holds what is no finite number");
  }

  void check_dtypes(const Operation& operation) const {
    require_exists(operation.output);
    const bool writes_rows = value(operation.output).dtype == Dtype::I64;
    const bool moves_rows = is_view(operation.kind) && value(operation.inputs[0]).dtype == Dtype::I64;
    if (writes_rows != moves_rows) fail("not both its input and its output are i64");
    const bool embeds = operation.kind == Kind::Embedding;
    if (operation.kind == Kind::Number && value(operation.output).dtype != Dtype::F32)
      fail("its output is not f32");
    for (const int input : operation.inputs) {
      const bool rows = value(input).dtype == Dtype::I64;
      if (rows && !embeds && !moves_rows) fail("it reads an i64 value", "only embeddings and views do");
      if (!rows && embeds) fail("the rows that it reads are not i64");
    }
  }

  // Whether a number of an attribute lies within its limits; calls check what they compute.
  static bool is_within(std::int64_t number, Whole limits) {
    return limits.low <= number && number <= limits.high;
  }
  static bool is_within(const Extent& extent, Whole limits) {
    return extent.is_computed() || is_within(extent.number, limits);
  }
  static bool is_within(double number, Finite limits) {
    return limits.low <= number && number <= limits.high;  // which what is no number does not
  }

  template <typename Number, typename Limits>
  void require_within(const char* name, const Number& number, Limits limits) const {
    if (is_within(number, limits)) return;
    if constexpr (std::is_same_v<Number, double>) {
      fail(std::string("its ") + name + " is " + std::to_string(number), "write a number that fits it");
    } else {
      fail(std::string("its ") + name + " holds " + std::to_string(Extent(number).number),
           "numbers from " + std::to_string(limits.low) + " to " + std::to_string(limits.high) + " fit it");
    }
  }

  template <typename Number, typename Limits>
  void require_within(const char* name, const std::vector<Number>& list, Limits limits) const {
    if (list.size() > static_cast<std::size_t>(kMostDimensions)) {
      fail(std::string("its ") + name + " has " + std::to_string(list.size()) + " numbers",
           "tensors have at most " + std::to_string(kMostDimensions) + " dimensions");
    }
    for (const Number& number : list) require_within(name, number, limits);
  }

  template <typename T>
  void require_within(const char* /*name*/, const T& /*value*/, Anything /*limits*/) const {}

  void check_numbers(const Operation& operation) const {
    constexpr std::string_view kTable = "attributes";
    std::size_t rows = 0;
    for_each_attribute([&](const char* name, auto member, auto limits, auto... /*wanted_by*/) {
      if (std::is_same_v<decltype(limits), Anything> || is_left_out(kTable, rows++)) return;
      require_within(name, operation.*member, limits);
    });
    require_left_out_is_one_of(kTable, rows);
    const bool chosen = operation.kind == Kind::Attention && operation.alpha == 0;
    if (operation.alpha <= 0 && !chosen) fail("its alpha is no positive number");
    const bool adaptive = operation.kind == Kind::AdaptiveAvgPool || operation.kind == Kind::AdaptiveMaxPool;
    if (adaptive && operation.size.empty()) fail("its size is missing");
    if (std::ranges::count(operation.shape, Extent(-1)) > 1 && operation.kind != Kind::Expand)
      fail("its shape leaves more than one size open", "write one -1 at most");
    check_windows(operation);
  }

  /// Strides, paddings and dilations are those of each dimension of a window, or none are written.
  void check_windows(const Operation& operation) const {
    const auto& row = row_of(operation.kind);
    const bool pads = operation.kind == Kind::Pad;
    if (!has(row.attributes, Attribute::Padding)) return;
    const bool weighs = has(row.attributes, Attribute::Weight);
    const auto dimensions = weighs ? constant(*operation.weight).shape.size() - 2
                            : pads ? operation.padding_begin.size()
                                   : operation.kernel.size();
    if (!weighs && !pads && (dimensions < 1 || dimensions > 3))
      fail("its kernel is " + to_text(operation.kernel), "a window has one to three dimensions");
    for (const auto* written :
         {&operation.stride, &operation.dilation, &operation.padding_begin, &operation.padding_end}) {
      if (written->size() == dimensions || (written->empty() && !pads)) continue;
      if (pads && (written == &operation.stride || written == &operation.dilation)) continue;
      fail(to_text(*written) + " is not for " + std::to_string(dimensions) + " dimensions",
           "write a number for each");
    }
    const bool crops =
        std::ranges::any_of(operation.padding_end, [](std::int64_t padding) { return padding < 0; });
    if (crops && operation.kind != Kind::TransposedConvolution)
      fail("its padding_end is negative", "only that of a transposed convolution may be");
  }

  static constexpr Finite kFloats{std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max()};

  const Model& model_;
  std::vector<bool> written_;
  std::vector<bool> computable_{};  ///< integers whose sizes are known
  std::string where_{};
};

}  // namespace

void validate(const Model& model) { Checker(model).run(); }

}  // namespace tsq::runtime
