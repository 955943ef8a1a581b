#include "cli/process/interrupt.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/out_of_resources.h"

namespace tsq::cli {
namespace {

/// Directories and processes in use. Never destroyed: the thread that waits for signals outlives main.
struct Registry {
  std::mutex mutex;
  std::vector<std::filesystem::path> directories;
  std::vector<pid_t> processes;
};
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
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

/// Their groups are asked to end, then made to.
void end_processes(const std::vector<pid_t>& processes) {
  if (processes.empty()) return;
  constexpr std::chrono::milliseconds kGrace{200};
  for (const pid_t process : processes) kill(-process, SIGTERM);
  std::this_thread::sleep_for(kGrace);
  for (const pid_t process : processes) kill(-process, SIGKILL);
}

/// Signals are blocked in every thread and taken here by sigwait, in ordinary code: a signal handler could
/// not touch files.
void wait_for_signal() {
  const sigset_t signals = ending_signals();
  int number = 0;
  if (sigwait(&signals, &number) != 0) return;
  const std::lock_guard lock(registry().mutex);
  end_processes(registry().processes);
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
  try {
    std::thread(wait_for_signal).detach();
  } catch (const std::system_error& error) {
    throw out_of_resources("no thread can be started", error.code().value());
  }
}

void remove_on_signal(const std::filesystem::path& directory) {
  const std::lock_guard lock(registry().mutex);
  registry().directories.push_back(directory);
}

void keep_on_signal(const std::filesystem::path& directory) {
  const std::lock_guard lock(registry().mutex);
  std::erase(registry().directories, directory);
}

pid_t start_process(const std::function<pid_t()>& start) {
  const std::lock_guard lock(registry().mutex);
  const pid_t process = start();
  if (process > 0) registry().processes.push_back(process);
  return process;
}

void forget_process(pid_t process) {
  const std::lock_guard lock(registry().mutex);
  std::erase(registry().processes, process);
}

}  // namespace tsq::cli
