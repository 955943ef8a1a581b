#include "cli/process/session.h"

#include <ATen/Parallel.h>
#include <tsq/library.h>

#include <nlohmann/json.hpp>

#include "cli/process/options.h"
#include "cli/process/standard_streams.h"

namespace tsq::cli {

CLI::App& add_command(CLI::App& app, Session& session, const CommandHelp& help, std::function<void()> work) {
  CLI::App* command = app.add_subcommand(help.name, help.summary);
  add_options(
      {*command, session.path_options},
      {{"--json", into(session.json), "Print the result as JSON on standard output"},
       {"-q,--quiet", into(session.quiet),
        "Print neither results nor progress (--json still prints its JSON)"},
       {"--threads", into(session.threads), "Threads that LibTorch computes with (default: its own choice)",
        "N", within(1, 4096)},
       input({"--library", into_each(session.libraries),
              "Load a library of operators that models use, as torch.ops.load_library does; may be given "
              "several times",
              "FILE.so"})},
      "Options of every command");
  command->footer(std::string("Examples:\n") + help.examples);
  command->callback([&session, work] { session.action = work; });
  return *command;
}

CLI::App& add_group(CLI::App& app, const CommandHelp& help) {
  CLI::App* group = app.add_subcommand(help.name, help.summary);
  group->require_subcommand(1)->footer(std::string("Examples:\n") + help.examples);
  return *group;
}

void set_up(const Session& session) {
  if (session.threads > 0) at::set_num_threads(session.threads);
  for (const std::string& library : session.libraries) load_library(library);
}

void print_result(const Session& session, const std::string& text, const nlohmann::json& value) {
  if (session.speaks_text()) write_standard_output(text);
  // Names in a model file can hold any bytes; JSON output stays valid UTF-8.
  if (session.json)
    write_standard_output(value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
}

}  // namespace tsq::cli
