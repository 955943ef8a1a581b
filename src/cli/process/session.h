#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/process/options.h"

namespace tsq::cli {

/// A file that the command line asks for, and the place that its name means.
struct ClaimedOutput {
  std::string path{};
  std::filesystem::path place{};
};

/// What the command line asked for: the chosen command's work, and how to speak of it.
struct Session {
  std::function<void()> action{};
  int exit_code{0};                      ///< when nothing throws: a check may find what it looks for
  bool json{false};                      ///< results on stdout as one JSON value
  bool quiet{false};                     ///< neither results nor progress
  int threads{0};                        ///< 0: LibTorch's own choice
  std::vector<std::string> libraries{};  ///< of operators and classes that models use
  std::string command_line{};
  std::vector<PathOption> path_options{};  ///< of all commands
  std::vector<ClaimedOutput> outputs{};    ///< filled before the work begins

  /// Whether results are printed as text.
  [[nodiscard]] bool speaks_text() const noexcept { return !json && !quiet; }
};

/// What the help says of a command.
struct CommandHelp {
  const char* name;
  const char* summary;
  const char* examples;
};

/// Adds a command with `--json`, `--quiet`, `--threads` and `--library` to the program, which does `work`
/// when the command line names it.
CLI::App& add_command(CLI::App& app, Session& session, const CommandHelp& help, std::function<void()> work);

/// The same for a command with options of its own: `add_own(command, options)` adds them, and
/// `run(options, session)` is the work.
template <typename Options, typename AddOwn, typename Run>
void add_command(CLI::App& app, Session& session, const CommandHelp& help, AddOwn add_own, Run run) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = add_command(app, session, help, [=, &session] { run(*options, session); });
  add_own(Command{command, session.path_options}, *options);
}

/// Adds a command that consists of commands.
CLI::App& add_group(CLI::App& app, const CommandHelp& help);

/// Applies `--threads` and loads what `--library` names. Called once, before any work. Throws
/// Error(BadConfig).
void set_up(const Session& session);

/// Prints a result in the way that was asked for: as `text`, as JSON, or not at all. Throws Error(BadOutput)
/// where it cannot be printed.
void print_result(const Session& session, const std::string& text, const nlohmann::json& value);

}  // namespace tsq::cli
