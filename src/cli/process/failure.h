#pragma once

#include <exception>
#include <string>

namespace tsq::cli {

/// Exit codes: 0 done, 1 an input is at fault, 2 the command line is, 70 tsq itself is.
enum ExitCode : int { kDone = 0, kBadInput = 1, kBadUsage = 2, kInternalError = 70 };

/// A fault of the command line that only its meaning shows, such as two options that exclude each other in
/// one mode.
class UsageError : public std::exception {
 public:
  explicit UsageError(std::string sentence) : sentence_(std::move(sentence)) {}
  [[nodiscard]] const char* what() const noexcept override { return sentence_.c_str(); }

 private:
  std::string sentence_;
};

/// Prints `tsq: error: …`, and with `json` the same as a JSON value on standard output; returns the exit
/// code.
int explain(const std::exception& exception, bool json);

}  // namespace tsq::cli
