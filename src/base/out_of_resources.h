#pragma once

#include <fmt/format.h>
#include <tsq/error.h>

#include <cstring>
#include <string_view>

namespace tsq {

/// The system gives the process no more of something: `what` happens ("no process can be started"), by this
/// errno. It is no fault of tsq, but of the limits under which it runs.
inline Error out_of_resources(std::string_view what, int number) {
  return Error(ErrorCode::OutOfMemory, fmt::format("{}: {}", what, std::strerror(number)),
               "raise the limits of processes, files and memory (ulimit), or end other programs");
}

}  // namespace tsq
