// Python's regular expressions by PCRE2, whose syntax holds nearly all of Python's. What the two read
// differently is rewritten, and what only PCRE2 has is refused, as Python refuses it.

#include "config/python_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>
#include <tsq/error.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace tsq {
namespace {

using Code = std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)>;
using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;
using MatchContext = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;

/// Longer than any that somebody writes. The names of modules are tried with every one.
constexpr std::size_t kLongest = 10'000;

[[noreturn]] void fail(const std::string& regex, const std::string& reason) {
  throw Error(ErrorCode::BadConfig, fmt::format("the regex '{}' does not compile: {}", regex, reason),
              "write it as for Python's re.match");
}

/// The letters that may follow a backslash in Python; every other ASCII letter is an error there.
constexpr std::string_view kEscapes = "abfnrtvxuUdDsSwWABZ";
constexpr std::string_view kClassEscapes = "abfnrtvxuUdDsSwW";
constexpr std::string_view kFlags = "aimsux";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A regex of Python's in PCRE2's spelling.
class Translation {
 public:
  explicit Translation(const std::string& python) : python_(python) {
    while (at_ < python.size()) {
      if (is_verbose_ && !in_class_ && python[at_] == '#') {
        copy_comment();
      } else if (python[at_] == '\\') {
        escape();
      } else if (in_class_) {
        in_class();
      } else if (python[at_] == '[') {
        open_class();
      } else if (python[at_] == '(') {
        group();
      } else if (python[at_] == '{') {
        repetition();
      } else {
        copy(1);
      }
    }
  }

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// Whether \w, \d, \s, \b and letter case are ASCII's: (?a).
  [[nodiscard]] bool is_ascii() const noexcept { return is_ascii_; }

 private:
  [[nodiscard]] std::string_view rest() const { return std::string_view(python_).substr(at_); }

  void copy(std::size_t count) {
    text_ += rest().substr(0, count);
    at_ += std::min(count, python_.size() - at_);
  }

  void replace(std::size_t count, std::string_view by) {
    text_ += by;
    at_ += count;
  }

  void copy_comment() {
    const auto end = rest().find('\n');
    copy(end == std::string_view::npos ? rest().size() : end + 1);
  }

  void escape() {
    if (rest().size() < 2) fail(python_, "bad escape (end of pattern)");
    const char letter = rest()[1];
    const std::string_view known = in_class_ ? kClassEscapes : kEscapes;
    if (std::isalpha(static_cast<unsigned char>(letter)) != 0 && known.find(letter) == std::string_view::npos)
      fail(python_, fmt::format("bad escape \\{}", letter));
    if (letter == 'Z') return replace(2, "\\z");
    if (letter == 'x') return code_point(2);
    if (letter == 'u') return code_point(4);
    if (letter == 'U') return code_point(8);
    if (letter == 'v') return replace(2, "\\x{0b}");
    copy(2);
  }

  /// \xhh, \uhhhh, \Uhhhhhhhh
  void code_point(std::size_t digits) {
    const std::string_view hex = rest().substr(2, digits);
    const bool is_hex = hex.size() == digits &&
                        std::ranges::all_of(hex, [](unsigned char c) { return std::isxdigit(c) != 0; });
    if (!is_hex) fail(python_, fmt::format("incomplete escape {}", rest().substr(0, digits + 2)));
    replace(digits + 2, fmt::format("\\x{{{}}}", hex));
  }

  void open_class() {
    in_class_ = true;
    copy(rest().starts_with("[^") ? 2 : 1);
    if (rest().starts_with("]")) copy(1);  // the first one is a member
  }

  void in_class() {
    if (python_[at_] == '[') return replace(1, "\\[");  // "[:alpha:]" means its characters
    if (python_[at_] == ']') in_class_ = false;
    copy(1);
  }

  void group() {
    const std::string_view text = rest();
    if (text.starts_with("(*")) fail(python_, "nothing to repeat");
    if (!text.starts_with("(?")) return copy(1);
    if (text.starts_with("(?#")) return skip_comment();
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?P<", "(?P="}) {
      if (text.starts_with(known)) return copy(known.size());
    }
    if (text.starts_with("(?(")) return copy(3);
    flags();
  }

  void skip_comment() {
    const auto end = rest().find(')');
    if (end == std::string_view::npos) fail(python_, "missing ), unterminated comment");
    at_ += end + 1;
  }

