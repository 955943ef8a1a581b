#include <array>

#include "backends/programs/operator_rows.h"

namespace tsq::programs {
namespace {

using runtime::Kind;
using runtime::Operation;
using runtime::PostOpKind;

bool write_truths(const Call& call, Operation operation) {
  call.program.define_truths(call.node->output(), call.program.write(std::move(operation), kTruths));
  return true;
}

bool compare(const Call& call, Kind kind, bool swapped) {
  const auto left = call.operand(swapped ? 1 : 0);
  const auto right = left ? call.operand(swapped ? 0 : 1) : std::nullopt;
  return right && write_truths(call, {.kind = kind, .inputs = {*left, *right}});
}
template <Kind Function>
bool comparison(const Call& call) {
  return compare(call, Function, /*swapped=*/false);
}
template <Kind Function>
bool swapped_comparison(const Call& call) {
  return compare(call, Function, /*swapped=*/true);
}

bool logical_not(const Call& call) {
  const auto truths = call.program.truths(call.node->input(0));
  const runtime::PostOp turned{.kind = PostOpKind::Linear, .alpha = -1, .beta = 1};
  return truths && write_truths(call, {.kind = Kind::Activation, .inputs = {*truths}, .post_ops = {turned}});
}

template <Kind Function>
bool of_two_truths(const Call& call) {
  const auto left = call.program.truths(call.node->input(0));
  const auto right = left ? call.program.truths(call.node->input(1)) : std::nullopt;
  return right && write_truths(call, {.kind = Function, .inputs = {*left, *right}});
}

bool write_where(const Call& call, const std::optional<int>& condition, const std::optional<int>& if_true,
                 const std::optional<int>& if_false) {
  if (!condition || !if_true || !if_false) return false;
  call.program.define(call.node->output(),
                      call.program.write({.kind = Kind::Where, .inputs = {*condition, *if_true, *if_false}}));
  return true;
}

bool holds_truths(const Call& call, std::size_t index) {
  return call.program.are_truths(call.node->input(index));
}

bool where(const Call& call) {
  if (call.node->inputs().size() != 3 || holds_truths(call, 1) || holds_truths(call, 2)) return false;
  return write_where(call, call.program.truths(call.node->input(0)), call.operand(1), call.operand(2));
}

bool masked_fill(const Call& call) {
  return !holds_truths(call, 0) &&
         write_where(call, call.program.truths(call.node->input(1)), call.operand(2), call.input(0));
}

bool asks_for_floats(const Call& call) { return call.whole("dtype") == static_cast<int>(at::kFloat); }

/// Zeros and ones as floats.
bool to_floats(const Call& call) {
  const auto truths = call.program.truths(call.node->input(0));
  const auto input = truths ? truths : call.input();
  if (!asks_for_floats(call) || !input) return false;
  call.program.define(call.node->output(), *input);
  return true;
}

/// Floats of the shape of truth values.
bool zeros_like(const Call& call) {
  const auto truths = call.program.truths(call.node->input(0));
  const runtime::PostOp nothing{.kind = PostOpKind::Linear};
  if (!asks_for_floats(call) || !truths) return false;
  call.program.define(
      call.node->output(),
      call.program.write({.kind = Kind::Activation, .inputs = {*truths}, .post_ops = {nothing}}));
  return true;
}

constexpr std::array kTruthRows{
    OperatorRow{"aten::eq", comparison<Kind::Equal>},
    OperatorRow{"aten::ne", comparison<Kind::NotEqual>},
    OperatorRow{"aten::lt", comparison<Kind::Less>},
    OperatorRow{"aten::le", comparison<Kind::LessEqual>},
    OperatorRow{"aten::gt", swapped_comparison<Kind::Less>},
    OperatorRow{"aten::ge", swapped_comparison<Kind::LessEqual>},
    OperatorRow{"aten::logical_not", logical_not},
    OperatorRow{"aten::bitwise_not", logical_not},
    OperatorRow{"aten::logical_and", of_two_truths<Kind::Mul>},
    OperatorRow{"aten::bitwise_and", of_two_truths<Kind::Mul>},
    OperatorRow{"aten::logical_or", of_two_truths<Kind::Maximum>},
    OperatorRow{"aten::bitwise_or", of_two_truths<Kind::Maximum>},
    OperatorRow{"aten::where", where},
    OperatorRow{"aten::masked_fill", masked_fill},
    OperatorRow{"aten::to", to_floats},
    OperatorRow{"aten::zeros_like", zeros_like},
};

}  // namespace

std::span<const OperatorRow> truth_rows() { return kTruthRows; }

}  // namespace tsq::programs
