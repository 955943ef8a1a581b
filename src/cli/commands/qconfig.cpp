#include <fmt/format.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/recipe.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/process/json_file.h"
#include "cli/process/options.h"
#include "cli/process/standard_streams.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kQconfigHelp{
    .name = "qconfig",
    .summary = "List, print or check which observers layers get (QConfigMapping)",
    .examples =
        "  tsq qconfig list\n"
        "  tsq qconfig show best_x86 > mine.json\n"
        "  tsq qconfig check mine.json"};

struct NamedMapping {
  std::string_view name;
  std::string_view summary;
  QConfigMapping (*mapping)();
};
constexpr std::array<NamedMapping, 21> kMappings{{
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
    {"qat_x86", "recipe fx, training: default of backend x86",
     [] { return default_qat_qconfig_mapping("x86"); }},
    {"qat_fbgemm", "recipe fx, training: default of backend fbgemm",
     [] { return default_qat_qconfig_mapping("fbgemm"); }},
    {"qat_qnnpack", "recipe fx, training: default of backend qnnpack",
     [] { return default_qat_qconfig_mapping("qnnpack"); }},
    {"qat_onednn", "recipe fx, training: default of backend onednn",
     [] { return default_qat_qconfig_mapping("onednn"); }},
    {"qat_symmetric_qnnpack", "recipe fx, training: symmetric activations for qnnpack",
     [] { return symmetric_qnnpack_qat_qconfig_mapping(); }},
    {"best_qat_x86", "recipe best, training, backend x86", [] { return best_qat_qconfig_mapping("x86"); }},
    {"best_qat_fbgemm", "recipe best, training, backend fbgemm",
     [] { return best_qat_qconfig_mapping("fbgemm"); }},
    {"best_qat_qnnpack", "recipe best, training, backend qnnpack",
     [] { return best_qat_qconfig_mapping("qnnpack"); }},
    {"best_qat_onednn", "recipe best, training, backend onednn",
     [] { return best_qat_qconfig_mapping("onednn"); }},
}};

void list_mappings(const Session& session) {
  nlohmann::json mappings = nlohmann::json::array();
  std::string text = "Mappings:\n";
  for (const NamedMapping& entry : kMappings) {
    mappings.push_back({{"name", entry.name}, {"summary", entry.summary}});
    text += fmt::format("  {:<23}{}\n", entry.name, entry.summary);
  }
  text += "QConfigs of PyTorch, each as a mapping that applies it to every layer:\n";
  for (const std::string_view name : qconfig_names()) text += fmt::format("  {}\n", name);
  print_result(session, text, {{"mappings", mappings}, {"qconfigs", qconfig_names()}});
}

QConfigMapping mapping_of(const std::string& name) {
  const auto entry = std::ranges::find(kMappings, name, &NamedMapping::name);
  if (entry != kMappings.end()) return entry->mapping();
  std::vector<std::string_view> known = qconfig_names();
  if (std::ranges::find(known, name) != known.end()) return QConfigMapping().set_global(qconfig(name));
  for (const NamedMapping& mapping : kMappings) known.push_back(mapping.name);
  throw Error(ErrorCode::BadConfig, fmt::format("no mapping or QConfig has the name '{}'", name),
              suggestion(name, known));
}

void show_mapping(const std::string& name, const Session& /*session*/) {
  write_standard_output(mapping_of(name).to_dict().dump(2) + '\n');
}

void check_mapping(const std::string& path, const Session& session) {
  const auto mapping = read_config<QConfigMapping>(path);
  print_result(
      session,
      fmt::format(
          "'{}' is a QConfig mapping: {} global QConfig, {} object types, {} name patterns, {} names, {} "
          "places\n",
          path, mapping.global_qconfig() ? "a" : "no", mapping.object_type_qconfigs().size(),
          mapping.module_name_regex_qconfigs().size(), mapping.module_name_qconfigs().size(),
          mapping.module_name_object_type_order_qconfigs().size()),
      {{"path", path},
       {"has_global", mapping.global_qconfig().has_value()},
       {"object_type", mapping.object_type_qconfigs().size()},
       {"module_name_regex", mapping.module_name_regex_qconfigs().size()},
       {"module_name", mapping.module_name_qconfigs().size()},
       {"module_name_object_type_order", mapping.module_name_object_type_order_qconfigs().size()}});
}

}  // namespace

void add_qconfig(CLI::App& app, Session& session) {
  CLI::App& group = add_group(app, kQconfigHelp);
  add_command(group, session,
              {.name = "list",
               .summary = "Name the mappings and QConfigs that tsq knows",
               .examples = kQconfigHelp.examples},
              [&session] { list_mappings(session); });
  add_command<std::string>(
      group, session,
      {.name = "show",
       .summary = "Print a mapping as JSON, ready for --qconfig",
       .examples = kQconfigHelp.examples},
      [](const Command& command, std::string& name) {
        add_options(command, {required({"NAME", into(name), "A name from 'tsq qconfig list'"})});
      },
      show_mapping);
  add_command<std::string>(
      group, session,
      {.name = "check",
       .summary = "Say whether a JSON file is a mapping, or what is wrong with it",
       .examples = kQconfigHelp.examples},
      [](const Command& command, std::string& path) {
        add_options(command, {required(configuration_input({"Q.json", into(path), "The mapping"}))});
      },
      check_mapping);
}

}  // namespace tsq::cli
