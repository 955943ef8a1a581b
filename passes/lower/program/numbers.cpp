#include <array>

#include "passes/lower/program/operator_rows.h"

namespace tsq::passes {
namespace {

using ir::Node;
using ir::Value;

bool sizes(const Call& call) {
  const auto input = call.input();
  if (!input) return false;
  if (const Value* axis = call.argument("dim"); axis != nullptr) {
    const auto number = call.whole("dim");
    if (!number) return false;
    call.program.define(
        call.node->output(),
        call.program.integer({.kind = runtime::IntegerKind::Size, .value = *input, .axis = *number}));
    return true;
  }
  const Node* list = call.unpacking();
  if (list == nullptr) return false;
  for (std::size_t i = 0; i < list->outputs().size(); ++i) {
    call.program.define(list->output(i), call.program.integer({.kind = runtime::IntegerKind::Size,
                                                               .value = *input,
                                                               .axis = static_cast<std::int64_t>(i)}));
  }
  return true;
}

template <runtime::IntegerKind Function>
bool integers(const Call& call) {
  if (call.node->output()->type()->kind() != c10::TypeKind::IntType) return false;
  const auto left = call.program.extent(call.node->input(0));
  const auto right = left ? call.program.extent(call.node->input(1)) : std::nullopt;
  if (!left || !right) return false;
  call.program.define(call.node->output(),
                      call.program.integer({.kind = Function, .left = *left, .right = *right}));
  return true;
}

constexpr std::array kNumberRows{
    OperatorRow{"aten::mul", integers<runtime::IntegerKind::Multiply>},
    OperatorRow{"aten::add", integers<runtime::IntegerKind::Add>},
    OperatorRow{"aten::sub", integers<runtime::IntegerKind::Subtract>},
    OperatorRow{"aten::floordiv", integers<runtime::IntegerKind::FloorDivide>},
    OperatorRow{"aten::remainder", integers<runtime::IntegerKind::Remainder>},
    OperatorRow{"aten::size", sizes},
};

}  // namespace

std::span<const OperatorRow> number_rows() { return kNumberRows; }

}  // namespace tsq::passes
