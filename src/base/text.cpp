#include "base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <numeric>
#include <ranges>
#include <set>

namespace tsq {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped =
          i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view best;
  std::size_t best_distance = std::string_view::npos;
  for (const std::string_view candidate : candidates) {
    const auto [shorter, longer] = std::minmax({name.size(), candidate.size()});
    const std::size_t allowed = std::max<std::size_t>(1, longer / 3);
    if (longer - shorter > allowed) continue;  // the least distance; it takes the product of both to find
    const std::size_t distance = edit_distance(name, candidate);
    if (distance <= allowed && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (!best.empty() || name.size() < 3) return best;
  const auto longer =
      std::ranges::find_if(candidates, [&](std::string_view known) { return known.starts_with(name); });
  return longer == candidates.end() ? std::string_view{} : *longer;
}

std::string suggestion(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string_view near = nearest(name, candidates);
  if (!near.empty()) return fmt::format("did you mean '{}'?", near);
  return "known: " + quoted_list(candidates);
}

std::string quoted_list(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view& word : words) {
    if (!text.empty()) text += &word == &words.back() ? " and " : ", ";
    text += fmt::format("'{}'", word);
  }
  return text;
}

std::string first_of(std::span<const std::string> words, std::size_t most) {
  return fmt::format("{}{}", fmt::join(words.first(std::min(words.size(), most)), ", "),
                     words.size() > most ? ", …" : "");
}

std::string_view interned(std::string text) {
  static std::mutex mutex;
  static std::set<std::string> texts;  // whose nodes never move
  const std::lock_guard lock(mutex);
  return *texts.insert(std::move(text)).first;
}

std::vector<std::string_view> split_words(std::string_view words) {
  std::vector<std::string_view> parts;
  for (const auto word : std::views::split(words, ' ')) parts.emplace_back(word.begin(), word.end());
  return parts;
}

bool has_word(std::string_view words, std::string_view word) {
  return std::ranges::count(split_words(words), word) > 0;
}

}  // namespace tsq
