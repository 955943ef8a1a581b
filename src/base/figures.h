#pragma once

#include <cstdint>
#include <string>

/// Figures as people read them.
namespace tsq {

/// "18.9 MB": decimal units, three figures.
std::string readable_size(uint64_t bytes);

/// "26.9 dB", or "no difference" where it is infinite.
std::string sqnr_db_text(double db);

}  // namespace tsq
