#include <algorithm>

#include "backends/programs/operator_rows.h"
#include "backends/programs/translations.h"
#include "ir/analysis.h"
#include "torchscript/modules/embedding.h"

namespace tsq::programs {
namespace {

using ir::EmbeddingTable;
using runtime::Kind;
using runtime::Operation;

const torchscript::RowCodes* codes_of(TranslationCache& cache, const EmbeddingTable& table) {
  const auto known = std::ranges::find_if(
      cache.tables, [&](const TableForms& forms) { return torchscript::has_same_rows(forms.table, table); });
  if (known != cache.tables.end()) return &known->rows;
  auto rows = torchscript::row_codes(table);
  return rows ? &cache.tables.emplace_back(TableForms{table, *std::move(rows)}).rows : nullptr;
}

bool set_table(ProgramBuilder& program, Operation& operation, const EmbeddingTable& table) {
  if (!table.weight_qparams) {
    operation.weight = program.add_constant(table.weight);
    return table.weight.scalar_type() == at::kFloat;
  }
  const auto* rows = codes_of(program.cache(), table);
  if (rows == nullptr) return false;
  operation.weight = program.add_constant(rows->codes);
  operation.weight_scales = program.add_constant(rows->scales);
  operation.bias = program.add_constant(rows->addends);
  return true;
}

}  // namespace

bool translate_embedding(ProgramBuilder& program, const ir::Node* node) {
  if (!ir::is_module_call(node)) return false;
  const auto& table = ir::call_of(program.model(), node).embedding;
  if (!table || table->is_bag || node->inputs().size() != 1) return false;
  Operation operation{.kind = Kind::Embedding};
  const auto rows = program.rows(node->input(0));
  if (!rows || !set_table(program, operation, *table)) return false;
  operation.inputs = {*rows};
  program.define(node->output(), program.write(std::move(operation)));
  return true;
}

}  // namespace tsq::programs
