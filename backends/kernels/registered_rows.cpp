#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/lowering.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>

namespace tsq {
namespace {

std::mutex& rows_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::vector<LoweringRow>& registered_rows() {
  static std::vector<LoweringRow> rows;
  return rows;
}

c10::FunctionSchema schema_of(std::string_view what, const std::string& name) {
  if (const auto found = c10::Dispatcher::singleton().findSchema({name, ""})) return found->schema();
  throw Error(ErrorCode::BadConfig,
              fmt::format("a lowering row names the {} '{}', which no loaded library has", what, name),
              "load the library of operators before, and write the name as \"library::operator\"");
}

void check_kernel(const std::string& name) {
  const auto schema = schema_of("kernel", name);
  const auto& returns = schema.returns();
  if (returns.size() == 1 && returns.front().type()->kind() == c10::TypeKind::TensorType) return;
  throw Error(ErrorCode::BadConfig,
              fmt::format("the kernel '{}' of a lowering row does not return one tensor", name),
              "register an operator whose schema ends in \"-> Tensor\"");
}

/// Longer patterns first; what returns a float tensor only where nothing else stands for the operators.
bool goes_before(const LoweringRow& one, const LoweringRow& other) {
  const auto rank = [](const LoweringRow& row) {
    return std::pair(-static_cast<std::ptrdiff_t>(leaf_count(row.op)), row.form == LoweringForm::FloatOutput);
  };
  return rank(one) < rank(other);
}

}  // namespace

void register_lowering(LoweringRow row) {
  if (row.backend.empty() || row.op.symbol.name.empty() || row.kernel.empty())
    throw Error(ErrorCode::BadConfig, "a lowering row needs a backend, an operator and a kernel");
  check_kernel(row.kernel);
  if (!row.prepack.empty()) schema_of("packing operator", row.prepack);
  const std::lock_guard lock(rows_mutex());
  auto& rows = registered_rows();
  rows.insert(std::ranges::lower_bound(rows, row, goes_before), std::move(row));
}

std::vector<LoweringRow> lowering_rows(std::string_view backend) {
  const std::lock_guard lock(rows_mutex());
  std::vector<LoweringRow> rows;
  for (const LoweringRow& row : registered_rows()) {
    if (row.backend == backend) rows.push_back(row);
  }
  return rows;
}

}  // namespace tsq
