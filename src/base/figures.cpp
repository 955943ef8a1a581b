#include "base/figures.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace tsq {

std::string readable_size(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes)
                   : fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, kUnits[unit]);
}

std::string sqnr_db_text(double db) {
  return std::isinf(db) && db > 0 ? "no difference" : fmt::format("{:.1f} dB", db);
}

}  // namespace tsq
