#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tsq {

/// The number of single-letter edits (insert, drop, replace, swap neighbours) between two words, letter case
/// ignored.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that is most like `name`, or empty when none is near (more than a third of its letters
/// differ).
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);

/// `did you mean 'x86'?` when a candidate is near, `known: 'fbgemm', 'x86' …` otherwise. Made for the remedy
/// of an Error.
std::string suggestion(std::string_view name, std::span<const std::string_view> candidates);

/// `'a', 'b' and 'c'`.
std::string quoted_list(std::span<const std::string_view> words);

}  // namespace tsq
