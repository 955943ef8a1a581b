#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string_view>

#include "cli/command_line.h"

namespace {

/// LibTorch's copy of MKL ends the process with a sentence of its own where the current directory was
/// deleted.
void require_current_directory() {
  std::array<char, PATH_MAX> path{};
  if (::getcwd(path.data(), path.size()) != nullptr || errno != ENOENT) return;
  constexpr std::string_view kSentence =
      "tsq: error: the current directory does not exist any more; go to another, as with 'cd'\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kSentence.data(), kSentence.size());
  ::_exit(1);
}

/// Before the libraries are set up.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kFirst)() = require_current_directory;

}  // namespace

int main(int argc, char** argv) { return tsq::cli::run_program(argc, argv); }
