#include "runtime/program/known_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "runtime/program/error.h"
#include "runtime/program/operation_table.h"

namespace tsq::runtime {
namespace {

class Settling {
 public:
  explicit Settling(ResolvedModel& resolved) : resolved_(resolved) {}

  void run() {
    const auto before = std::move(program().operations);
    program().operations.clear();
    for (const auto& operation : before) {
      if (is_empty(operation.output)) continue;
      if (const auto number = known_number(operation)) {
        numbers_[operation.output] = *number;
        program().values[at(operation.output)].constant = constant_of(*number);
      } else if (std::ranges::none_of(operation.inputs, [&](int input) { return is_empty(input); })) {
        program().operations.push_back(operation);
      } else {
        append_of_nothing(operation);
      }
    }
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  Program& program() { return resolved_.model.program; }
  [[nodiscard]] const Value& program_value(int value) const {
    return resolved_.model.program.values[at(value)];
  }
  [[nodiscard]] const Shape& shape(int value) const { return resolved_.shapes[at(value)]; }
  [[nodiscard]] bool is_empty(int value) const { return elements_of(shape(value)) == 0; }

  /// What a number, or a function of one, is.
  std::optional<double> known_number(const Operation& operation) const {
    std::optional<double> number;
    if (operation.kind == Kind::Number) number = static_cast<double>(operation.number.number);
    if (operation.kind == Kind::Activation && program_value(operation.output).dtype == Dtype::F32) {
      const auto known = numbers_.find(operation.inputs[0]);
      if (known != numbers_.end()) number = known->second;
    }
    for (const auto& post_op : operation.post_ops) {
      if (number) number = number_after(post_op, *number);
    }
    return number;
  }

  int constant_of(double number) {
    resolved_.model.constants.push_back(
        {.dtype = Dtype::F32, .data = std::make_shared<const float>(static_cast<float>(number))});
    return static_cast<int>(resolved_.model.constants.size()) - 1;
  }

  int add_value(const Value& value, const Shape& sizes) {
    program().values.push_back(value);
    resolved_.shapes.push_back(sizes);
    return static_cast<int>(program().values.size()) - 1;
  }

  /// A program may compute it in float, and then rounds it.
  int append(Operation operation, const Shape& sizes) {
    operation.output = add_value({}, sizes);
    program().operations.push_back(operation);
    return operation.output;
  }

  void append_of_nothing(const Operation& operation) {
    if (operation.kind == Kind::Concat) return append_joined(operation);
    const Shape sizes = shape(operation.output);  // a copy: values are added
    int result = append({.kind = Kind::Expand,
                         .inputs = {add_value({.constant = constant_of(number_of_nothing(operation))}, {})},
                         .shape = {sizes.begin(), sizes.end()},
                         .name = operation.name},
                        sizes);
    for (const auto& post_op : operation.post_ops) {
      Operation next{.kind = Kind::Activation, .inputs = {result}, .name = operation.name};
      if (post_op.value < 0) {
        next.post_ops = {post_op};
      } else {
        next.kind = post_op.kind == PostOpKind::Add ? Kind::Add : Kind::Mul;
        next.inputs.push_back(post_op.value);
      }
      result = append(std::move(next), sizes);
    }
    program().operations.push_back(
        {.kind = Kind::Convert, .inputs = {result}, .output = operation.output, .name = operation.name});
  }

  /// What has no elements adds nothing.
  void append_joined(Operation operation) {
    std::erase_if(operation.inputs, [&](int input) { return is_empty(input); });
    program().operations.push_back(std::move(operation));
  }

  [[nodiscard]] double number_of_nothing(const Operation& operation) const {
    switch (operation.kind) {
      case Kind::Matmul:
      case Kind::Attention:
      case Kind::Sum:
        return 0;
      case Kind::Mean:
      case Kind::GlobalAvgPool:
        return std::numeric_limits<double>::quiet_NaN();
      case Kind::Pad:
        return operation.fill;
      default:
        throw ProgramError("an operation (" + std::string(name_of(operation.kind)) + ")",
                           "it has no result for a tensor without elements",
                           "call the program with shapes like those that it was made for");
    }
  }

  ResolvedModel& resolved_;
  std::map<int, double> numbers_{};  ///< of values of no dimensions
};

}  // namespace

void settle_known_values(ResolvedModel& resolved) { Settling(resolved).run(); }

std::optional<double> number_after(const PostOp& post_op, double number) {
  switch (post_op.kind) {
    case PostOpKind::Linear:
      return post_op.alpha * number + post_op.beta;
    case PostOpKind::Pow:
      return std::pow(number, post_op.alpha);
    case PostOpKind::Sqrt:
      return std::sqrt(number);
    case PostOpKind::Rsqrt:
      return 1 / std::sqrt(number);
    case PostOpKind::Square:
      return number * number;
    case PostOpKind::Exp:
      return std::exp(number);
    case PostOpKind::Log:
      return std::log(number);
    case PostOpKind::Abs:
      return std::abs(number);
    case PostOpKind::Neg:
      return -number;
    default:
      return std::nullopt;
  }
}

}  // namespace tsq::runtime
