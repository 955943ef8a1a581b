#include <fmt/format.h>
#include <tsq/backend_config.h>
#include <tsq/backends.h>
#include <tsq/check_table.h>

#include <nlohmann/json.hpp>

#include "base/text_table.h"
#include "cli/commands/commands.h"
#include "cli/process/json_file.h"
#include "cli/process/options.h"
#include "cli/process/standard_streams.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kBackendConfigHelp{.name = "backend-config",
                                         .summary = "List, print or check tables of patterns (BackendConfig)",
                                         .examples =
                                             "  tsq backend-config list\n"
                                             "  tsq backend-config show x86 > mine.json\n"
                                             "  tsq backend-config check mine.json"};

void list_tables(const Session& session) {
  nlohmann::json tables = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows;
  for (const BackendEntry& entry : backend_entries()) {
    const std::size_t patterns = entry.table().configs().size();
    tables.push_back(
        {{"name", entry.name}, {"engine", entry.engine}, {"patterns", patterns}, {"summary", entry.summary}});
    rows.push_back({fmt::format("{:<13}{:>4} patterns  {}", entry.name, patterns, entry.summary)});
  }
  print_result(session, text_table(rows), tables);
}

/// Its result is JSON with and without --json: the table is what was asked for.
void show_table(const std::string& name, const Session& /*session*/) {
  write_standard_output(backend_config(name).to_dict().dump(2) + '\n');
}

void check_file(const std::string& path, const Session& session) {
  const auto config = read_config<BackendConfig>(path);
  std::string text = fmt::format("'{}' is a backend config '{}' with {} patterns\n", path, config.name(),
                                 config.configs().size());
  nlohmann::json findings = nlohmann::json::array();
  for (const TableFinding& finding : check_table(config)) {
    text += fmt::format("  note       {}\n", finding.sentence);
    findings.push_back({{"row", finding.row},
                        {"pattern", finding.pattern},
                        {"kind", to_string(finding.kind)},
                        {"note", finding.sentence}});
  }
  print_result(session, text,
               {{"path", path},
                {"name", config.name()},
                {"patterns", config.configs().size()},
                {"findings", std::move(findings)}});
}

}  // namespace

void add_backend_config(CLI::App& app, Session& session) {
  CLI::App& group = add_group(app, kBackendConfigHelp);
  add_command(group, session,
              {.name = "list", .summary = "Name the shipped tables", .examples = kBackendConfigHelp.examples},
              [&session] { list_tables(session); });
  add_command<std::string>(
      group, session,
      {.name = "show", .summary = "Print a shipped table as JSON", .examples = kBackendConfigHelp.examples},
      [](const Command& command, std::string& name) {
        add_options(command, {required({"NAME", into(name), "A name from 'tsq backend-config list'"})});
      },
      show_table);
  add_command<std::string>(
      group, session,
      {.name = "check",
       .summary = "Say whether a JSON file is a table, what is wrong with it, and which rows do nothing",
       .examples = kBackendConfigHelp.examples},
      [](const Command& command, std::string& path) {
        add_options(command, {required(configuration_input({"B.json", into(path), "The table"}))});
      },
      check_file);
}

}  // namespace tsq::cli
