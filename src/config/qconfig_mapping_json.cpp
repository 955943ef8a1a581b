#include <fmt/format.h>
#include <tsq/qconfig_mapping.h>

#include <algorithm>
#include <array>

#include "base/entries.h"
#include "config/json.h"
#include "config/json_config.h"

namespace tsq {
namespace {

/// The levels of a mapping whose entries are [key, QConfig].
template <typename Key>
struct PairLevel {
  using Entries = std::vector<std::pair<Key, MaybeQConfig>>;

  const char* name;
  std::string_view form;
  Key (*read_key)(const JsonValue& at);
  const Entries& (QConfigMapping::*entries)() const&;
  QConfigMapping& (QConfigMapping::*set)(Key, MaybeQConfig);
};

std::string read_text(const JsonValue& at) { return at.string(); }

constexpr PairLevel<Symbol> kObjectType{"object_type", "[type, QConfig]", read_symbol,
                                        &QConfigMapping::object_type_qconfigs,
                                        &QConfigMapping::set_object_type};
constexpr PairLevel<std::string> kModuleNameRegex{"module_name_regex", "[regex, QConfig]", read_text,
                                                  &QConfigMapping::module_name_regex_qconfigs,
                                                  &QConfigMapping::set_module_name_regex};
constexpr PairLevel<std::string> kModuleName{"module_name", "[module name, QConfig]", read_text,
                                             &QConfigMapping::module_name_qconfigs,
                                             &QConfigMapping::set_module_name};
constexpr const char* kOrder = "module_name_object_type_order";

constexpr std::array<std::string_view, 5> kMappingKeys{"", kObjectType.name, kModuleNameRegex.name,
                                                       kModuleName.name, kOrder};

std::string text_of(Symbol key) { return written_name(key); }
std::string_view text_of(const std::string& key) { return key; }

std::vector<JsonValue> read_parts(const JsonValue& at, std::size_t size, std::string_view form) {
  std::vector<JsonValue> parts = at.elements(form);
  if (parts.size() != size) at.fail(fmt::format("got a list of {}, wanted {}", parts.size(), form));
  return parts;
}

/// Where the notes about replaced entries go.
using Notes = std::vector<std::string>&;

void note_replaced(Notes notes, const JsonValue& at, const std::string& what) {
  notes.push_back(fmt::format("'{}' takes the place of an earlier entry of {}", at.path(), what));
}

template <typename Key>
void read_level(const PairLevel<Key>& level, const JsonValue& at, ReadEntry read, QConfigMapping& mapping,
                Notes notes) {
  if (!at.has(level.name)) return;
  for (const JsonValue& item : at.at(level.name).elements(level.form)) {
    const auto parts = read_parts(item, 2, level.form);
    Key key = level.read_key(parts[0]);
    if (find_entry((mapping.*level.entries)(), key) != nullptr)
      note_replaced(notes, item, fmt::format("'{}'", text_of(key)));
    MaybeQConfig qconfig = read(parts[1]);
    with_path(parts[0], [&] { (mapping.*level.set)(std::move(key), std::move(qconfig)); });
  }
}

template <typename Key, typename Write>
void write_level(const PairLevel<Key>& level, const QConfigMapping& mapping, const Write& write,
                 nlohmann::json& dict) {
  nlohmann::json& list = dict[level.name] = nlohmann::json::array();
  for (const auto& [key, qconfig] : (mapping.*level.entries)())
    list.push_back(nlohmann::json::array({text_of(key), write(qconfig)}));
}

void read_orders(const JsonValue& at, ReadEntry read, QConfigMapping& mapping, Notes notes) {
  constexpr std::string_view kForm = "[module name, type, index, QConfig]";
  if (!at.has(kOrder)) return;
  for (const JsonValue& item : at.at(kOrder).elements(kForm)) {
    const auto parts = read_parts(item, 4, kForm);
    const std::string& name = parts[0].string();
    const Symbol type = read_symbol(parts[1]);
    const int index = parts[2].index();
    const bool known =
        std::ranges::any_of(mapping.module_name_object_type_order_qconfigs(), [&](const auto& other) {
          return other.module_name == name && other.object_type == type && other.index == index;
        });
    if (known) note_replaced(notes, item, fmt::format("'{}', '{}', {}", name, type.name, index));
    mapping.set_module_name_object_type_order(name, type, index, read(parts[3]));
  }
}

}  // namespace

QConfigMapping read_mapping(const JsonValue& at, std::string_view what, ReadEntry read,
                            std::vector<std::string>& notes) {
  at.expect_object(what, kMappingKeys);
  QConfigMapping mapping;
  if (at.has("")) mapping.set_global(read(at.at("")));
  read_level(kObjectType, at, read, mapping, notes);
  read_level(kModuleNameRegex, at, read, mapping, notes);
  read_level(kModuleName, at, read, mapping, notes);
  read_orders(at, read, mapping, notes);
  return mapping;
}

nlohmann::json mapping_to_dict(const QConfigMapping& mapping, WriteEntry write) {
  using nlohmann::json;
  const auto to_json = [write](const MaybeQConfig& qconfig) {
    return qconfig ? write(*qconfig) : json(nullptr);
  };
  json dict = {{"", to_json(mapping.global_qconfig())}, {kOrder, json::array()}};
  write_level(kObjectType, mapping, to_json, dict);
  write_level(kModuleNameRegex, mapping, to_json, dict);
  write_level(kModuleName, mapping, to_json, dict);
  for (const auto& order : mapping.module_name_object_type_order_qconfigs())
    dict[kOrder].push_back(json::array(
        {order.module_name, written_name(order.object_type), order.index, to_json(order.qconfig)}));
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

}  // namespace tsq
