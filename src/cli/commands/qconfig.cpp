#include <fmt/format.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/recipe.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/process/json_file.h"

namespace tsq::cli {
namespace {

constexpr const char* kQconfigSummary = "List, print or check which observers layers get (QConfigMapping)";
constexpr const char* kQconfigExamples =
    "  tsq qconfig list\n"
    "  tsq qconfig show best_x86 > mine.json\n"
    "  tsq qconfig check mine.json";

struct NamedMapping {
  std::string_view name;
  std::string_view summary;
  QConfigMapping (*mapping)();
};
constexpr std::array<NamedMapping, 12> kMappings{{
    {"x86", "recipe fx, static: default of backend x86", [] { return default_qconfig_mapping("x86"); }},
    {"fbgemm", "recipe fx, static: default of backend fbgemm",
     [] { return default_qconfig_mapping("fbgemm"); }},
    {"qnnpack", "recipe fx, static: default of backend qnnpack",
     [] { return default_qconfig_mapping("qnnpack"); }},
    {"onednn", "recipe fx, static: default of backend onednn",
     [] { return default_qconfig_mapping("onednn"); }},
    {"best_x86", "recipe best, static, backend x86", [] { return best_qconfig_mapping("x86"); }},
    {"best_fbgemm", "recipe best, static, backend fbgemm", [] { return best_qconfig_mapping("fbgemm"); }},
    {"best_qnnpack", "recipe best, static, backend qnnpack", [] { return best_qconfig_mapping("qnnpack"); }},
    {"best_onednn", "recipe best, static, backend onednn", [] { return best_qconfig_mapping("onednn"); }},
    {"best_dynamic", "recipe best, dynamic", [] { return best_dynamic_qconfig_mapping(); }},
    {"symmetric_qnnpack", "symmetric activations for qnnpack",
     [] { return symmetric_qnnpack_qconfig_mapping(); }},
    {"dynamic", "recipe fx: activations quantized at run time", [] { return dynamic_qconfig_mapping(); }},
    {"weight_only", "8-bit weights of embeddings and linear layers",
     [] { return weight_only_qconfig_mapping(); }},
}};

void list_mappings(const Session& session) {
  nlohmann::json mappings = nlohmann::json::array();
  std::string text = "Mappings:\n";
  for (const NamedMapping& entry : kMappings) {
    mappings.push_back({{"name", entry.name}, {"summary", entry.summary}});
    text += fmt::format("  {:<20}{}\n", entry.name, entry.summary);
  }
  text += "QConfigs of PyTorch, each as a mapping that applies it to every layer:\n";
  nlohmann::json qconfigs = nlohmann::json::array();
  for (const std::string_view name : qconfig_names()) {
    qconfigs.push_back(name);
    text += fmt::format("  {}\n", name);
  }
  if (session.speaks_text()) std::cout << text;
  print_json(session, {{"mappings", mappings}, {"qconfigs", qconfigs}});
}

QConfigMapping mapping_of(const std::string& name) {
  const auto entry =
      std::find_if(kMappings.begin(), kMappings.end(), [&](const NamedMapping& m) { return m.name == name; });
  if (entry != kMappings.end()) return entry->mapping();
  std::vector<std::string_view> known = qconfig_names();
  if (std::find(known.begin(), known.end(), name) != known.end())
    return QConfigMapping().set_global(qconfig(name));
  for (const NamedMapping& mapping : kMappings) known.push_back(mapping.name);
  throw Error(ErrorCode::BadConfig, fmt::format("no mapping or QConfig has the name '{}'", name),
              suggestion(name, known));
}

void show_mapping(const std::string& name) { std::cout << mapping_of(name).to_dict().dump(2) << '\n'; }

void check_mapping(const std::string& path, const Session& session) {
  const auto mapping = read_config<QConfigMapping>(path);
  const nlohmann::json counts = {
      {"path", path},
      {"has_global", mapping.global_qconfig().has_value()},
      {"object_type", mapping.object_type_qconfigs().size()},
      {"module_name_regex", mapping.module_name_regex_qconfigs().size()},
      {"module_name", mapping.module_name_qconfigs().size()},
      {"module_name_object_type_order", mapping.module_name_object_type_order_qconfigs().size()}};
  if (session.speaks_text()) {
    std::cout << fmt::format(
        "'{}' is a QConfig mapping: {} global QConfig, {} object types, {} name patterns, {} names, {} "
        "places\n",
        path, mapping.global_qconfig() ? "a" : "no", mapping.object_type_qconfigs().size(),
        mapping.module_name_regex_qconfigs().size(), mapping.module_name_qconfigs().size(),
        mapping.module_name_object_type_order_qconfigs().size());
  }
  print_json(session, counts);
}

}  // namespace

void add_qconfig(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("qconfig", kQconfigSummary);
  group->require_subcommand(1);
  group->footer(std::string("Examples:\n") + kQconfigExamples);
  const auto argument = std::make_shared<std::string>();
  CLI::App* list_command =
      add_command(*group, session, "list", "Name the mappings and QConfigs that tsq knows", kQconfigExamples);
  list_command->callback([&session] { session.action = [&session] { list_mappings(session); }; });
  CLI::App* show_command =
      add_command(*group, session, "show", "Print a mapping as JSON, ready for --qconfig", kQconfigExamples);
  show_command->add_option("NAME", *argument, "A name from 'tsq qconfig list'")->required()->type_name("");
  show_command->callback([argument, &session] { session.action = [argument] { show_mapping(*argument); }; });
  CLI::App* check_command =
      add_command(*group, session, "check", "Say whether a JSON file is a mapping, or what is wrong with it",
                  kQconfigExamples);
  check_command->add_option("Q.json", *argument, "The mapping")->required()->type_name("");
  check_command->callback(
      [argument, &session] { session.action = [argument, &session] { check_mapping(*argument, session); }; });
}

}  // namespace tsq::cli
