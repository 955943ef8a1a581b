#pragma once

#include <span>
#include <string>
#include <string_view>

#include "backends/programs/program_builder.h"
#include "operators/arguments.h"

namespace tsq::programs {

/// An operator as a translation sees it.
struct Call {
  ProgramBuilder& program;
  const ir::Node* node;

  [[nodiscard]] const ir::Value* argument(const std::string& name) const {
    return operators::argument_named(node, name);
  }
  [[nodiscard]] std::optional<c10::IValue> constant(const std::string& name) const {
    const ir::Value* value = argument(name);
    return value == nullptr ? std::nullopt : program.constant(value);
  }
  [[nodiscard]] bool is_none(const std::string& name) const {
    const auto value = constant(name);
    return argument(name) == nullptr || (value && value->isNone());
  }
  [[nodiscard]] std::optional<double> number(const std::string& name) const {
    const auto value = constant(name);
    return value && value->isScalar() ? std::optional(value->toScalar().toDouble()) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::int64_t> whole(const std::string& name) const {
    const auto value = constant(name);
    return value && value->isInt() ? std::optional(value->toInt()) : std::nullopt;
  }
  [[nodiscard]] std::optional<bool> flag(const std::string& name) const {
    const auto value = constant(name);
    return value && value->isBool() ? std::optional(value->toBool()) : std::nullopt;
  }
  [[nodiscard]] std::optional<runtime::Shape> shape(const std::string& name) const {
    const auto value = constant(name);
    return value && value->isIntList() ? std::optional(value->toIntVector()) : std::nullopt;
  }
  /// A tensor, or a number as a tensor of one element: one that is known, or one that each call computes.
  [[nodiscard]] std::optional<int> operand(std::size_t index) const;
  [[nodiscard]] std::optional<int> input(std::size_t index = 0) const {
    return index < node->inputs().size() ? program.tensor(node->input(index)) : std::nullopt;
  }
  /// The operation on the node's first inputs, as the node's output.
  [[nodiscard]] bool write(runtime::Operation operation, std::size_t inputs = 1) const {
    for (std::size_t i = 0; i < inputs; ++i) {
      const auto read = input(i);
      if (!read) return false;
      operation.inputs.push_back(*read);
    }
    program.define(node->output(0), program.write(std::move(operation)));
    return true;
  }
  /// The same where it only moves values about or chooses some: codes stay what they are.
  [[nodiscard]] bool move(runtime::Operation operation) const {
    const auto truths = program.truths(node->input(0));
    const auto read = truths ? truths : input();
    if (!read) return false;
    operation.inputs = {*read};
    const int moved = program.write(std::move(operation), program.type_of(*read));
    if (truths) {
      program.define_truths(node->output(0), moved);
    } else {
      program.define(node->output(0), moved);
    }
    return true;
  }
  /// The one node that takes the list that the node returns apart; null where others read the list.
  [[nodiscard]] const ir::Node* unpacking() const {
    const auto& uses = node->output()->uses();
    const bool is_unpacked = uses.size() == 1 && uses.front().user->kind() == c10::prim::ListUnpack;
    return is_unpacked ? uses.front().user : nullptr;
  }
  [[nodiscard]] bool activation(runtime::PostOp function) const {
    return write({.kind = runtime::Kind::Activation, .post_ops = {function}});
  }
};

/// An operator of ATen and how it is written. It declines what a program does not have.
struct OperatorRow {
  std::string_view name;
  bool (*translate)(const Call& call);
};

// The rows, by subject. Operators with two meanings have a row for each; the first that does not decline is
// taken.

std::span<const OperatorRow> function_rows();    ///< of one tensor, value by value
std::span<const OperatorRow> arithmetic_rows();  ///< of two tensors, products and normalizations
std::span<const OperatorRow> truth_rows();       ///< comparisons, and what reads truth values
std::span<const OperatorRow> window_rows();      ///< pools and other reductions
std::span<const OperatorRow> place_rows();       ///< what only moves values about
std::span<const OperatorRow> number_rows();      ///< numbers of shapes

}  // namespace tsq::programs
