#include "cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/runtime/print_handler.h>
#include <torch/version.h>
#include <tsq/libtorch_warnings.h>
#include <tsq/quantize.h>
#include <tsq/runner.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <regex>
#include <sstream>
#include <string_view>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/process/bench_process.h"
#include "cli/process/failure.h"
#include "cli/process/output_files.h"
#include "cli/process/standard_streams.h"
#include "cli/process/supervisor.h"

namespace tsq::cli {
namespace {

/// Standard output is for results: with --json it holds one JSON value, whatever the model prints.
void print_of_models_to_standard_error() {
  torch::jit::setPrintHandler([](const std::string& text) { std::cerr << text; });
}

void add_commands(CLI::App& app, Session& session) {
  for (const auto add : {add_quantize, add_prepare, add_calibrate, add_convert, add_lower, add_explain,
                         add_sensitivity, add_inspect, add_compare, add_bench, add_run, add_verify,
                         add_report, add_tune, add_backend_config, add_qconfig})
    add(app, session);
}

/// The innermost command that was named.
const CLI::App& chosen(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? app : chosen(*subcommands.front());
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

std::vector<std::string_view> command_names(const CLI::App& app) {
  return names_of(app.get_subcommands({}), &CLI::App::get_name);
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// The commands that have an option of this name.
std::vector<std::string> commands_with(const CLI::App& app, const std::string& option) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::vector<std::string> options = option_names(*command);
    if (std::ranges::find(options, option) != options.end()) commands.push_back(full_name(*command));
  }
  return commands;
}

/// The option of a word like "--output=", of which CLI11 takes the next word for the value. Empty where there
/// is none.
std::string option_without_value(const std::vector<std::string_view>& words) {
  for (const std::string_view word : words) {
    if (word == "--") break;
    if (word.starts_with("--") && word.find('=') == word.size() - 1) return std::string(word);
  }
  return {};
}

/// CLI11's sentences about the number of values are short of what to do.
std::string values_problem(const std::string& text) {
  static const std::regex kTwice("(\\S+): At Most 1 required but received (\\d+)");
  static const std::regex kMissing("(--\\S+): 1 required (\\S+) missing");
  std::smatch parts;
  if (std::regex_match(text, parts, kTwice))
    return fmt::format("'{}' is given {} times: give it once", parts[1].str(), parts[2].str());
  if (std::regex_match(text, parts, kMissing))
    return fmt::format("'{}' has no value: write {} {}", parts[1].str(), parts[1].str(), parts[2].str());
  return text;
}

/// What is wrong with a command line that CLI11 refused: an unknown word before a missing one, for the first
/// is often why.
std::string usage_problem(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = chosen(app);
  const auto unknown = app.remaining(true);
  const std::vector<std::string_view> commands = command_names(command);
  if (!commands.empty() && !unknown.empty() && !unknown.front().starts_with('-')) {
    return fmt::format("'{}' has no command '{}'; {}", full_name(command), unknown.front(),
                       suggestion(unknown.front(), commands));
  }
  for (const std::string& word : unknown) {
    const std::string name = word.substr(0, word.find('='));
    if (!word.starts_with("--")) continue;
    const std::vector<std::string> known = option_names(command);
    if (std::ranges::find(known, name) != known.end())
      return fmt::format("'{}' is an option of '{}': write it after the command", name, full_name(command));
    const std::vector<std::string> others = commands_with(app, name);
    if (!others.empty())
      return fmt::format("'{}' has no option '{}', which is one of {}", full_name(command), name,
                         quoted_list(names_of(others, std::identity())));
    return fmt::format("'{}' has no option '{}'; {}", full_name(command), name,
                       suggestion(name, names_of(known, std::identity())));
  }
  if (!unknown.empty()) return fmt::format("'{}' does not take '{}'", full_name(command), unknown.front());
  if (error.get_name() == "RequiredError" && !commands.empty()) {
    return fmt::format("'{}' needs a command: {}", full_name(command), quoted_list(commands));
  }
  const std::string text = error.what();
  return values_problem(text.substr(0, text.find('\n')));
}

}  // namespace

void settle_libtorch() {
  silence_libtorch();
  print_of_models_to_standard_error();
}

namespace {

int work(Session& session) {
  try {
    claim_outputs(session);
    set_up(session);
    session.action();
    return session.exit_code;
  } catch (const std::exception& e) {
    return explain(e, session.json);
  }
}

/// Prints what `--help` or `--version` asks for: the exit code.
int print_help(const CLI::App& app, const CLI::Success& asked) {
  std::ostringstream text;
  app.exit(asked, text, text);
  try {
    write_standard_output(text.str());
  } catch (const std::exception& e) {
    return explain(e, false);
  }
  return kDone;
}

/// `start` does the work of the session, now or in another process.
int run(int argc, const char* const* argv, const std::function<int(Session&)>& start) {
  open_standard_streams();
  CLI::App app{
      "Quantizes TorchScript models: reads a float .pt and writes an int8 .pt that stock LibTorch loads.",
      "tsq"};
  Session session{.command_line = fmt::format("{}", fmt::join(argv, argv + argc, " "))};
  app.set_version_flag("--version", fmt::format("tsq {} (LibTorch {})", version(), TORCH_VERSION));
  app.require_subcommand(1);
  app.footer(
      "'tsq COMMAND --help' explains a command.\n\n"
      "Example:\n"
      "  tsq quantize model.pt --calib data.pt --output model.int8.pt\n"
      "  tsq compare model.pt model.int8.pt --data test.pt\n\n"
      "Exit codes: 0 done, 1 bad input, 2 bad usage, 70 a fault of tsq itself.");
  add_commands(app, session);
  const std::vector<std::string_view> words(argv + std::min(argc, 1), argv + argc);
  const bool json = std::ranges::find(words, "--json") != words.end();
  if (const std::string option = option_without_value(words); !option.empty())
    return explain(UsageError(fmt::format("'{}' has no value: write it after the '='", option)), json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return print_help(app, e);
  } catch (const CLI::ParseError& e) {
    const UsageError usage(
        fmt::format("{} (see '{} --help')", usage_problem(app, e), full_name(chosen(app))));
    return explain(usage, json);
  }
  return start(session);
}

}  // namespace

int run(int argc, const char* const* argv) { return run(argc, argv, work); }

int run_program(int argc, const char* const* argv) {
  const bool is_worker = argc >= 2 && std::string_view(argv[1]) == kBenchWorker;
  settle_libtorch();
  if (is_worker) return run_bench_worker({argv + 2, argv + argc});
  keep_freed_memory();  // a worker does what the settings of its model say
  return run(argc, argv, [](Session& session) -> int {
    const int code = supervise(session, [&] { return work(session); });
    std::cout.flush();
    std::_Exit(code);  // LibTorch takes 0.1 s to clear up, and the child has done it
  });
}

}  // namespace tsq::cli
