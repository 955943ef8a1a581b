#include "cli/process/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tsq::cli {

OptionRow required(OptionRow row) {
  row.is_required = true;
  return row;
}

void add_options(CLI::App& command, std::initializer_list<OptionRow> rows, const std::string& group) {
  for (const OptionRow& row : rows) {
    CLI::Option* option = row.add(command, row.names, row.help)->type_name(row.type);
    option->required(row.is_required)->delimiter(row.delimiter)->group(group);
    if (row.check) option->check(*row.check);
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
