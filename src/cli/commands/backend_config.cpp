#include <fmt/format.h>
#include <tsq/backend_config.h>
#include <tsq/check_table.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/printing/text_table.h"
#include "cli/process/json_file.h"

namespace tsq::cli {
namespace {

constexpr const char* kBackendConfigSummary = "List, print or check tables of patterns (BackendConfig)";
constexpr const char* kBackendConfigExamples =
    "  tsq backend-config list\n"
    "  tsq backend-config show x86 > mine.json\n"
    "  tsq backend-config check mine.json";

void list_tables(const Session& session) {
  nlohmann::json tables = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows;
  for (const BackendEntry& entry : backend_entries()) {
    const std::size_t patterns = entry.table().configs().size();
    tables.push_back(
        {{"name", entry.name}, {"engine", entry.engine}, {"patterns", patterns}, {"summary", entry.summary}});
    rows.push_back({fmt::format("{:<13}{:>4} patterns  {}", entry.name, patterns, entry.summary)});
  }
  if (session.speaks_text()) std::cout << text_table(rows);
  print_json(session, tables);
}

/// Its result is JSON with and without --json: the table is what was asked for.
void show_table(const std::string& name) { std::cout << backend_config(name).to_dict().dump(2) << '\n'; }

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
  if (session.speaks_text()) std::cout << text;
  print_json(session, {{"path", path},
                       {"name", config.name()},
                       {"patterns", config.configs().size()},
                       {"findings", std::move(findings)}});
}

}  // namespace

void add_backend_config(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("backend-config", kBackendConfigSummary);
  group->require_subcommand(1);
  group->footer(std::string("Examples:\n") + kBackendConfigExamples);
  const auto argument = std::make_shared<std::string>();
  CLI::App* list_command =
      add_command(*group, session, "list", "Name the shipped tables", kBackendConfigExamples);
  list_command->callback([&session] { session.action = [&session] { list_tables(session); }; });
  CLI::App* show_command =
      add_command(*group, session, "show", "Print a shipped table as JSON", kBackendConfigExamples);
  show_command->add_option("NAME", *argument, "A name from 'tsq backend-config list'")
      ->required()
      ->type_name("");
  show_command->callback([argument, &session] { session.action = [argument] { show_table(*argument); }; });
  CLI::App* check_command =
      add_command(*group, session, "check",
                  "Say whether a JSON file is a table, what is wrong with it, and which rows do nothing",
                  kBackendConfigExamples);
  check_command->add_option("B.json", *argument, "The table")->required()->type_name("");
  check_command->callback(
      [argument, &session] { session.action = [argument, &session] { check_file(*argument, session); }; });
}

}  // namespace tsq::cli
