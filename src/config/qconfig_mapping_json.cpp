#include <fmt/format.h>
#include <tsq/qconfig_mapping.h>

#include <array>
#include <tuple>

#include "base/entries.h"
#include "base/mapped.h"
#include "config/json.h"
#include "config/json_config.h"
#include "config/python_regex.h"

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
  void (*check)(const Key& key);
  std::size_t most;
};

void take_name(const std::string&) {}
void take_type(const Symbol&) {}

std::string read_text(const JsonValue& at) { return at.string(); }

constexpr PairLevel<Symbol> kObjectType{"object_type", "[type, QConfig]",
                                        read_symbol,   &QConfigMapping::object_type_qconfigs,
                                        take_type,     kMostEntries};
constexpr PairLevel<std::string> kModuleNameRegex{
    "module_name_regex", "[regex, QConfig]", read_text, &QConfigMapping::module_name_regex_qconfigs,
    check_python_regex,  kMostEntries};
constexpr PairLevel<std::string> kModuleName{"module_name", "[module name, QConfig]",
                                             read_text,     &QConfigMapping::module_name_qconfigs,
                                             take_name,     kMostModules};
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
std::vector<std::pair<Key, MaybeQConfig>> read_level(const PairLevel<Key>& level, const JsonValue& at,
                                                     ReadEntry read, Notes notes) {
  if (!at.has(level.name)) return {};
  IndexedEntries<Key, MaybeQConfig> entries;
  for (const JsonValue& item : at.at(level.name).elements(level.form, level.most)) {
    const auto parts = read_parts(item, 2, level.form);
    Key key = level.read_key(parts[0]);
    if (entries.has(key)) note_replaced(notes, item, fmt::format("'{}'", text_of(key)));
    MaybeQConfig qconfig = read(parts[1]);
    with_path(parts[0], [&] { level.check(key); });
    entries.set(std::move(key), std::move(qconfig));
  }
  return std::move(entries).take();
}

template <typename Key, typename Write>
void write_level(const PairLevel<Key>& level, const QConfigMapping& mapping, const Write& write,
                 nlohmann::json& dict) {
  nlohmann::json& list = dict[level.name] = nlohmann::json::array();
  for (const auto& [key, qconfig] : (mapping.*level.entries)())
    list.push_back(nlohmann::json::array({text_of(key), write(qconfig)}));
}

std::vector<QConfigMapping::ModuleNameObjectTypeOrder> read_orders(const JsonValue& at, ReadEntry read,
                                                                   Notes notes) {
  constexpr std::string_view kForm = "[module name, type, index, QConfig]";
  if (!at.has(kOrder)) return {};
  IndexedEntries<std::tuple<std::string, Symbol, int>, MaybeQConfig> entries;
  for (const JsonValue& item : at.at(kOrder).elements(kForm, kMostModules)) {
    const auto parts = read_parts(item, 4, kForm);
    const std::tuple key{parts[0].string(), read_symbol(parts[1]), parts[2].index()};
    if (entries.has(key)) {
      const auto& [name, type, index] = key;
      note_replaced(notes, item, fmt::format("'{}', '{}', {}", name, type.name, index));
    }
    entries.set(key, read(parts[3]));
  }
  return mapped(std::move(entries).take(), [](const auto& entry) {
    const auto& [name, type, index] = entry.first;
    return QConfigMapping::ModuleNameObjectTypeOrder{name, type, index, entry.second};
  });
}

}  // namespace

class MappingReader {
 public:
  static QConfigMapping read(const JsonValue& at, std::string_view what, ReadEntry read, Notes notes) {
    at.expect_object(what, kMappingKeys);
    QConfigMapping mapping;
    if (at.has("")) mapping.set_global(read(at.at("")));
    mapping.object_type_ = read_level(kObjectType, at, read, notes);
    mapping.regex_ = read_level(kModuleNameRegex, at, read, notes);
    mapping.module_name_ = read_level(kModuleName, at, read, notes);
    mapping.order_ = read_orders(at, read, notes);
    return mapping;
  }
};

QConfigMapping read_mapping(const JsonValue& at, std::string_view what, ReadEntry read,
                            std::vector<std::string>& notes) {
  return MappingReader::read(at, what, read, notes);
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
