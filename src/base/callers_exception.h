#pragma once

#include <exception>
#include <functional>
#include <utility>

/// Functions that a caller hands in: progress, events, scores. What they throw is no fault of a model or of a
/// sample, whatever it is, and comes back to the caller as it was thrown.
namespace tsq::detail {

/// What such a function has thrown, on its way through the library. It is no std::exception: nothing on that
/// way that catches those, to tell a fault, to try another layer or to name a pass, sees it.
class CallersException {
 public:
  explicit CallersException(std::exception_ptr thrown) : thrown_(std::move(thrown)) {}
  [[noreturn]] void rethrow() const { std::rethrow_exception(thrown_); }

 private:
  std::exception_ptr thrown_;
};

/// A caller's function for use within the library; empty where it is empty.
template <typename Result, typename... Arguments>
std::function<Result(Arguments...)> of_caller(std::function<Result(Arguments...)> function) {
  if (!function) return {};
  return [function = std::move(function)](Arguments... arguments) -> Result {
    try {
      return function(std::forward<Arguments>(arguments)...);
    } catch (...) {
      throw CallersException(std::current_exception());
    }
  };
}

/// What `work` returns, for a function of the library that calls functions of its caller's. Such calls may be
/// nested: each takes off what it has put around an exception.
template <typename Work>
decltype(auto) with_callers_exceptions(const Work& work) {
  try {
    return work();
  } catch (const CallersException& exception) {
    exception.rethrow();
  }
}

}  // namespace tsq::detail
