#include "cli/process/session.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace tsq::cli {
namespace {

constexpr const char* kCommon = "Options of every command";

}  // namespace

CLI::App* add_command(CLI::App& app, Session& session, const std::string& name, const std::string& summary,
                      const std::string& examples) {
  CLI::App* command = app.add_subcommand(name, summary);
  command->add_flag("--json", session.json, "Print the result as JSON on standard output")->group(kCommon);
  command
      ->add_flag("-q,--quiet", session.quiet,
                 "Print neither results nor progress (--json still prints its JSON)")
      ->group(kCommon);
  command
      ->add_option("--threads", session.threads,
                   "Threads that LibTorch computes with (default: its own choice)")
      ->group(kCommon)
      ->type_name("N")
      ->check(CLI::Range(1, 4096).description(""));
  command->footer("Examples:\n" + examples);
  return command;
}

void apply_threads(const Session& session) {
  if (session.threads > 0) at::set_num_threads(session.threads);
}

void print_json(const Session& session, const nlohmann::json& value) {
  if (!session.json) return;
  // Names in a model file can hold any bytes; JSON output stays valid UTF-8.
  std::cout << value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

CLI::Validator one_of(std::vector<std::string> words) {
  return CLI::Validator(
      [words](std::string& given) -> std::string {
        const std::vector<std::string_view> known(words.begin(), words.end());
        if (std::find(words.begin(), words.end(), given) != words.end()) return {};
        return fmt::format("'{}' is not known; {}", given, suggestion(given, known));
      },
      "");
}

}  // namespace tsq::cli
