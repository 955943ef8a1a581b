#pragma once

#include <filesystem>

namespace tsq::cli {

/// From here on SIGINT, SIGTERM and SIGHUP end the program by that signal, after the registered directories
/// are removed. Call it first, before any other thread exists.
void end_cleanly_on_signals();

/// A directory that does not outlive the program's end by a signal.
void remove_on_signal(const std::filesystem::path& directory);
void keep_on_signal(const std::filesystem::path& directory);

/// In a forked child: signals end it at once.
void restore_signals();

}  // namespace tsq::cli
