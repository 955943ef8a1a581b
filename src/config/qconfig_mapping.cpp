#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/qconfig_mapping.h>

#include <algorithm>
#include <array>

#include "config/json.h"
#include "config/json_config.h"
#include "config/observers.h"
#include "config/python_regex.h"

namespace tsq {
namespace {

/// Operators whose output range is known beforehand. Source: _FIXED_QPARAMS_OP_TO_OBSERVER in
/// qconfig_mapping.py.
struct FixedQParamsOp {
  std::string_view type;
  bool from_minus_one;  ///< -1 to 1; else 0 to 1
};
constexpr std::array kFixedQParamsOps{
    FixedQParamsOp{"torch.nn.Hardsigmoid", false},
    FixedQParamsOp{"torch.nn.functional.hardsigmoid", false},
    FixedQParamsOp{"hardsigmoid", false},
    FixedQParamsOp{"hardsigmoid_", false},
    FixedQParamsOp{"torch.nn.Sigmoid", false},
    FixedQParamsOp{"torch.sigmoid", false},
    FixedQParamsOp{"sigmoid", false},
    FixedQParamsOp{"sigmoid_", false},
    FixedQParamsOp{"torch.nn.Softmax", false},
    FixedQParamsOp{"torch.nn.Tanh", true},
    FixedQParamsOp{"torch.tanh", true},
    FixedQParamsOp{"tanh", true},
    FixedQParamsOp{"tanh_", true},
};

constexpr std::array<std::string_view, 6> kConvTransposes{
    "torch.nn.ConvTranspose1d",
    "torch.nn.ConvTranspose2d",
    "torch.nn.ConvTranspose3d",
    "torch.nn.functional.conv_transpose1d",
    "torch.nn.functional.conv_transpose2d",
    "torch.nn.functional.conv_transpose3d",
};

constexpr std::array<std::string_view, 5> kMappingKeys{"", "object_type", "module_name_regex", "module_name",
                                                       "module_name_object_type_order"};

template <typename Key>
void set(std::vector<std::pair<Key, MaybeQConfig>>& entries, Key key, MaybeQConfig qconfig) {
  const auto known = std::ranges::find(entries, key, &std::pair<Key, MaybeQConfig>::first);
  if (known == entries.end()) {
    entries.emplace_back(std::move(key), std::move(qconfig));
  } else {
    known->second = std::move(qconfig);
  }
}

template <typename Key>
bool contains(const std::vector<std::pair<Key, MaybeQConfig>>& entries, const Key& key) {
  return std::ranges::find(entries, key, &std::pair<Key, MaybeQConfig>::first) != entries.end();
}

/// Source: _get_default_qconfig_mapping.
QConfigMapping default_mapping(const QConfig& qconfig, std::string_view backend, bool qat) {
  using namespace observers;
  const ObserverSpec default_weight = qat ? fake_weight() : weight();
  // Transposed convolutions of fbgemm and x86 have no per-channel weights.
  const bool per_tensor = backend == "fbgemm" || backend == "x86";
  const QConfig transpose = per_tensor ? QConfig{qconfig.activation, default_weight} : qconfig;
  const QConfig layer_norm{qconfig.activation, placeholder()};

  QConfigMapping mapping;
  mapping.set_global(qconfig).set_object_type("reshape", tsq::qconfig("default_reuse_input_qconfig"));
  for (const std::string_view type : kConvTransposes) mapping.set_object_type(type, transpose);
  mapping.set_object_type("torch.nn.functional.layer_norm", layer_norm)
      .set_object_type("torch.nn.LayerNorm", layer_norm)
      .set_object_type("torch.nn.PReLU", tsq::qconfig("default_quint8_weight_qconfig"));
  for (const FixedQParamsOp& op : kFixedQParamsOps) {
    ObserverSpec activation = op.from_minus_one ? fixed_neg_1_to_1() : fixed_0_to_1();
    if (qat) activation.fake_quantize = "FixedQParamsFakeQuantize";
    mapping.set_object_type(op.type, QConfig{std::move(activation), default_weight});
  }
  return mapping;
}

/// Source: _get_default_qconfig_mapping_with_default_qconfig (B-24).
QConfigMapping with_one_qconfig(QConfigMapping mapping, const QConfig& qconfig) {
  mapping.set_global(qconfig);
  const auto entries = mapping.object_type_qconfigs();
  for (const auto& [type, ignored] : entries) {
    if (std::ranges::find(kFixedQParamsOps, type.name, &FixedQParamsOp::type) == kFixedQParamsOps.end())
      mapping.set_object_type(type, qconfig);
  }
  return mapping;
}

std::vector<JsonValue> entry(const JsonValue& at, std::size_t size, std::string_view form) {
  std::vector<JsonValue> parts = at.elements(form);
  if (parts.size() != size) at.fail(fmt::format("got a list of {}, wanted {}", parts.size(), form));
  return parts;
}

/// Where the notes about replaced entries go.
using Notes = std::vector<std::string>&;

void note_replaced(Notes notes, const JsonValue& at, const std::string& what) {
  notes.push_back(fmt::format("'{}' takes the place of an earlier entry of {}", at.path(), what));
}

void read_object_types(const JsonValue& at, ReadEntry read, QConfigMapping& mapping, Notes notes) {
  for (const JsonValue& item : at.elements("[type, QConfig]")) {
    const auto parts = entry(item, 2, "[type, QConfig]");
    const Symbol type = read_symbol(parts[0]);
    if (contains(mapping.object_type_qconfigs(), type))
      note_replaced(notes, item, fmt::format("'{}'", type.name));
    mapping.set_object_type(type, read(parts[1]));
  }
}

void read_regexes(const JsonValue& at, ReadEntry read, QConfigMapping& mapping, Notes notes) {
  for (const JsonValue& item : at.elements("[regex, QConfig]")) {
    const auto parts = entry(item, 2, "[regex, QConfig]");
    const std::string& regex = parts[0].string();
    if (contains(mapping.module_name_regex_qconfigs(), regex))
      note_replaced(notes, item, fmt::format("'{}'", regex));
    MaybeQConfig qconfig = read(parts[1]);
    with_path(parts[0], [&] { mapping.set_module_name_regex(regex, std::move(qconfig)); });
  }
}

void read_module_names(const JsonValue& at, ReadEntry read, QConfigMapping& mapping, Notes notes) {
  for (const JsonValue& item : at.elements("[module name, QConfig]")) {
    const auto parts = entry(item, 2, "[module name, QConfig]");
    const std::string& name = parts[0].string();
    if (contains(mapping.module_name_qconfigs(), name)) note_replaced(notes, item, fmt::format("'{}'", name));
    mapping.set_module_name(name, read(parts[1]));
  }
}

void read_orders(const JsonValue& at, ReadEntry read, QConfigMapping& mapping, Notes notes) {
  constexpr std::string_view kForm = "[module name, type, index, QConfig]";
  for (const JsonValue& item : at.elements(kForm)) {
    const auto parts = entry(item, 4, kForm);
    const std::string& name = parts[0].string();
    const Symbol type = read_symbol(parts[1]);
    const std::int64_t index = parts[2].integer();
    if (index < 0 || index > INT32_MAX)
      parts[2].fail(fmt::format("got the index {}, wanted 0 or more", index));
    const bool known =
        std::ranges::any_of(mapping.module_name_object_type_order_qconfigs(), [&](const auto& other) {
          return other.module_name == name && other.object_type == type && other.index == index;
        });
    if (known) note_replaced(notes, item, fmt::format("'{}', '{}', {}", name, type.name, index));
    mapping.set_module_name_object_type_order(name, type, static_cast<int>(index), read(parts[3]));
  }
}

/// The nearest configured module: itself, else its parents from near to far (B-07).
const std::pair<std::string, MaybeQConfig>* nearest_ancestor(const QConfigMapping& mapping,
                                                             std::string path) {
  const auto& entries = mapping.module_name_qconfigs();
  while (!path.empty()) {
    const auto found = std::ranges::find(entries, path, &std::pair<std::string, MaybeQConfig>::first);
    if (found != entries.end()) return &*found;
    const auto dot = path.rfind('.');
    path.resize(dot == std::string::npos ? 0 : dot);
  }
  return nullptr;
}

void decide_by_type(const QConfigMapping& mapping, Symbol type, QConfigDecision& decision) {
  for (const auto& [known, qconfig] : mapping.object_type_qconfigs()) {
    if (known == type) decision = {qconfig, QConfigSource::ObjectType, std::string(type.name)};
  }
}

}  // namespace

QConfigMapping& QConfigMapping::set_global(MaybeQConfig qconfig) {
  global_ = std::move(qconfig);
  return *this;
}

QConfigMapping& QConfigMapping::set_object_type(Symbol type, MaybeQConfig qconfig) {
  set(object_type_, type, std::move(qconfig));
  return *this;
}

QConfigMapping& QConfigMapping::set_module_name_regex(std::string regex, MaybeQConfig qconfig) {
  check_python_regex(regex);
  set(regex_, std::move(regex), std::move(qconfig));
  return *this;
}

QConfigMapping& QConfigMapping::set_module_name(std::string name, MaybeQConfig qconfig) {
  set(module_name_, std::move(name), std::move(qconfig));
  return *this;
}

QConfigMapping& QConfigMapping::set_module_name_object_type_order(std::string name, Symbol type, int index,
                                                                  MaybeQConfig qconfig) {
  for (ModuleNameObjectTypeOrder& known : order_) {
    if (known.module_name == name && known.object_type == type && known.index == index) {
      known.qconfig = std::move(qconfig);
      return *this;
    }
  }
  order_.push_back({std::move(name), type, index, std::move(qconfig)});
  return *this;
}

QConfigMapping read_mapping(const JsonValue& at, std::string_view what, ReadEntry read,
                            std::vector<std::string>& notes) {
  at.expect_object(what, kMappingKeys);
  QConfigMapping mapping;
  if (at.has("")) mapping.set_global(read(at.at("")));
  if (at.has("object_type")) read_object_types(at.at("object_type"), read, mapping, notes);
  if (at.has("module_name_regex")) read_regexes(at.at("module_name_regex"), read, mapping, notes);
  if (at.has("module_name")) read_module_names(at.at("module_name"), read, mapping, notes);
  if (at.has("module_name_object_type_order"))
    read_orders(at.at("module_name_object_type_order"), read, mapping, notes);
  return mapping;
}

nlohmann::json mapping_to_dict(const QConfigMapping& mapping, WriteEntry write) {
  using nlohmann::json;
  const auto to_json = [write](const MaybeQConfig& qconfig) {
    return qconfig ? write(*qconfig) : json(nullptr);
  };
  json dict = {{"", to_json(mapping.global_qconfig())},
               {"object_type", json::array()},
               {"module_name_regex", json::array()},
               {"module_name", json::array()},
               {"module_name_object_type_order", json::array()}};
  for (const auto& [type, qconfig] : mapping.object_type_qconfigs())
    dict["object_type"].push_back(json::array({type.name, to_json(qconfig)}));
  for (const auto& [regex, qconfig] : mapping.module_name_regex_qconfigs())
    dict["module_name_regex"].push_back(json::array({regex, to_json(qconfig)}));
  for (const auto& [name, qconfig] : mapping.module_name_qconfigs())
    dict["module_name"].push_back(json::array({name, to_json(qconfig)}));
  for (const auto& order : mapping.module_name_object_type_order_qconfigs())
    dict["module_name_object_type_order"].push_back(
        json::array({order.module_name, order.object_type.name, order.index, to_json(order.qconfig)}));
  return dict;
}

QConfigMapping QConfigMapping::from_dict(const nlohmann::json& dict) {
  std::vector<std::string> notes;
  return from_dict(dict, notes);
}

QConfigMapping QConfigMapping::from_dict(const nlohmann::json& dict, std::vector<std::string>& notes) {
  return read_mapping(JsonValue(dict), "QConfigMapping", read_maybe_qconfig, notes);
}

nlohmann::json QConfigMapping::to_dict() const {
  return mapping_to_dict(*this, [](const QConfig& qconfig) { return qconfig.to_dict(); });
}

std::string_view to_string(QConfigSource source) {
  switch (source) {
    case QConfigSource::None:
      return "none";
    case QConfigSource::Global:
      return "global";
    case QConfigSource::ObjectType:
      return "object type";
    case QConfigSource::ModuleNameRegex:
      return "module name regex";
    case QConfigSource::ModuleName:
      return "module name";
    case QConfigSource::ModuleNameObjectTypeOrder:
      return "module name, object type and order";
  }
  return "none";
}

// Source: _generate_node_name_to_qconfig in fx/qconfig_mapping_utils.py. For functions and methods the type
// of the containing module comes after their own (B-10, B-11); of several spellings of one operator the first
// that is configured counts.
QConfigDecision find_qconfig(const QConfigMapping& mapping, const QConfigQuery& query) {
  QConfigDecision decision;
  if (mapping.global_qconfig()) decision = {mapping.global_qconfig(), QConfigSource::Global, ""};

  for (auto target = query.targets.rbegin(); target != query.targets.rend(); ++target)
    decide_by_type(mapping, *target, decision);
  // FX has no class for the outermost module: what is called there has its own type alone.
  const bool inside_module = !query.is_module && query.module_type && !query.module_path.empty();
  if (inside_module) decide_by_type(mapping, *query.module_type, decision);

  for (const auto& [regex, qconfig] : mapping.module_name_regex_qconfigs()) {
    if (python_regex_matches(regex, query.module_path)) {
      decision = {qconfig, QConfigSource::ModuleNameRegex, regex};
      break;
    }
  }
  if (const auto* entry = nearest_ancestor(mapping, query.module_path))
    decision = {entry->second, QConfigSource::ModuleName, entry->first};

  const std::string& counted_in = query.is_module ? query.parent_path : query.module_path;
  for (const auto& order : mapping.module_name_object_type_order_qconfigs()) {
    const bool same_type = query.order_type
                               ? *query.order_type == order.object_type
                               : std::ranges::find(query.targets, order.object_type) != query.targets.end();
    if (query.order_index >= 0 && order.index == query.order_index && order.module_name == counted_in &&
        same_type) {
      decision = {order.qconfig, QConfigSource::ModuleNameObjectTypeOrder,
                  fmt::format("{}, {}, {}", order.module_name, order.object_type.name, order.index)};
      break;
    }
  }
  return decision;
}

QConfigMapping default_qconfig_mapping(std::string_view backend, int version) {
  return default_mapping(default_qconfig(backend, version), backend, false);
}

QConfigMapping default_qat_qconfig_mapping(std::string_view backend, int version) {
  return default_mapping(default_qat_qconfig(backend, version), backend, true);
}

QConfigMapping symmetric_qnnpack_qconfig_mapping() {
  return with_one_qconfig(default_qconfig_mapping("qnnpack"), qconfig("default_symmetric_qnnpack_qconfig"));
}

QConfigMapping symmetric_qnnpack_qat_qconfig_mapping() {
  return with_one_qconfig(default_qat_qconfig_mapping("qnnpack"),
                          qconfig("default_symmetric_qnnpack_qat_qconfig"));
}

QConfigMapping dynamic_qconfig_mapping() {
  return QConfigMapping().set_global(qconfig("default_dynamic_qconfig"));
}

QConfigMapping weight_only_qconfig_mapping(int bits, int64_t group_size) {
  constexpr int kFewestLinearBits = 4;
  const QConfig embedding = embedding_weight_only_qconfig(bits);
  const QConfig linear = weight_only_qconfig(std::max(bits, kFewestLinearBits), group_size);
  return QConfigMapping()
      .set_object_type("torch.nn.Embedding", embedding)
      .set_object_type("torch.nn.EmbeddingBag", embedding)
      .set_object_type("torch.nn.functional.embedding", embedding)
      .set_object_type("torch.nn.functional.embedding_bag", embedding)
      .set_object_type("torch.nn.Linear", linear);
}

}  // namespace tsq
