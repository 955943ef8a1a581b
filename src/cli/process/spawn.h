#pragma once

#include <spawn.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace tsq::cli {

/// How a program is started that does not outlive this one: in a group of its own, with the default signals.
/// Its streams are this process's until they are redirected.
class SpawnSettings {
 public:
  SpawnSettings();
  ~SpawnSettings();
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  /// The program's `stream` is `file` of this process.
  void redirect(int file, int stream);
  /// The program's `stream` is a file that is opened with `flags`.
  void open(int stream, const std::string& path, int flags);

  /// Starts `program` with `words` as arguments, the first being its name: its id, or -1 and errno. The
  /// process is registered (see interrupt.h) until forget_process.
  [[nodiscard]] pid_t start(const std::string& program, std::vector<std::string> words) const;

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// Waits for a process of start(): its status. Its id is free afterwards.
int wait_for_end(pid_t process);

}  // namespace tsq::cli
