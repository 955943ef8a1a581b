#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// Tables whose rows decide something. Every row is there because something goes wrong without it, which a
/// test shows: scripts/mutate_rows.py leaves out one after the other, and some test must fail each time.
namespace tsq {

/// The row that is left out, of the table of this name. Set by tests before any table is asked for.
struct LeftOutRow {
  std::string table{};
  std::size_t row{0};
};
inline LeftOutRow& left_out_row() {
  static LeftOutRow left_out;
  return left_out;
}

[[nodiscard]] inline bool is_left_out(std::string_view table, std::size_t row) {
  return left_out_row().table == table && left_out_row().row == row;
}

/// Throws std::out_of_range, with the number of rows, where the one that is to be left out is none of them.
inline void require_left_out_is_one_of(std::string_view table, std::size_t rows) {
  const LeftOutRow& left_out = left_out_row();
  if (left_out.table == table && left_out.row >= rows)
    throw std::out_of_range("table '" + left_out.table + "' has " + std::to_string(rows) + " rows");
}

/// The rows of a table. They must outlive it, and it what it returns.
template <typename Row>
class TableRows {
 public:
  TableRows(std::string_view table, std::span<const Row> rows) : rows_(rows) {
    if (left_out_row().table != table) return;
    require_left_out_is_one_of(table, rows.size());
    remaining_.assign(rows.begin(), rows.end());
    remaining_.erase(remaining_.begin() + static_cast<std::ptrdiff_t>(left_out_row().row));
    rows_ = remaining_;
  }
  TableRows(const TableRows&) = delete;
  TableRows& operator=(const TableRows&) = delete;

  [[nodiscard]] std::span<const Row> rows() const { return rows_; }

 private:
  std::span<const Row> rows_;
  std::vector<Row> remaining_{};
};

}  // namespace tsq
