#include <algorithm>
#include <array>

#include "ir/analysis.h"
#include "operators/traits.h"
#include "passes/lower/program/operator_rows.h"
#include "passes/lower/program/translations.h"

namespace tsq::passes {

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
  if (!ir::holds_tensor(node->output(0))) return false;
  constexpr std::array kRows{function_rows, arithmetic_rows, window_rows, place_rows};
  return std::ranges::any_of(kRows, written_by);
}

}  // namespace tsq::passes
