#include "cli/process/spawn.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "cli/process/interrupt.h"

namespace tsq::cli {

SpawnSettings::SpawnSettings() {
  posix_spawn_file_actions_init(&actions_);
  posix_spawnattr_init(&attributes_);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes_, &signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) sigaddset(&signals, number);
  posix_spawnattr_setsigdefault(&attributes_, &signals);
  posix_spawnattr_setpgroup(&attributes_, 0);
  constexpr int kFlags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
  posix_spawnattr_setflags(&attributes_, kFlags);
}

SpawnSettings::~SpawnSettings() {
  posix_spawn_file_actions_destroy(&actions_);
  posix_spawnattr_destroy(&attributes_);
}

void SpawnSettings::redirect(int file, int stream) {
  posix_spawn_file_actions_adddup2(&actions_, file, stream);
}

void SpawnSettings::open(int stream, const std::string& path, int flags) {
  constexpr mode_t kMode = 0600;
  posix_spawn_file_actions_addopen(&actions_, stream, path.c_str(), flags, kMode);
}

pid_t SpawnSettings::start(const std::string& program, std::vector<std::string> words) const {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return start_process([&] {
    pid_t process = -1;
    const int error =
        posix_spawn(&process, program.c_str(), &actions_, &attributes_, arguments.data(), environ);
    errno = error;
    return error == 0 ? process : -1;
  });
}

int wait_for_end(pid_t process) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  forget_process(process);
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace tsq::cli
