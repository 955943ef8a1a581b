#pragma once

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/entries.h"

namespace tsq {

/// What a program registers under names, in the order of registration. Safe to use from several threads.
template <typename Value>
class Registry {
 public:
  /// A name that is registered again gets the new value.
  void set(std::string name, Value value) {
    const std::lock_guard lock(mutex_);
    set_entry(entries_, std::move(name), std::move(value));
  }
  /// Under a name that nobody writes, which is returned.
  std::string add_without_name(Value value) {
    const std::lock_guard lock(mutex_);
    entries_.emplace_back(fmt::format("<function {}>", entries_.size()), std::move(value));
    return entries_.back().first;
  }
  [[nodiscard]] std::optional<std::size_t> index_of(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto* const found = find_entry(entries_, name);
    return found == nullptr ? std::nullopt : std::optional(static_cast<std::size_t>(found - entries_.data()));
  }
  [[nodiscard]] std::optional<Value> find(std::string_view name) const {
    const auto index = index_of(name);
    return index ? std::optional(at(*index).second) : std::nullopt;
  }
  [[nodiscard]] std::pair<std::string, Value> at(std::size_t index) const {
    const std::lock_guard lock(mutex_);
    return entries_.at(index);
  }
  /// Those that were given.
  [[nodiscard]] std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, ignored] : entries_) {
      if (!name.starts_with('<')) names.push_back(name);
    }
    return names;
  }

 private:
  mutable std::mutex mutex_{};
  std::vector<std::pair<std::string, Value>> entries_{};
};

/// The program's one registry of values of a type.
template <typename Value>
Registry<Value>& registry_of() {
  static Registry<Value> registry;
  return registry;
}

}  // namespace tsq
