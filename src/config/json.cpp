#include "config/json.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/figures.h"
#include "base/text.h"

namespace tsq {
namespace {

std::string line_and_column(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte == 0 ? 0 : byte - 1, text.size()));
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("line {}, column {}", 1 + std::ranges::count(before, '\n'),
                     1 + before.size() - line_start);
}

/// nlohmann's "[json.exception.parse_error.101] parse error at line 1, column 2: REASON", in one line.
std::string reason_of(const nlohmann::json::parse_error& error) {
  const std::string_view what = error.what();
  const auto column = what.find("column ");
  const auto colon = what.find(": ", column == std::string_view::npos ? 0 : column);
  std::string reason(colon == std::string_view::npos ? what : what.substr(colon + 2));
  std::ranges::replace_if(
      reason, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return reason;
}

/// Deeper documents than any configuration is are refused before they use up the stack.
constexpr int kDeepestNesting = 64;

/// Looks over a document before it is read: how deep it nests, and the first key that stands twice in one
/// object. nlohmann keeps the last value of such a key; which one was meant only the writer knows. Its own
/// callback would be asked during the reading, and then the end of each object takes a walk over all that
/// stand before it in its list.
class FirstLook : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit FirstLook(std::string_view what) : what_(what) {}

  bool start_object(std::size_t) override {
    open();
    objects_.emplace_back();
    return true;
  }
  bool key(std::string& name) override {
    if (!objects_.back().insert(name).second && !repeated_) repeated_ = name;
    return true;
  }
  bool end_object() override {
    objects_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    open();
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  /// The reading finds the fault again, and says it.
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

  [[nodiscard]] const std::optional<std::string>& repeated() const noexcept { return repeated_; }

 private:
  void open() {
    if (++depth_ > kDeepestNesting)
      throw Error(ErrorCode::BadConfig,
                  fmt::format("{} nests deeper than {} levels", what_, kDeepestNesting));
  }

  std::string_view what_;
  int depth_{0};
  std::vector<std::set<std::string>> objects_{};  ///< the keys of those that are open
  std::optional<std::string> repeated_{};
};

}  // namespace

nlohmann::json parse_json(std::string_view text, std::string_view what) {
  if (text.size() > kLongestJson)
    throw Error(ErrorCode::BadConfig, fmt::format("{} has {}, and no more than {} are read", what,
                                                  readable_size(text.size()), readable_size(kLongestJson)));
  FirstLook look(what);
  nlohmann::json::sax_parse(text, &look);
  nlohmann::json parsed;
  try {
    parsed = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(ErrorCode::BadConfig, fmt::format("{} is not JSON: {}: {}", what,
                                                  line_and_column(text, error.byte), reason_of(error)));
  } catch (const nlohmann::json::out_of_range&) {
    throw Error(ErrorCode::BadConfig, fmt::format("{} has a number that is larger than any double", what),
                "write a smaller number");
  }
  if (look.repeated())
    throw Error(ErrorCode::BadConfig,
                fmt::format("{} has the key '{}' twice in one object", what, *look.repeated()),
                "keep one of them");
  return parsed;
}

void JsonValue::fail(const std::string& problem, const std::string& remedy) const {
  throw Error(ErrorCode::BadConfig, path_.empty() ? problem : fmt::format("at '{}': {}", path_, problem),
              remedy);
}

void JsonValue::fail_type(std::string_view wanted) const {
  std::string shown = value_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  fail(fmt::format("got {} {}, wanted {}", value_->type_name(), shown, wanted));
}

void JsonValue::expect_object(std::string_view what, std::span<const std::string_view> keys) const {
  constexpr std::string_view kVowels = "aeiouAEIOU";
  const std::string one =
      fmt::format("{} {}", kVowels.find(what.front()) == std::string_view::npos ? "a" : "an", what);
  if (!value_->is_object()) fail_type("an object: " + one);
  for (const auto& [key, ignored] : value_->items()) {
    if (std::ranges::find(keys, key) == keys.end())
      fail(fmt::format("{} has no key '{}'", one, key), suggestion(key, keys));
  }
}

JsonValue JsonValue::at(std::string_view key) const {
  const auto found = value_->find(std::string(key));
  if (found == value_->end()) fail(fmt::format("the key '{}' is missing", key));
  return JsonValue(*found, path_.empty() ? fmt::format("{}", key.empty() ? "\"\"" : key)
                                         : fmt::format("{}.{}", path_, key));
}

void JsonValue::expect_at_most(std::size_t most) const {
  if (value_->size() > most)
    fail(fmt::format("got {} entries, and no more than {} are read", value_->size(), most));
}

std::vector<JsonValue> JsonValue::elements(std::string_view of_what, std::size_t most) const {
  if (!value_->is_array()) fail_type(fmt::format("a list of {}", of_what));
  expect_at_most(most);
  std::vector<JsonValue> found;
  for (std::size_t i = 0; i < value_->size(); ++i)
    found.emplace_back((*value_)[i], fmt::format("{}[{}]", path_, i));
  return found;
}

std::vector<std::pair<std::string, JsonValue>> JsonValue::members(std::string_view what) const {
  if (!value_->is_object()) fail_type(fmt::format("an object: {}", what));
  expect_at_most(kMostEntries);
  std::vector<std::pair<std::string, JsonValue>> found;
  for (const auto& [key, ignored] : value_->items()) found.emplace_back(key, at(key));
  return found;
}

const std::string& JsonValue::string() const {
  if (!value_->is_string()) fail_type("a string");
  return value_->get_ref<const std::string&>();
}

std::int64_t JsonValue::integer() const {
  if (!value_->is_number_integer()) fail_type("a whole number");
  if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    fail_type("a whole number of at most 64 bits with its sign");
  return value_->get<std::int64_t>();
}

int JsonValue::index() const {
  const std::int64_t index = integer();
  if (index < 0 || index > INT32_MAX) fail(fmt::format("got the index {}, wanted 0 or more", index));
  return static_cast<int>(index);
}

double JsonValue::number() const {
  if (!value_->is_number()) fail_type("a number");
  return value_->get<double>();
}

bool JsonValue::boolean() const {
  if (!value_->is_boolean()) fail_type("true or false");
  return value_->get<bool>();
}

}  // namespace tsq
