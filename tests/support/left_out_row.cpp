// In every unit test: TSQ_LEFT_OUT_ROW="traits:17" leaves a row of a table out, for scripts/mutate_rows.py.
#include <cstdlib>
#include <string>

#include "runtime/program/table_rows.h"

namespace tsq {
namespace {

bool leave_out_row() {
  const char* given = std::getenv("TSQ_LEFT_OUT_ROW");
  if (given == nullptr) return false;
  const std::string text = given;
  const std::size_t colon = text.find(':');
  left_out_row() = {.table = text.substr(0, colon), .row = std::stoul(text.substr(colon + 1))};
  return true;
}

[[maybe_unused]] const bool kLeavesOut = leave_out_row();

}  // namespace
}  // namespace tsq
