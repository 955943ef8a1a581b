#include "trial/attempt.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include "base/libtorch_error.h"

namespace tsq::detail {
namespace {

/// A fault of an input, which no choice of layers mends.
bool is_users(const Error& error) {
  return error.code() != ErrorCode::Internal && error.code() != ErrorCode::BadModel;
}

}  // namespace

Attempt attempt(const Referee& referee, const std::function<Made()>& make) {
  Attempt result;
  try {
    result.made = make();
  } catch (const Error& error) {
    if (is_users(error)) throw;
    result.trial.fault = TrialFault{.kind = FaultKind::Throws, .text = error.what()};
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    result.trial.fault = TrialFault{.kind = FaultKind::Throws, .text = reason_of(error)};
  }
  if (result.made) result.trial = referee.judge(result.made->module);
  return result;
}

void refuse(const Attempt& attempt) {
  const TrialFault& fault = *attempt.trial.fault;
  if (!attempt.made)
    throw Error(ErrorCode::Unsupported, fmt::format("the quantized model cannot be made: {}", fault.text));
  throw Error(ErrorCode::Unsupported,
              fmt::format("the quantized model {} on sample {}: {}",
                          fault.kind == FaultKind::Throws ? "cannot run" : "does not match the float model",
                          fault.sample, fault.text),
              "leave the operator float by a QConfigMapping, or write the result anyway with --force");
}

}  // namespace tsq::detail
