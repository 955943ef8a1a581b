#include "cli/process/loading.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>

namespace tsq::cli {
namespace {

/// In memory of all processes.
using Note = std::array<char, 4096>;

/// Once for the program, like the processes and directories that end with it.
Note*& note() {
  static Note* instance = nullptr;
  return instance;
}

void write_note(std::string_view text) {
  if (note() == nullptr) return;
  note()->fill('\0');
  std::ranges::copy(text.substr(0, note()->size() - 1), note()->begin());
}

}  // namespace

void share_what_libtorch_does() {
  void* memory = mmap(nullptr, sizeof(Note), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) note() = static_cast<Note*>(memory);
}

std::string what_libtorch_does() { return note() == nullptr ? std::string() : std::string(note()->data()); }

LibTorchDoes::LibTorchDoes(std::string_view doing) { write_note(doing); }

LibTorchDoes::~LibTorchDoes() { write_note({}); }

Loading::Loading(const std::string& path)
    : limits_(load_limits(path)), doing_(fmt::format("loads '{}'", path)) {}

}  // namespace tsq::cli
