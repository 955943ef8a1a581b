#include "cli/peak_memory.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "cli/interrupt.h"

namespace tsq::cli {
namespace {

uint64_t largest_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

/// Does not return: the child's answer is the exit code and the number in the pipe.
[[noreturn]] void do_in_child(const std::function<void()>& work, int answer) {
  restore_signals();
  const uint64_t before = largest_resident_bytes();
  try {
    work();
  } catch (...) {
    _exit(1);
  }
  const uint64_t peak = largest_resident_bytes() - before;
  _exit(write(answer, &peak, sizeof peak) == sizeof peak ? 0 : 1);
}

}  // namespace

std::optional<uint64_t> peak_memory(const std::function<void()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) do_in_child(work, ends[1]);
  close(ends[1]);
  uint64_t peak = 0;
  const bool answered = child > 0 && read(ends[0], &peak, sizeof peak) == sizeof peak;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return answered ? std::optional(peak) : std::nullopt;
}

}  // namespace tsq::cli
