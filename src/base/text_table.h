#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tsq {

/// Rows of cells as aligned columns, a line a row: those of `left` to the left, the others to the right. The
/// first row is the heading. Columns without any text are left out.
std::string text_table(const std::vector<std::vector<std::string>>& rows,
                       const std::vector<std::size_t>& left = {0});

}  // namespace tsq
