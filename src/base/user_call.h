#pragma once

#include <tsq/error.h>

#include <cstddef>
#include <exception>
#include <string>

namespace torch::jit {
struct Module;
}

/// Calls of functions that the program registered.
namespace tsq {

/// The error for what a function of the user's has thrown: "the fuser 'my.fuse' of the row 'torch.nn.Linear'
/// failed: reason". `function` names the function and its row.
Error failed_call(const std::string& function, const std::exception& exception, Where where);

/// Throws Error(BadConfig) where a module of the user's cannot be called with so many values: "`subject` a
/// module whose forward takes 3 arguments, and it is called with 1".
void check_call(const torch::jit::Module& module, std::size_t values, const std::string& subject,
                const Where& where);

/// What the call returns. Throws Error(BadConfig) with the place for whatever it throws, tsq's own errors
/// excepted.
template <typename Call>
auto call_of_user(const std::string& function, const Where& where, const Call& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& exception) {
    throw failed_call(function, exception, where);
  }
}

}  // namespace tsq
