#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>

namespace tsq::cli {

/// From here on SIGINT, SIGTERM and SIGHUP end the program by that signal, after the registered directories
/// are removed. Call it first, before any other thread exists.
void end_cleanly_on_signals();

/// A directory that does not outlive the program's end by a signal.
void remove_on_signal(const std::filesystem::path& directory);
void keep_on_signal(const std::filesystem::path& directory);

/// Starts a process, the leader of a group of its own, that does not outlive the program's end by a signal,
/// nor does its group. `start` returns its id, or -1.
pid_t start_process(const std::function<pid_t()>& start);
/// The process has ended, and its id is about to be free for others.
void forget_process(pid_t process);

}  // namespace tsq::cli
