#pragma once

#include <stdexcept>
#include <string>

namespace tsq::runtime {

/// A program that cannot be read, or a call that does not fit it. `what()` is one sentence without a full
/// stop: where, what was found and what is allowed, then the remedy.
class ProgramError : public std::runtime_error {
 public:
  ProgramError(const std::string& where, const std::string& problem, const std::string& remedy)
      : std::runtime_error("fused program: " + where + ": " + problem + ": " + remedy) {}
};

}  // namespace tsq::runtime
