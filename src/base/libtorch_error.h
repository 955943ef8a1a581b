#pragma once

#include <tsq/error.h>

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

/// What exceptions of LibTorch say, for people.
namespace tsq {

/// The essential sentence of an exception of LibTorch, on one line and without a full stop: what the model's
/// own `raise` says ("ValueError: batch must be 1"), else the cause after the interpreter's traceback; no
/// stack and no source position.
std::string reason_of(const std::exception& exception);

/// The first name in a text that has letters outside of ASCII; empty: none.
std::string name_outside_ascii(std::string_view text);

/// All that an exception says, but for LibTorch's stack.
std::string without_stack(const std::exception& exception);

/// Whether one of LibTorch's own assertions failed.
bool is_assertion(const std::exception& exception);

/// Whether memory ran out: std::bad_alloc, LibTorch's own errors, and what becomes of either inside the
/// TorchScript interpreter.
bool is_out_of_memory(const std::exception& exception);

/// Throws Error(OutOfMemory) if memory ran out, returns otherwise. For callers that make errors of an input
/// out of exceptions of LibTorch.
void rethrow_out_of_memory(const std::exception& exception);

/// "the float model cannot run on sample 3: reason", of an exception that running a model has thrown, where
/// the sample is at fault. Throws Error(OutOfMemory) if memory ran out.
Error run_error(std::string_view model, std::string_view sample, const std::exception& exception,
                std::string remedy = {});
inline Error run_error(std::string_view model, std::size_t sample, const std::exception& exception,
                       std::string remedy = {}) {
  return run_error(model, "sample " + std::to_string(sample), exception, std::move(remedy));
}

}  // namespace tsq
