#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/lowering.h>

#include <mutex>

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

void check_operator(std::string_view what, const std::string& name) {
  if (c10::Dispatcher::singleton().findSchema({name, ""})) return;
  throw Error(ErrorCode::BadConfig,
              fmt::format("a lowering row names the {} '{}', which no loaded library has", what, name),
              "load the library of operators before, and write the name as \"library::operator\"");
}

}  // namespace

void register_lowering(LoweringRow row) {
  if (row.backend.empty() || row.op.name.empty() || row.kernel.empty())
    throw Error(ErrorCode::BadConfig, "a lowering row needs a backend, an operator and a kernel");
  check_operator("kernel", row.kernel);
  if (!row.prepack.empty()) check_operator("packing operator", row.prepack);
  const std::lock_guard lock(rows_mutex());
  registered_rows().insert(registered_rows().begin(), std::move(row));
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
