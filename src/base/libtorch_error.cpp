#include "base/libtorch_error.h"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/runtime/jit_exception.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

#include "base/text.h"

namespace tsq {
namespace {

/// What the allocators of LibTorch and of C++ say; inside the interpreter the text is all that is left.
constexpr std::array<std::string_view, 5> kOutOfMemory{"can't allocate memory", "std::bad_alloc",
                                                       "Cannot allocate memory", "not enough memory",
                                                       "Storage size calculation overflowed"};

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

std::string first_line(std::string text) {
  text.erase(0, std::min(text.size(), text.find_first_not_of(" \n\t")));
  text.resize(std::min(text.size(), text.find('\n')));
  while (text.ends_with('.') || text.ends_with(' ')) text.pop_back();
  return text.empty() ? "no reason given" : text;
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

}  // namespace tsq