  /// (?i) at the start, (?i: … ) and (?-i: … ) anywhere.
  void flags() {
    const std::string_view text = rest();
    const auto end = text.find_first_of(":)", 2);
    if (end == std::string_view::npos) fail(python_, fmt::format("unknown extension {}", text.substr(0, 3)));
    std::string kept;
    for (const char flag : text.substr(2, end - 2)) {
      if (flag != '-' && kFlags.find(flag) == std::string_view::npos)
        fail(python_, fmt::format("unknown extension ?{}", text.substr(2, end - 2)));
      if (flag == 'a') is_ascii_ = true;
      if (flag == 'x' && text[end] == ')') is_verbose_ = true;
      if (flag != 'a' && flag != 'u') kept += flag;
    }
    if (text[end] == ')' && at_ != 0) fail(python_, "global flags not at the start of the expression");
    if (text[end] == ')' && kept.empty()) {
      at_ += end + 1;
      return;
    }
    replace(end + 1, fmt::format("(?{}{}", kept, text[end]));
  }

  /// "{,3}" is "{0,3}"; PCRE2 takes it for its characters.
  void repetition() {
    const std::string_view text = rest();
    const auto end = text.find_first_not_of("0123456789", 2);
    const bool has_no_minimum = text.starts_with("{,") && text.size() > 2 && is_digit(text[2]) &&
                                end != std::string_view::npos && text[end] == '}';
    if (has_no_minimum) return replace(1, "{0");
    if (text.starts_with("{,}")) return replace(3, "*");
    copy(1);
  }

  const std::string& python_;
  std::string text_{};
  std::size_t at_{0};
  bool in_class_{false};
  bool is_verbose_{false};
  bool is_ascii_{false};
};

std::string message_of(int code) {
  std::string message(256, '\0');
  const int length =
      pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(message.data()), message.size());
  message.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return message;
}

Code compile(const std::string& regex) {
  const Translation translation(regex);
  const std::string& text = translation.text();
  const uint32_t options = PCRE2_UTF | (translation.is_ascii() ? 0U : uint32_t{PCRE2_UCP});
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options, &error, &offset,
                          nullptr),
            pcre2_code_free);
  if (!code) fail(regex, fmt::format("{} at position {}", message_of(error), offset));
  return code;
}

/// Compiling costs more than matching, and every node of a graph is asked about every regex.
const pcre2_code* compiled(const std::string& regex) {
  static std::mutex mutex;
  static std::map<std::string, Code> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(regex);
  if (found != known.end()) return found->second.get();
  return known.emplace(regex, compile(regex)).first->second.get();
}

/// The search takes less than a second and 64 MiB: a step of it may copy what all groups hold, and may go
/// through the text.
MatchContext limited(const pcre2_code* code, std::size_t text) {
  constexpr uint32_t kKibibytes = 64 * 1024;
  constexpr std::size_t kMostSteps = 1'000'000;
  constexpr std::size_t kMostBytes = std::size_t{1} << 28U;
  std::size_t groups = 0;
  pcre2_pattern_info(code, PCRE2_INFO_FRAMESIZE, &groups);
  MatchContext context(pcre2_match_context_create(nullptr), pcre2_match_context_free);
  const std::size_t steps = std::clamp<std::size_t>(kMostBytes / (groups + text + 1), 1, kMostSteps);
  pcre2_set_match_limit(context.get(), static_cast<uint32_t>(steps));
  pcre2_set_heap_limit(context.get(), kKibibytes);
  return context;
}

}  // namespace

void check_python_regex(const std::string& regex) {
  if (regex.size() > kLongest) {
    throw Error(
        ErrorCode::BadConfig,
        fmt::format("the regex has {} characters, and no more than {} are taken", regex.size(), kLongest),
        "write several");
  }
  (void)compiled(regex);
}

bool python_regex_matches(const std::string& regex, const std::string& text) {
  const pcre2_code* code = compiled(regex);
  const MatchData data(pcre2_match_data_create_from_pattern(code, nullptr), pcre2_match_data_free);
  const MatchContext context = limited(code, text.size());
  const int result = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                                 PCRE2_ANCHORED, data.get(), context.get());
  if (result == PCRE2_ERROR_MATCHLIMIT || result == PCRE2_ERROR_DEPTHLIMIT || result == PCRE2_ERROR_HEAPLIMIT)
    throw Error(ErrorCode::BadConfig, fmt::format("the regex '{}' takes too long on '{}'", regex, text),
                "write it without repetitions inside of repetitions");
  return result >= 0;
}

}  // namespace tsq
