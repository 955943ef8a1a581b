#pragma once

#include <algorithm>
#include <utility>

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

}  // namespace tsq
