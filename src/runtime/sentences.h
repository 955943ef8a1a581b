#pragma once

#include <dnnl.hpp>
#include <new>
#include <stdexcept>
#include <string>

#include "runtime/program/error.h"

namespace tsq::runtime {

/// Returns what `work` does. What oneDNN and the standard library throw becomes a ProgramError, which says it
/// in a sentence.
template <typename Work>
decltype(auto) in_sentences(const char* where, const Work& work) {
  const auto lacks_memory = [where] {
    return ProgramError(where, "it needs more memory than there is",
                        "call the program with smaller tensors, or free some");
  };
  try {
    return work();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw lacks_memory();
    throw ProgramError(where, std::string("oneDNN cannot compute it (") + error.what() + ")",
                       "leave it to LibTorch");
  } catch (const std::bad_alloc&) {
    throw lacks_memory();
  } catch (const std::length_error&) {
    throw lacks_memory();
  }
}

}  // namespace tsq::runtime
