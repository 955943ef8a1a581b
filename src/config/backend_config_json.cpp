#include <fmt/format.h>
#include <tsq/backend_config.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/mapped.h"
#include "base/text.h"
#include "config/fusers.h"
#include "config/json.h"
#include "config/json_config.h"
#include "config/module_definition.h"
#include "config/reference_definitions.h"

namespace tsq {
namespace {

using nlohmann::json;

/// Deeper patterns than this are taken for a mistake, before they use up the stack.
constexpr int kMaxPatternDepth = 32;

constexpr std::string_view kReferenceKey = "reference_quantized_module_for_root";
/// The spelling of PyTorch's documents, which PyTorch itself ignores.
constexpr std::string_view kDocumentedReferenceKey = "reference_quantized_module";

constexpr const char* kFallsBackKey = "falls_back_to_libtorch";
constexpr const char* kEngineKey = "engine";
constexpr std::array<std::string_view, 4> kBackendConfigKeys{"name", kEngineKey, "configs", kFallsBackKey};
constexpr std::array<std::string_view, 14> kPatternConfigKeys{"pattern",
                                                              "observation_type",
                                                              "dtype_configs",
                                                              "root_module",
                                                              "qat_module",
                                                              kReferenceKey,
                                                              kDocumentedReferenceKey,
                                                              "fused_module",
                                                              "fuser_method",
                                                              "root_node_getter",
                                                              "extra_inputs_getter",
                                                              "num_tensor_args_to_observation_type",
                                                              "input_type_to_index",
                                                              "pattern_complex_format"};
constexpr std::array<std::string_view, 3> kInputTypes{"weight", "bias", "input"};
constexpr std::array<std::string_view, 3> kObservationTypes{"OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT",
                                                            "OUTPUT_SHARE_OBSERVER_WITH_INPUT",
                                                            "INPUT_OUTPUT_NOT_OBSERVED"};

ObservationType read_observation_type(const JsonValue& at) {
  const std::string_view name = without_prefix(at.string(), "ObservationType.");
  const auto found = std::ranges::find(kObservationTypes, name);
  if (found == kObservationTypes.end())
    at.fail(fmt::format("'{}' is not an observation type", name), suggestion(name, kObservationTypes));
  return static_cast<ObservationType>(found - kObservationTypes.begin());
}

std::string_view name_of(ObservationType type) { return kObservationTypes[static_cast<std::size_t>(type)]; }

Pattern read_pattern(const JsonValue& at) {
  if (!at.is_array()) return read_symbol(at);
  const std::vector<Symbol> symbols = mapped(at.elements("2 or 3 names"), read_symbol);
  if (symbols.size() != 2 && symbols.size() != 3)
    at.fail(
        fmt::format("got a pattern of {} names, wanted 2 or 3", symbols.size()),
        symbols.size() == 1 ? "write a single name without the list" : "use 'pattern_complex_format' for it");
  return chain(symbols);
}

Pattern read_complex_pattern(const JsonValue& at, int depth = 0) {
  if (!at.is_array()) return read_symbol(at);
  if (depth == kMaxPatternDepth)
    at.fail(fmt::format("the pattern is nested more than {} deep", kMaxPatternDepth));
  const auto parts = at.elements("an operator and the patterns of its arguments");
  if (parts.size() < 2)
    at.fail(
        fmt::format("got a list of {}, wanted an operator and the patterns of its arguments", parts.size()));
  std::vector<Pattern> args = mapped(std::span(parts).subspan(1), [&](const JsonValue& part) {
    return read_complex_pattern(part, depth + 1);
  });
  return Pattern(read_symbol(parts[0]), std::move(args));
}

json complex_pattern_to_json(const Pattern& pattern) {
  const json own = pattern.symbol.kind == SymbolKind::Literal
                       ? json(std::stoll(std::string(pattern.symbol.name)))
                       : json(written_name(pattern.symbol));
  if (pattern.args.empty()) return own;
  json list = json::array({own});
  for (const Pattern& arg : pattern.args) list.push_back(complex_pattern_to_json(arg));
  return list;
}

json pattern_to_json(const Pattern& pattern) {
  if (pattern.args.empty()) return written_name(pattern.symbol);
  return mapped(symbols_of(pattern), written_name);
}

std::map<int, ObservationType> read_num_tensor_args(const JsonValue& at) {
  std::map<int, ObservationType> types;
  for (const auto& [key, value] : at.members("numbers of tensors and their observation types")) {
    if (key.size() != 1 || key[0] < '0' || key[0] > '9')
      at.fail(fmt::format("'{}' is not a number of tensors", key), "use \"0\", \"1\" or \"2\"");
    types[key[0] - '0'] = read_observation_type(value);
  }
  return types;
}

std::map<std::string, int> read_input_types(const JsonValue& at) {
  at.expect_object("input_type_to_index", kInputTypes);
  std::map<std::string, int> indices;
  for (const auto& [key, value] : at.members("input types and their indices")) indices[key] = value.index();
  return indices;
}

void read_module_into(const JsonValue& at, std::string_view key, std::optional<Symbol>& module) {
  if (at.is_given(key)) module = read_module(at.at(key));
}

/// A name, or an object that defines the module.
void read_reference_into(const JsonValue& at, std::string_view key, std::optional<Symbol>& module) {
  if (!at.has(key) || !at.at(key).json().is_object()) return read_module_into(at, key, module);
  const JsonValue given = at.at(key);
  const ModuleDefinition definition = read_module_definition(given, "a reference module");
  module = with_path(given, [&] { return define_reference_module(definition); });
}

json reference_to_json(Symbol reference) {
  const auto definition = reference_definition(reference);
  return definition ? to_json(*definition) : json(written_name(reference));
}

void read_fusion(const JsonValue& at, BackendPatternConfig& config) {
  const auto read = [&](std::string_view key, const auto& set) {
    if (at.is_given(key)) with_path(at.at(key), [&] { set(std::string_view(at.at(key).string())); });
  };
  read("root_node_getter", [&](std::string_view name) { config.set_root_node_getter(name); });
  read("extra_inputs_getter", [&](std::string_view name) { config.set_extra_inputs_getter(name); });
  if (!at.is_given("fuser_method")) return;

  const JsonValue given = at.at("fuser_method");
  const NamedFuser fuser = with_path(given, [&] { return fuser_from_name(given.string()); });
  if (fuser.side != RootNodeGetter::Default && config.root_node_getter != fuser.side)
    given.fail(
        fmt::format("'{}' needs the root node getter '{}'", given.string(), root_node_getter_of(fuser)),
        "set 'root_node_getter'");
  config.set_fuser_method(std::string_view(given.string()));
  if (config.pattern && config.pattern->args.empty()) given.fail("a fuser needs a pattern of 2 or 3 names");
  if (fuser.fuser == Fuser::Sequential && !config.fused_module)
    given.fail("puts the modules into the fused_module, which is missing", "set 'fused_module'");
}

}  // namespace

BackendPatternConfig read_backend_pattern_config(const JsonValue& at) {
  at.expect_object("BackendPatternConfig", kPatternConfigKeys);
  BackendPatternConfig config;
  if (at.is_given("pattern")) config.pattern = read_pattern(at.at("pattern"));
  if (at.is_given("pattern_complex_format"))
    config.pattern_complex_format = read_complex_pattern(at.at("pattern_complex_format"));
  with_path(at, [&] { return config.key().args.size(); });
  if (at.is_given("observation_type"))
    config.observation_type = read_observation_type(at.at("observation_type"));
  if (at.is_given("dtype_configs")) {
    for (const JsonValue& item : at.at("dtype_configs").elements("DTypeConfigs"))
      config.dtype_configs.push_back(read_dtype_config(item));
  }
  read_module_into(at, "root_module", config.root_module);
  read_module_into(at, "qat_module", config.qat_module);
  read_reference_into(at, kDocumentedReferenceKey, config.reference_quantized_module);
  const std::optional<Symbol> documented = config.reference_quantized_module;
  read_reference_into(at, kReferenceKey, config.reference_quantized_module);
  if (documented && documented != config.reference_quantized_module)
    at.fail(fmt::format("'{}' is '{}' and '{}' is '{}'", kReferenceKey,
                        config.reference_quantized_module->name, kDocumentedReferenceKey, documented->name),
            "they mean the same; keep the first");
  read_module_into(at, "fused_module", config.fused_module);
  read_fusion(at, config);
  if (at.is_given("num_tensor_args_to_observation_type"))
    config.num_tensor_args_to_observation_type =
        read_num_tensor_args(at.at("num_tensor_args_to_observation_type"));
  if (at.is_given("input_type_to_index"))
    config.input_type_to_index = read_input_types(at.at("input_type_to_index"));
  return config;
}

BackendPatternConfig BackendPatternConfig::from_dict(const json& dict) {
  return read_backend_pattern_config(JsonValue(dict));
}

json BackendPatternConfig::to_dict() const {
  json dict = {{"observation_type", name_of(observation_type)},
               {"dtype_configs", mapped(dtype_configs, &DTypeConfig::to_dict)}};
  if (pattern) dict["pattern"] = pattern_to_json(*pattern);
  if (pattern_complex_format)
    dict["pattern_complex_format"] = complex_pattern_to_json(*pattern_complex_format);
  if (root_module) dict["root_module"] = written_name(*root_module);
  if (qat_module) dict["qat_module"] = written_name(*qat_module);
  if (reference_quantized_module)
    dict[std::string(kReferenceKey)] = reference_to_json(*reference_quantized_module);
  if (fused_module) dict["fused_module"] = written_name(*fused_module);
  if (fuser_method) dict["fuser_method"] = fuser_name(*this);
  if (root_node_getter != RootNodeGetter::Default) dict["root_node_getter"] = root_node_getter_name(*this);
  if (extra_inputs_getter != ExtraInputsGetter::None)
    dict["extra_inputs_getter"] = extra_inputs_getter_name(*this);
  for (const auto& [count, type] : num_tensor_args_to_observation_type)
    dict["num_tensor_args_to_observation_type"][std::to_string(count)] = name_of(type);
  if (!input_type_to_index.empty()) dict["input_type_to_index"] = input_type_to_index;
  return dict;
}

BackendConfig BackendConfig::from_dict(const json& dict) {
  std::vector<std::string> notes;
  return from_dict(dict, notes);
}

BackendConfig BackendConfig::from_dict(const json& dict, std::vector<std::string>& notes) {
  const JsonValue at(dict);
  at.expect_object("BackendConfig", kBackendConfigKeys);
  BackendConfig backend(at.has("name") ? at.at("name").string() : std::string{});
  if (at.is_given(kEngineKey)) {
    const JsonValue engine = at.at(kEngineKey);
    with_path(engine, [&] { backend.set_engine(engine.string()); });
  }
  if (at.is_given(kFallsBackKey)) backend.set_falls_back_to_libtorch(at.at(kFallsBackKey).boolean());
  if (!at.has("configs")) return backend;
  for (const JsonValue& item : at.at("configs").elements("BackendPatternConfigs")) {
    BackendPatternConfig config = read_backend_pattern_config(item);
    const auto same = std::ranges::find_if(
        backend.configs_, [&](const BackendPatternConfig& known) { return known.key() == config.key(); });
    if (same != backend.configs_.end())
      notes.push_back(fmt::format("'{}' takes the place of an earlier row with the pattern '{}'", item.path(),
                                  to_string(config.key())));
    backend.set_backend_pattern_config(std::move(config));
  }
  return backend;
}

json BackendConfig::to_dict() const {
  json dict{{"name", name_}, {"configs", mapped(configs_, &BackendPatternConfig::to_dict)}};
  if (!engine_.empty()) dict[kEngineKey] = engine_;
  if (!falls_back_to_libtorch_) dict[kFallsBackKey] = false;
  return dict;
}

}  // namespace tsq
