#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tsq::cli {

/// Adds an option to a command.
using AddOption =
    std::function<CLI::Option*(CLI::App& command, const std::string& names, const std::string& help)>;

/// An option whose value goes into `value`, which outlives the command; a flag for a bool.
template <typename Value>
AddOption into(Value& value) {
  return [&value](CLI::App& command, const std::string& names, const std::string& help) {
    if constexpr (std::is_same_v<Value, bool>) {
      return command.add_flag(names, value, help);
    } else {
      return command.add_option(names, value, help);
    }
  };
}

/// An option that may be given several times, with one value each.
inline AddOption into_each(std::vector<std::string>& values) {
  return [&values](CLI::App& command, const std::string& names, const std::string& help) {
    return command.add_option(names, values, help)->allow_extra_args(false);
  };
}

/// What the value of an option is to the files of the user.
enum class PathKind {
  None,           ///< names no file
  Input,          ///< a file that is read
  Configuration,  ///< a JSON file that is read, and that may name further files
  Model,          ///< a file that is read, with settings after an @
  Program,        ///< a shell command: those of its words that name files are read
  Output,         ///< a file that is written
};

/// An option that names files, of any command.
struct PathOption {
  const CLI::Option* option;
  PathKind kind;
};

/// A command that gets its options.
struct Command {
  CLI::App& app;
  std::vector<PathOption>& paths;  ///< where its options that name files are noted
};

/// A row of a table of options.
struct OptionRow {
  std::string names;  ///< "-o,--output"; "MODEL.pt" for an argument without a name
  AddOption add;      ///< into(…)
  std::string help;
  std::string type{};  ///< what stands for the value in the help: "OUT.pt"
  std::optional<CLI::Validator> check{};
  char delimiter{'\0'};  ///< between the values of a list
  bool is_required{false};
  PathKind path{PathKind::None};
};
/// The same row for what must be given.
OptionRow required(OptionRow row);
/// The same row for a file that is read, and that no output replaces.
OptionRow input(OptionRow row);
/// For JSON that may name further files, which no output replaces either.
OptionRow configuration_input(OptionRow row);
/// For models with settings after an @.
OptionRow model_input(OptionRow row);
/// For a shell command.
OptionRow program_input(OptionRow row);
/// For a file that is written.
OptionRow output(OptionRow row);
void add_options(const Command& command, std::initializer_list<OptionRow> rows,
                 const std::string& group = "Options");

/// A check for options that take one of a few words, which live as long as the program: names the nearest
/// word in its refusal.
CLI::Validator one_of(std::vector<std::string_view> words);

/// A check for numbers from `low` to `high`, of which the help says nothing.
template <typename Number>
CLI::Validator within(Number low, Number high) {
  return CLI::Range(low, high).description("");
}

}  // namespace tsq::cli
