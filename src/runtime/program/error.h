#pragma once

#include <cstdint>
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

/// A call that needs more memory than it may have.
class MemoryError : public ProgramError {
 public:
  MemoryError(const std::string& where, std::int64_t needed, std::int64_t limit)
      : ProgramError(where, "this call needs " + gigabytes(needed) + ", and the limit is " + gigabytes(limit),
                     "call the program with smaller tensors, or raise RunnerOptions::memory_limit") {}

 private:
  /// `68.7 GB`, of small numbers `0.004 GB`.
  static std::string gigabytes(std::int64_t bytes) {
    const std::int64_t part = bytes < 1'000'000'000 ? 1'000'000 : 100'000'000;
    const std::string rest = std::to_string(bytes % 1'000'000'000 / part);
    const std::string zeros(part == 1'000'000 ? 3 - rest.size() : 0, '0');
    return std::to_string(bytes / 1'000'000'000) + "." + zeros + rest + " GB";
  }
};

}  // namespace tsq::runtime
