#include "cli/process/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <tsq/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

namespace tsq::cli {
namespace {

/// `number`: that of the error; 0 where it is not known.
Error not_written(int number) {
  const std::string reason = number == 0       ? "a part of it is lost"
                             : number == EBADF ? "it is closed"
                                               : std::strerror(number);
  return Error(ErrorCode::BadOutput, fmt::format("standard output cannot be written: {}", reason),
               number == EBADF ? "send it to a file" : "send it to a file where there is room for it");
}

}  // namespace

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free, which is this one. What goes to a closed standard error is dropped.
    if (open("/dev/null", stream == STDERR_FILENO ? O_RDWR : O_RDONLY) != stream) return;
  }
}

void write_standard_output(const std::string& text) {
  errno = 0;
  std::cout << text << std::flush;
  const int number = errno;
  if (std::cout || number == EPIPE) return;
  throw not_written(number);
}

}  // namespace tsq::cli
