#pragma once

#include <tsq/error.h>
#include <tsq/parse_json.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tsq {

/// The most entries that a list or an object of a configuration may have, and one that names modules: more
/// than any model needs, and few enough that each may be compared with all others, or looked up.
inline constexpr std::size_t kMostEntries = 10'000;
inline constexpr std::size_t kMostModules = 100'000;

/// A JSON value and the way to it ("configs[3].dtype_configs[0]"), which every error names. The value must
/// outlive it.
class JsonValue {
 public:
  explicit JsonValue(const nlohmann::json& value, std::string path = {})
      : value_(&value), path_(std::move(path)) {}

  [[nodiscard]] const nlohmann::json& json() const noexcept { return *value_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] bool is_null() const noexcept { return value_->is_null(); }
  [[nodiscard]] bool is_string() const noexcept { return value_->is_string(); }
  [[nodiscard]] bool is_array() const noexcept { return value_->is_array(); }

  /// Throws when this is no object, or has a key that is not among `keys`. `what` names the thing:
  /// "BackendConfig".
  void expect_object(std::string_view what, std::span<const std::string_view> keys) const;
  /// The member `key`; throws when it is missing.
  [[nodiscard]] JsonValue at(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const { return value_->contains(std::string(key)); }
  /// Whether there is a member `key` that is not null.
  [[nodiscard]] bool is_given(std::string_view key) const { return has(key) && !at(key).is_null(); }
  /// The elements of an array. Throws when this is none, naming what should be in it, or has more than
  /// `most`.
  [[nodiscard]] std::vector<JsonValue> elements(std::string_view of_what,
                                                std::size_t most = kMostEntries) const;
  /// The members of an object, in the order of their keys, as (key, value). Throws
  /// when this is none, or has more than kMostEntries.
  [[nodiscard]] std::vector<std::pair<std::string, JsonValue>> members(std::string_view what) const;

  /// Throw Error(BadConfig) with the path when the type differs.
  [[nodiscard]] const std::string& string() const;
  [[nodiscard]] std::int64_t integer() const;
  /// A whole number that counts something: 0 or more.
  [[nodiscard]] int index() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] bool boolean() const;

  /// Throws Error(BadConfig): "at 'PATH': PROBLEM; REMEDY".
  [[noreturn]] void fail(const std::string& problem, const std::string& remedy = {}) const;

 private:
  [[noreturn]] void fail_type(std::string_view wanted) const;
  void expect_at_most(std::size_t most) const;

  const nlohmann::json* value_;
  std::string path_;
};

/// Runs `read` and adds to an error of it the path of `at` when it has none of its own.
template <typename Read>
auto with_path(const JsonValue& at, Read&& read) {
  try {
    return read();
  } catch (const Error& error) {
    at.fail(error.problem(), error.remedy());
  }
}

}  // namespace tsq
