#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace tsq {

/// The kind of fault. `Internal` is a fault of tsq itself; every other code names a fault of an input.
/// `OutOfMemory` means that the machine has too little memory for it.
enum class ErrorCode { BadModel, BadData, BadConfig, BadOutput, Unsupported, Internal, OutOfMemory };

/// The place an error belongs to. Empty members are unknown.
struct Where {
  std::string pass{};   ///< the pass, e.g. "observe"
  std::string layer{};  ///< the module path in the user's model, e.g. "features.3.conv"
  std::string op{};     ///< the operator or module type, e.g. "torch.nn.Conv2d"
};

/// The only exception type of tsq. `what()` is one sentence without a full stop: pass, place, the problem
/// with the value found and the values allowed, then the remedy.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string problem, std::string remedy = {}, Where where = {});

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  [[nodiscard]] const Where& where() const& noexcept { return where_; }
  [[nodiscard]] Where where() && noexcept { return std::move(where_); }
  [[nodiscard]] const std::string& problem() const& noexcept { return problem_; }
  [[nodiscard]] std::string problem() && noexcept { return std::move(problem_); }
  [[nodiscard]] const std::string& remedy() const& noexcept { return remedy_; }
  [[nodiscard]] std::string remedy() && noexcept { return std::move(remedy_); }

  /// The same error with the pass filled in where it was empty (used by the pipeline's runner).
  [[nodiscard]] Error in_pass(std::string pass) const;

 private:
  ErrorCode code_;
  std::string problem_;
  std::string remedy_;
  Where where_;
};

}  // namespace tsq
