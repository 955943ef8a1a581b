#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tsq::cli {

/// What the command line asked for: the chosen command's work, and how to speak of it.
struct Session {
  std::function<void()> action{};
  int exit_code{0};   ///< when nothing throws: a check may find what it looks for
  bool json{false};   ///< results on stdout as one JSON value
  bool quiet{false};  ///< neither results nor progress
  int threads{0};     ///< 0: LibTorch's own choice

  /// Whether results are printed as text.
  [[nodiscard]] bool speaks_text() const noexcept { return !json && !quiet; }
};

/// Adds a command with `--json`, `--quiet` and `--threads` to the program.
CLI::App* add_command(CLI::App& app, Session& session, const std::string& name, const std::string& summary,
                      const std::string& examples);

/// Applies `--threads`. Called once, before any work.
void apply_threads(const Session& session);

/// Prints `value` when `--json` was given.
void print_json(const Session& session, const nlohmann::json& value);

/// A check for options that take one of a few words: names the nearest word in its refusal.
CLI::Validator one_of(std::vector<std::string> words);

}  // namespace tsq::cli
