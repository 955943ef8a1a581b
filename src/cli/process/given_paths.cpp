#include "cli/process/given_paths.h"

#include <fmt/format.h>
#include <tsq/bench/entry.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/module_files.h"
#include "cli/process/failure.h"
#include "cli/process/json_file.h"

namespace tsq::cli {
namespace {

namespace fs = std::filesystem;

/// Cuts a shell command at blanks, at what joins commands or redirects them, and at the = of an option with a
/// value. Quotes and backslashes are taken off. What the shell would put in, as for $HOME, is not.
std::vector<std::string> words_of(std::string_view command) {
  constexpr std::string_view kBetween = " \t\n;|&<>()=";
  std::vector<std::string> words(1);
  char quote = '\0';
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char byte = command[i];
    if (byte == '\\' && quote != '\'' && i + 1 < command.size()) {
      words.back() += command[++i];
    } else if (quote == '\0' && (byte == '\'' || byte == '"')) {
      quote = byte;
    } else if (byte == quote) {
      quote = '\0';
    } else if (quote == '\0' && kBetween.find(byte) != std::string_view::npos) {
      words.emplace_back();
    } else {
      words.back() += byte;
    }
  }
  std::erase(words, std::string());
  return words;
}

/// The words of a command, and those of what it gives to another shell: sh -c './score.sh {}'.
std::vector<std::string> all_words_of(const std::string& command) {
  std::vector<std::string> all;
  for (const std::string& word : words_of(command)) {
    all.push_back(word);
    if (word.size() >= command.size()) continue;  // it has no parts
    for (std::string& inner : all_words_of(word)) all.push_back(std::move(inner));
  }
  return all;
}

/// The file itself, and the files of modules that it names. What is wrong with it the command says when it
/// reads it.
std::vector<std::string> files_of_configuration(const std::string& path) {
  std::vector<std::string> files{path};
  try {
    nlohmann::json dict = read_json(path);
    const fs::path folder = fs::absolute(path).parent_path();
    for_files_of_modules(dict, [&](const nlohmann::json& module) {
      files.push_back((folder / module["file"].get<std::string>()).string());
    });
  } catch (const std::exception&) {
    return {path};
  }
  return files;
}

std::vector<std::string> files_of(PathKind kind, const std::string& value) {
  if (kind == PathKind::Configuration) return files_of_configuration(value);
  if (kind == PathKind::Model) return {bench::setting_from(value).path};
  if (kind == PathKind::Program) return all_words_of(value);
  return {value};
}

std::string name_of(const CLI::Option& option) {
  const std::vector<std::string>& names = option.get_lnames();
  return names.empty() ? option.get_name() : "--" + names.front();
}

}  // namespace

GivenPaths given_paths(const std::vector<PathOption>& options) {
  GivenPaths given;
  for (const auto& [option, kind] : options) {
    std::vector<GivenPath>& paths = kind == PathKind::Output ? given.outputs : given.inputs;
    const std::string name = name_of(*option);
    for (const std::string& value : option->results()) {
      const std::vector<std::string> files = files_of(kind, value);
      if (files.empty() || files.front().empty())
        throw UsageError(fmt::format("the value of {} is empty; name a {}", name,
                                     kind == PathKind::Program ? "program" : "file"));
      for (const std::string& file : files) paths.push_back({.option = name, .file = file});
    }
  }
  return given;
}

}  // namespace tsq::cli
