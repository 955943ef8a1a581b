#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tsq::cli {

/// Rows of cells as aligned columns: those of `left` to the left, the others to the right. The first row is
/// the heading.
std::string text_table(const std::vector<std::vector<std::string>>& rows,
                       const std::vector<std::size_t>& left = {0});

/// "bn1, bn2, relu, maxpool, …": the first four names.
std::string first_names(const std::vector<std::string>& names);

/// "2026-11-26T15:04:05Z".
std::string utc_now();

/// "18.9 MB": decimal units, three figures.
std::string readable_size(uint64_t bytes);

}  // namespace tsq::cli
