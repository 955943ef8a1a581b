#pragma once

#include <algorithm>
#include <cctype>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped.h"

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

/// `a, b, …`: the first words, and a sign where there are more than `most`.
std::string first_of(std::span<const std::string> words, std::size_t most);

/// Whether a byte goes on with a letter of UTF-8 that began before it.
constexpr bool continues_letter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80; }

/// The first bytes of a text in UTF-8, as many whole letters as `most` bytes hold.
constexpr std::string_view beginning_of(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && continues_letter(text[most])) --most;
  return text.substr(0, most);
}

/// The words between single spaces.
std::vector<std::string_view> split_words(std::string_view words);
bool has_word(std::string_view words, std::string_view word);

/// A copy that lives as long as the process.
std::string_view interned(std::string text);

/// "qint8" of "torch.qint8".
constexpr std::string_view without_prefix(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

/// "Conv2d" of "torch.nn.Conv2d".
constexpr std::string_view bare_name(std::string_view name) {
  return name.substr(name.rfind('.') + 1);  // npos + 1 is 0
}

/// Whether a text is a name or a path of names: "torch.nn".
inline bool is_dotted_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.';
  });
}

/// The names of a table's rows, for suggestion().
template <typename Rows, typename Name>
std::vector<std::string_view> names_of(const Rows& rows, Name name) {
  return mapped(rows, [&](const auto& row) -> std::string_view { return std::invoke(name, row); });
}

}  // namespace tsq
