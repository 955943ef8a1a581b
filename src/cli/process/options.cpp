#include "cli/process/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tsq::cli {

OptionRow required(OptionRow row) {
  row.is_required = true;
  return row;
}

namespace {

OptionRow of_kind(PathKind kind, OptionRow row) {
  row.path = kind;
  return row;
}

}  // namespace

OptionRow input(OptionRow row) { return of_kind(PathKind::Input, std::move(row)); }

OptionRow configuration_input(OptionRow row) { return of_kind(PathKind::Configuration, std::move(row)); }

OptionRow model_input(OptionRow row) { return of_kind(PathKind::Model, std::move(row)); }

OptionRow program_input(OptionRow row) { return of_kind(PathKind::Program, std::move(row)); }

OptionRow output(OptionRow row) { return of_kind(PathKind::Output, std::move(row)); }

void add_options(const Command& command, std::initializer_list<OptionRow> rows, const std::string& group) {
  for (const OptionRow& row : rows) {
    CLI::Option* option = row.add(command.app, row.names, row.help)->type_name(row.type);
    option->required(row.is_required)->delimiter(row.delimiter)->group(group);
    if (row.check) option->check(*row.check);
    if (row.path != PathKind::None) command.paths.push_back({.option = option, .kind = row.path});
  }
}

CLI::Validator one_of(std::vector<std::string_view> words) {
  return CLI::Validator(
      [words](std::string& given) -> std::string {
        if (std::ranges::find(words, given) != words.end()) return {};
        return fmt::format("'{}' is not known; {}", given, suggestion(given, words));
      },
      "");
}

}  // namespace tsq::cli
