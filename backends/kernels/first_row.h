#pragma once

#include <algorithm>
#include <iterator>

namespace tsq::kernels {

/// The first row of a table for which `holds`; null where there is none.
template <typename Table, typename Holds>
const auto* first_row(const Table& table, const Holds& holds) {
  const auto found = std::ranges::find_if(table, holds);
  return found == std::ranges::end(table) ? nullptr : &*found;
}

}  // namespace tsq::kernels
