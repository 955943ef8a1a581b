#include <fmt/format.h>
#include <tsq/backend_config.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "config/json.h"
#include "config/json_config.h"

namespace tsq {
namespace {

using nlohmann::json;

/// Deeper patterns than this are taken for a mistake, before they use up the stack.
constexpr int kMaxPatternDepth = 32;

constexpr std::string_view kReferenceKey = "reference_quantized_module_for_root";
/// The spelling of PyTorch's documents, which PyTorch itself ignores.
constexpr std::string_view kDocumentedReferenceKey = "reference_quantized_module";

constexpr std::array<std::string_view, 2> kBackendConfigKeys{"name", "configs"};
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

/// A fuser as PyTorch calls it, and the getters that its table sets beside it. The side of an addition is in
/// the name there and in the root node getter here.
struct FuserName {
  Fuser fuser;
  RootNodeGetter side;
  std::string_view short_name;
  std::string_view module;
  std::string_view name;
  std::string_view root_getter;
  std::string_view extra_getter;
};

constexpr std::string_view kMappings = "torch.ao.quantization.fuser_method_mappings.";
constexpr std::string_view kOneDnn = "torch.ao.quantization.backend_config.onednn.";
constexpr std::string_view kPoolingGetter =
    "torch.ao.quantization.backend_config._qnnpack_pt2e.get_pooling_configs.<locals>.root_node_getter";

using enum RootNodeGetter;

constexpr std::array kFuserNames{
    FuserName{Fuser::Sequential, Default, "sequential", kMappings,
              "_sequential_wrapper2.<locals>.fuser_method", "", ""},
    FuserName{Fuser::ConvBn, Default, "conv_bn", kMappings, "fuse_conv_bn", "", ""},
    FuserName{Fuser::ConvBnReLU, Default, "conv_bn_relu", kMappings, "fuse_conv_bn_relu", "", ""},
    FuserName{Fuser::LinearBn, Default, "linear_bn", kMappings, "fuse_linear_bn", "", ""},
    FuserName{Fuser::ConvTransposeBn, Default, "convtranspose_bn", kMappings, "fuse_convtranspose_bn", "",
              ""},
    FuserName{Fuser::LinearBnLeakyReLU, Default, "linear_bn_leaky_relu", kOneDnn,
              "_fuse_linear_bn_leaky_relu", "", ""},
    FuserName{Fuser::ConvAdd, ConvLeft, "conv_add", kOneDnn, "_fuse_conv_add_left",
              "_conv_add_root_node_getter_left", "_conv_add_extra_inputs_getter_left"},
    FuserName{Fuser::ConvAdd, ConvRight, "conv_add", kOneDnn, "_fuse_conv_add_right",
              "_conv_add_root_node_getter_right", "_conv_add_extra_inputs_getter_right"},
    FuserName{Fuser::ConvBnAdd, ConvLeft, "conv_bn_add", kOneDnn, "_fuse_conv_bn_add_left",
              "_conv_bn_add_root_node_getter_left", "_conv_bn_add_extra_inputs_getter_left"},
    FuserName{Fuser::ConvBnAdd, ConvRight, "conv_bn_add", kOneDnn, "_fuse_conv_bn_add_right",
              "_conv_bn_add_root_node_getter_right", "_conv_bn_add_extra_inputs_getter_right"},
    FuserName{Fuser::ConvAddReLU, ConvLeft, "conv_add_relu", kOneDnn, "_fuse_conv_add_relu_left",
              "_conv_add_relu_root_node_getter_left", "_conv_add_relu_extra_inputs_getter_left"},
    FuserName{Fuser::ConvAddReLU, ConvRight, "conv_add_relu", kOneDnn, "_fuse_conv_add_relu_right",
              "_conv_add_relu_root_node_getter_right", "_conv_add_relu_extra_inputs_getter_right"},
    FuserName{Fuser::ConvBnAddReLU, ConvLeft, "conv_bn_add_relu", kOneDnn, "_fuse_conv_bn_add_relu_left",
              "_conv_bn_add_relu_root_node_getter_left", "_conv_bn_add_relu_extra_inputs_getter_left"},
    FuserName{Fuser::ConvBnAddReLU, ConvRight, "conv_bn_add_relu", kOneDnn, "_fuse_conv_bn_add_relu_right",
              "_conv_bn_add_relu_root_node_getter_right", "_conv_bn_add_relu_extra_inputs_getter_right"},
};

struct GetterName {
  RootNodeGetter getter;
  std::string_view name;
};
constexpr std::array kGetterNames{GetterName{ConvLeft, "conv_left"}, GetterName{ConvRight, "conv_right"},
                                  GetterName{FirstArgument, "first_argument"},
                                  GetterName{Default, "default"}};
constexpr std::string_view kOtherAddend = "other_addend";

/// The name without the module that PyTorch keeps it in; hand-written files leave the module out.
std::string_view unqualified(std::string_view name) {
  for (const std::string_view module : {kMappings, kOneDnn}) {
    if (name.starts_with(module)) return name.substr(module.size());
  }
  return name;
}

bool is_reversing_closure(std::string_view name) {
  return name == "_reverse_sequential_wrapper2.<locals>.fuser_method" ||
         name == "_reverse2.<locals>.reversed" || name == "_reverse3.<locals>.reversed";
}

const FuserName* fuser_of(Fuser fuser, RootNodeGetter side) {
  const auto found = std::ranges::find_if(
      kFuserNames, [&](const FuserName& known) { return known.fuser == fuser && known.side == side; });
  return found == kFuserNames.end() ? nullptr : &*found;
}

/// What to_dict writes for a row that says nothing else.
std::string default_fuser_name(const BackendPatternConfig& config) {
  if (!config.fuser_method) return {};
  if (const FuserName* known = fuser_of(*config.fuser_method, config.root_node_getter))
    return fmt::format("{}{}", known->module, known->name);
  const auto any = std::ranges::find(kFuserNames, *config.fuser_method, &FuserName::fuser);
  return std::string(any->short_name);
}

std::string root_getter_name(const BackendPatternConfig& config) {
  if (config.root_node_getter == FirstArgument) return std::string(kPoolingGetter);
  if (config.fuser_method) {
    const FuserName* known = fuser_of(*config.fuser_method, config.root_node_getter);
    if (known != nullptr && !known->root_getter.empty())
      return fmt::format("{}{}", kOneDnn, known->root_getter);
  }
  return std::string(std::ranges::find(kGetterNames, config.root_node_getter, &GetterName::getter)->name);
}

std::string extra_getter_name(const BackendPatternConfig& config) {
  if (config.fuser_method) {
    const FuserName* known = fuser_of(*config.fuser_method, config.root_node_getter);
    if (known != nullptr && !known->extra_getter.empty())
      return fmt::format("{}{}", kOneDnn, known->extra_getter);
  }
  return std::string(kOtherAddend);
}

[[noreturn]] void fail_fuser(const JsonValue& at, std::string_view name) {
  std::vector<std::string_view> known;
  for (const FuserName& fuser : kFuserNames) known.push_back(fuser.name);
  for (const FuserName& fuser : kFuserNames) known.push_back(fuser.short_name);
  const std::string_view near = nearest(unqualified(name), known);
  at.fail(fmt::format("'{}' is not a fuser", name),
          near.empty() ? "use \"sequential\" to put the modules in sequence into the fused_module"
                       : fmt::format("did you mean '{}'?", near));
}

/// The fuser, and the side of an addition that its name tells.
std::pair<Fuser, RootNodeGetter> read_fuser(const JsonValue& at) {
  const std::string_view name = unqualified(at.string());
  if (is_reversing_closure(name)) return {Fuser::Sequential, Default};
  for (const FuserName& known : kFuserNames) {
    if (known.name == name) return {known.fuser, known.side};
    if (known.short_name == name) return {known.fuser, Default};
  }
  fail_fuser(at, at.string());
}

RootNodeGetter read_root_getter(const JsonValue& at) {
  const std::string& full = at.string();
  const std::string_view name = unqualified(full);
  if (full == kPoolingGetter || full == "get_pooling_configs.<locals>.root_node_getter") return FirstArgument;
  if (name == "_default_root_node_getter") return Default;
  std::vector<std::string_view> names;
  for (const FuserName& known : kFuserNames) {
    if (!known.root_getter.empty() && known.root_getter == name) return known.side;
    if (!known.root_getter.empty()) names.push_back(known.root_getter);
  }
  for (const GetterName& known : kGetterNames) {
    if (known.name == name) return known.getter;
    names.push_back(known.name);
  }
  at.fail(fmt::format("'{}' is not a root node getter", full), suggestion(name, names));
}

ExtraInputsGetter read_extra_getter(const JsonValue& at) {
  const std::string_view name = unqualified(at.string());
  std::vector<std::string_view> names{kOtherAddend};
  for (const FuserName& known : kFuserNames) {
    if (!known.extra_getter.empty()) names.push_back(known.extra_getter);
  }
  if (std::ranges::find(names, name) != names.end()) return ExtraInputsGetter::OtherAddend;
  at.fail(fmt::format("'{}' is not an extra inputs getter", at.string()), suggestion(name, names));
}

ObservationType read_observation_type(const JsonValue& at) {
  constexpr std::string_view kPrefix = "ObservationType.";
  std::string_view name = at.string();
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  const auto found = std::ranges::find(kObservationTypes, name);
  if (found == kObservationTypes.end())
    at.fail(fmt::format("'{}' is not an observation type", name), suggestion(name, kObservationTypes));
  return static_cast<ObservationType>(found - kObservationTypes.begin());
}

std::string_view name_of(ObservationType type) { return kObservationTypes[static_cast<std::size_t>(type)]; }

Pattern read_pattern(const JsonValue& at) {
  if (!at.is_array()) return read_symbol(at);
  std::vector<Symbol> symbols;
  for (const JsonValue& item : at.elements("2 or 3 names")) symbols.push_back(read_symbol(item));
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
  std::vector<Pattern> args;
  for (std::size_t i = 1; i < parts.size(); ++i) args.push_back(read_complex_pattern(parts[i], depth + 1));
  return Pattern(read_symbol(parts[0]), std::move(args));
}

json complex_pattern_to_json(const Pattern& pattern) {
  const json own = pattern.symbol.kind == SymbolKind::Literal
                       ? json(std::stoll(std::string(pattern.symbol.name)))
                       : json(pattern.symbol.name);
  if (pattern.args.empty()) return own;
  json list = json::array({own});
  for (const Pattern& arg : pattern.args) list.push_back(complex_pattern_to_json(arg));
  return list;
}

json pattern_to_json(const Pattern& pattern) {
  if (pattern.args.empty()) return pattern.symbol.name;
  json list = json::array();
  for (const Symbol& symbol : symbols_of(pattern)) list.push_back(symbol.name);
  return list;
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
  for (const auto& [key, value] : at.members("input types and their indices")) {
    const std::int64_t index = value.integer();
    if (index < 0 || index > INT32_MAX) value.fail(fmt::format("got the index {}, wanted 0 or more", index));
    indices[key] = static_cast<int>(index);
  }
  return indices;
}

void read_module_into(const JsonValue& at, std::string_view key, std::optional<Symbol>& module) {
  if (at.has(key) && !at.at(key).is_null()) module = read_module(at.at(key));
}

void read_fusion(const JsonValue& at, BackendPatternConfig& config) {
  const auto given = [&](std::string_view key) { return at.has(key) && !at.at(key).is_null(); };
  if (given("root_node_getter")) config.root_node_getter = read_root_getter(at.at("root_node_getter"));
  if (given("extra_inputs_getter"))
    config.extra_inputs_getter = read_extra_getter(at.at("extra_inputs_getter"));
  if (!given("fuser_method")) return;

  const auto [fuser, side] = read_fuser(at.at("fuser_method"));
  config.fuser_method = fuser;
  if (side != Default && config.root_node_getter != side)
    at.at("fuser_method")
        .fail(fmt::format("'{}' needs the root node getter '{}'", at.at("fuser_method").string(),
                          fuser_of(fuser, side)->root_getter),
              "set 'root_node_getter'");
  if (default_fuser_name(config) != at.at("fuser_method").string())
    config.fuser_method_name = at.at("fuser_method").string();
  if (config.pattern && config.pattern->args.empty())
    at.at("fuser_method").fail("a fuser needs a pattern of 2 or 3 names");
  if (fuser == Fuser::Sequential && !config.fused_module)
    at.at("fuser_method")
        .fail("puts the modules into the fused_module, which is missing", "set 'fused_module'");
}

}  // namespace

BackendPatternConfig read_backend_pattern_config(const JsonValue& at) {
  at.expect_object("BackendPatternConfig", kPatternConfigKeys);
  const auto given = [&](std::string_view key) { return at.has(key) && !at.at(key).is_null(); };
  BackendPatternConfig config;
  if (given("pattern")) config.pattern = read_pattern(at.at("pattern"));
  if (given("pattern_complex_format"))
    config.pattern_complex_format = read_complex_pattern(at.at("pattern_complex_format"));
  with_path(at, [&] { return config.key().args.size(); });
  if (given("observation_type")) config.observation_type = read_observation_type(at.at("observation_type"));
  if (given("dtype_configs")) {
    for (const JsonValue& item : at.at("dtype_configs").elements("DTypeConfigs"))
      config.dtype_configs.push_back(read_dtype_config(item));
  }
  read_module_into(at, "root_module", config.root_module);
  read_module_into(at, "qat_module", config.qat_module);
  if (given(kReferenceKey) && given(kDocumentedReferenceKey))
    at.fail(fmt::format("has both '{}' and '{}'", kReferenceKey, kDocumentedReferenceKey),
            "they mean the same; keep the first");
  read_module_into(at, kReferenceKey, config.reference_quantized_module);
  read_module_into(at, kDocumentedReferenceKey, config.reference_quantized_module);
  read_module_into(at, "fused_module", config.fused_module);
  read_fusion(at, config);
  if (given("num_tensor_args_to_observation_type"))
    config.num_tensor_args_to_observation_type =
        read_num_tensor_args(at.at("num_tensor_args_to_observation_type"));
  if (given("input_type_to_index"))
    config.input_type_to_index = read_input_types(at.at("input_type_to_index"));
  return config;
}

BackendPatternConfig BackendPatternConfig::from_dict(const json& dict) {
  return read_backend_pattern_config(JsonValue(dict));
}

json BackendPatternConfig::to_dict() const {
  json dict = {{"observation_type", name_of(observation_type)}, {"dtype_configs", json::array()}};
  for (const DTypeConfig& config : dtype_configs) dict["dtype_configs"].push_back(config.to_dict());
  if (pattern) dict["pattern"] = pattern_to_json(*pattern);
  if (pattern_complex_format)
    dict["pattern_complex_format"] = complex_pattern_to_json(*pattern_complex_format);
  if (root_module) dict["root_module"] = root_module->name;
  if (qat_module) dict["qat_module"] = qat_module->name;
  if (reference_quantized_module) dict[std::string(kReferenceKey)] = reference_quantized_module->name;
  if (fused_module) dict["fused_module"] = fused_module->name;
  if (fuser_method)
    dict["fuser_method"] = fuser_method_name.empty() ? default_fuser_name(*this) : fuser_method_name;
  if (root_node_getter != Default) dict["root_node_getter"] = root_getter_name(*this);
  if (extra_inputs_getter != ExtraInputsGetter::None) dict["extra_inputs_getter"] = extra_getter_name(*this);
  for (const auto& [count, type] : num_tensor_args_to_observation_type)
    dict["num_tensor_args_to_observation_type"][std::to_string(count)] = name_of(type);
  if (!input_type_to_index.empty()) dict["input_type_to_index"] = input_type_to_index;
  return dict;
}

BackendConfig BackendConfig::from_dict(const json& dict) {
  const JsonValue at(dict);
  at.expect_object("BackendConfig", kBackendConfigKeys);
  BackendConfig backend(at.has("name") ? at.at("name").string() : std::string{});
  if (!at.has("configs")) return backend;
  for (const JsonValue& item : at.at("configs").elements("BackendPatternConfigs")) {
    BackendPatternConfig config = read_backend_pattern_config(item);
    for (std::size_t i = 0; i < backend.configs_.size(); ++i) {
      if (backend.configs_[i].key() == config.key())
        item.fail(fmt::format("the pattern '{}' is already in configs[{}]", to_string(config.key()), i),
                  "keep one of them");
    }
    backend.configs_.push_back(std::move(config));
  }
  return backend;
}

json BackendConfig::to_dict() const {
  json dict = {{"name", name_}, {"configs", json::array()}};
  for (const BackendPatternConfig& config : configs_) dict["configs"].push_back(config.to_dict());
  return dict;
}

}  // namespace tsq
