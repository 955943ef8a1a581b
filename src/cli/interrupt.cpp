#include "cli/interrupt.h"

#include <algorithm>
#include <csignal>
#include <mutex>
#include <thread>
#include <vector>

namespace tsq::cli {
namespace {

/// Directories in use. Never destroyed: the thread that waits for signals outlives main.
struct Registry {
  std::mutex mutex;
  std::vector<std::filesystem::path> directories;
};
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  return signals;
}

/// A writer at work may put a file back between listing and removal, hence more than one attempt.
void remove_whole(const std::filesystem::path& directory) {
  std::error_code code;
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::filesystem::remove_all(directory, code);
    if (!std::filesystem::exists(directory, code)) return;
  }
}

/// Signals are blocked in every thread and taken here by sigwait, in ordinary code: a signal handler could
/// not touch files.
void wait_for_signal() {
  const sigset_t signals = ending_signals();
  int number = 0;
  if (sigwait(&signals, &number) != 0) return;
  const std::lock_guard lock(registry().mutex);
  for (const auto& directory : registry().directories) remove_whole(directory);
  std::signal(number, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  std::raise(number);
}

}  // namespace

void end_cleanly_on_signals() {
  const sigset_t signals = ending_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the user's limit is a failed write, reported as one
  std::signal(SIGPIPE, SIG_IGN);
  registry();
  std::thread(wait_for_signal).detach();
}

void remove_on_signal(const std::filesystem::path& directory) {
  const std::lock_guard lock(registry().mutex);
  registry().directories.push_back(directory);
}

void keep_on_signal(const std::filesystem::path& directory) {
  const std::lock_guard lock(registry().mutex);
  std::erase(registry().directories, directory);
}

void restore_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(number, SIG_DFL);
  const sigset_t signals = ending_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace tsq::cli
