#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

/// Lists of pairs in the order in which their keys came, as Python's dicts are.
namespace tsq {

/// Null where the key is not there.
template <typename Entries, typename Key>
auto* find_entry(Entries& entries, const Key& key) {
  const auto found = std::ranges::find(entries, key, &Entries::value_type::first);
  return found == entries.end() ? nullptr : &*found;
}

/// A key that is set again keeps its place.
template <typename Entries, typename Key, typename Value>
void set_entry(Entries& entries, Key&& key, Value&& value) {
  if (auto* known = find_entry(entries, key)) {
    known->second = std::forward<Value>(value);
  } else {
    entries.emplace_back(std::forward<Key>(key), std::forward<Value>(value));
  }
}

/// Lists that are read from a file: set_entry for each of many keys would take the square of their number.
template <typename Key, typename Value>
class IndexedEntries {
 public:
  [[nodiscard]] bool has(const Key& key) const { return places_.contains(key); }

  /// As set_entry does.
  void set(Key key, Value value) {
    const auto [known, is_new] = places_.try_emplace(key, entries_.size());
    if (is_new) {
      entries_.emplace_back(std::move(key), std::move(value));
    } else {
      entries_[known->second].second = std::move(value);
    }
  }
  [[nodiscard]] std::vector<std::pair<Key, Value>> take() && { return std::move(entries_); }

 private:
  std::vector<std::pair<Key, Value>> entries_{};
  std::map<Key, std::size_t> places_{};
};

}  // namespace tsq
