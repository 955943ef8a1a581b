#include "base/libtorch_error.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/jit_exception.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <new>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace tsq {
namespace {

/// What the allocators of LibTorch and of C++ say; inside the interpreter the text is all that is left.
constexpr std::array<std::string_view, 5> kOutOfMemory{"can't allocate memory", "std::bad_alloc",
                                                       "Cannot allocate memory", "not enough memory",
                                                       "Storage size calculation overflowed"};

constexpr std::string_view kBetweenWords = " \n\t.";
constexpr std::string_view kAssertion = " INTERNAL ASSERT FAILED";

/// After a traceback stands "RuntimeError: cause", at the beginning of a line: the last such line counts,
/// tracebacks may be nested.
std::string cause_of(const std::string& text) {
  if (text.find("Traceback") == std::string::npos) return text;
  constexpr std::string_view kError = "Error: ";
  for (auto at = text.rfind(kError); at != std::string::npos && at > 0; at = text.rfind(kError, at - 1)) {
    const auto begin = text.rfind('\n', at) + 1;  // npos + 1 is 0
    if (is_dotted_name(std::string_view(text).substr(begin, at - begin)))
      return text.substr(at + kError.size());
  }
  return text;
}

/// How many bytes the letter has that begins here in UTF-8; 0: none does.
std::size_t bytes_of_letter(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t bytes = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!continues_letter(text[i])) return 0;
  }
  return bytes;
}

/// LibTorch's lexer names single bytes of letters: those become the sign for what is no letter.
std::string in_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t bytes = bytes_of_letter(text);
    result += bytes > 0 ? text.substr(0, bytes) : "\uFFFD";
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return result;
}

/// Without the place in LibTorch's code: "[enforce fail at inline_container.cc:340] . cause", "condition
/// INTERNAL ASSERT FAILED at "qualified_name.h":56, please report a bug to PyTorch. cause". Where no cause is
/// given, the condition.
void drop_place(std::string& text) {
  constexpr std::string_view kEnforce = "[enforce fail at ";
  constexpr std::string_view kRequest = "please report a bug to PyTorch";
  if (text.starts_with(kEnforce)) text.erase(0, text.find(']') + 1);  // npos + 1 is 0
  const auto condition = text.find(kAssertion);
  if (condition == std::string::npos) return;
  const auto request = text.find(kRequest, condition);
  const auto cause = request == std::string::npos
                         ? request
                         : text.find_first_not_of(kBetweenWords, request + kRequest.size());
  if (cause == std::string::npos) {
    text.resize(condition);
  } else {
    text.erase(0, cause);
  }
}

/// Names in damaged files may be long.
std::string shortened(std::string text) {
  constexpr std::size_t kLongest = 200;
  return text.size() <= kLongest ? text : std::string(beginning_of(text, kLongest)) + "\u2026";
}

std::string first_line(std::string text) {
  text = in_utf8(text);
  drop_place(text);
  text.erase(0, std::min(text.size(), text.find_first_not_of(kBetweenWords)));
  text.resize(std::min(text.size(), text.find('\n')));
  text.resize(text.find_last_not_of(kBetweenWords) + 1);
  return text.empty() ? "no reason given" : shortened(std::move(text));
}

}  // namespace

std::string without_stack(const std::exception& exception) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&exception);
  return c10_error != nullptr ? c10_error->what_without_backtrace() : exception.what();
}

std::string reason_of(const std::exception& exception) {
  const auto* raised = dynamic_cast<const torch::jit::JITException*>(&exception);
  if (raised == nullptr || !raised->getOriginalMsg()) return first_line(cause_of(without_stack(exception)));
  // "builtins.ValueError" and "__torch__.ValueError" are what the user wrote as ValueError.
  const std::string name(bare_name(raised->getPythonClassName().value_or("")));
  const std::string text = first_line(*raised->getOriginalMsg());
  return name.empty() || text.starts_with(name) ? text : name + ": " + text;
}

std::string name_outside_ascii(std::string_view text) {
  std::string name;
  bool is_outside = false;
  for (; !text.empty(); text.remove_prefix(std::max<std::size_t>(bytes_of_letter(text), 1))) {
    const std::size_t bytes = bytes_of_letter(text);
    const bool is_of_name =
        bytes > 1 ||
        (bytes == 1 && (std::isalnum(static_cast<unsigned char>(text[0])) != 0 || text[0] == '_'));
    if (!is_of_name && is_outside) return name;
    if (!is_of_name) name.clear();
    if (is_of_name) name += text.substr(0, bytes);
    is_outside = is_outside || bytes > 1;
  }
  return is_outside ? name : std::string();
}

bool is_assertion(const std::exception& exception) {
  return without_stack(exception).find(kAssertion) != std::string::npos;
}

bool is_out_of_memory(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception))
    return error->code() == ErrorCode::OutOfMemory;
  if (dynamic_cast<const torch::jit::JITException*>(&exception) != nullptr) return false;  // a model's raise
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr ||
      dynamic_cast<const c10::OutOfMemoryError*>(&exception) != nullptr)
    return true;
  const std::string text = cause_of(without_stack(exception));
  return std::ranges::any_of(kOutOfMemory,
                             [&](std::string_view words) { return text.find(words) != std::string::npos; });
}

void rethrow_out_of_memory(const std::exception& exception) {
  if (!is_out_of_memory(exception)) return;
  throw Error(ErrorCode::OutOfMemory, "this machine has too little memory for this model and its data",
              "give smaller or fewer samples, or use a machine with more memory");
}

Error run_error(std::string_view model, std::string_view sample, const std::exception& exception,
                std::string remedy) {
  rethrow_out_of_memory(exception);
  return {ErrorCode::BadData, fmt::format("{} cannot run on {}: {}", model, sample, reason_of(exception)),
          std::move(remedy)};
}

}  // namespace tsq
