#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "backends/programs/operator_rows.h"
#include "backends/programs/translations.h"
#include "ir/analysis.h"
#include "operators/traits.h"

namespace tsq::programs {

std::optional<int> Call::operand(std::size_t index) const {
  const ir::Value* value = node->input(index);
  const auto number = program.constant(value);
  if (number && number->isScalar())
    return program.constant_value(at::scalar_tensor(number->toScalar().toDouble(), at::kFloat));
  if (const auto computed = program.number(value))
    return program.write(
        {.kind = runtime::Kind::Number, .post_ops = computed->post_ops, .number = computed->number});
  return input(index);
}

bool translate_operator(ProgramBuilder& program, const ir::Node* node) {
  if (node->outputs().empty()) return false;
  std::string_view name = node->kind().toQualString();
  // Modules write into their input; who reads it later reads what they have written.
  if (operators::is_in_place(name)) name.remove_suffix(1);
  const Call call{.program = program, .node = node};
  const auto written_by = [&](const auto& rows) {
    return std::ranges::any_of(
        rows(), [&](const OperatorRow& row) { return row.name == name && row.translate(call); });
  };
  if (written_by(number_rows)) return true;
  // Of several results, as of a pool and where it has found them, programs have the first.
  const auto others = node->outputs().slice(1);
  const bool has_one_result =
      std::ranges::none_of(others, [](const ir::Value* value) { return value->hasUses(); });
  if (!ir::holds_tensor(node->output(0)) || !has_one_result) return false;
  constexpr std::array kRows{function_rows, truth_rows, arithmetic_rows, window_rows, place_rows};
  return std::ranges::any_of(kRows, written_by);
}

}  // namespace tsq::programs
