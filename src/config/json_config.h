#pragma once

#include <tsq/backend_config.h>
#include <tsq/dtype_config.h>
#include <tsq/qconfig.h>
#include <tsq/qconfig_mapping.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/json.h"

/// The readers of the configuration's parts. Each takes a place in the document, so that its errors name the
/// whole way.
namespace tsq {

c10::ScalarType read_dtype(const JsonValue& at);
DTypeConfig read_dtype_config(const JsonValue& at);
/// A PyTorch name. A name in a namespace of PyTorch that PyTorch does not have is an error with the nearest
/// one.
Symbol read_symbol(const JsonValue& at);
/// The same, where only a module class has a meaning.
Symbol read_module(const JsonValue& at);
/// What read_symbol reads as this symbol: "torch.relu", and "__torch__.block" of a class that would be taken
/// for a function.
std::string written_name(const Symbol& symbol);
BackendPatternConfig read_backend_pattern_config(const JsonValue& at);
ObserverSpec read_observer_spec(const JsonValue& at);
QConfig read_qconfig(const JsonValue& at);
MaybeQConfig read_maybe_qconfig(const JsonValue& at);
/// The end of a mapping's entry: a QConfig, or what takes its place in a mapping of another kind.
using ReadEntry = MaybeQConfig (*)(const JsonValue& at);
using WriteEntry = nlohmann::json (*)(const QConfig& entry);
/// `what` is the mapping's name in messages; entries that take an earlier one's place go to `notes`.
QConfigMapping read_mapping(const JsonValue& at, std::string_view what, ReadEntry read,
                            std::vector<std::string>& notes);
nlohmann::json mapping_to_dict(const QConfigMapping& mapping, WriteEntry write);

/// Leaves `value` alone when the key is missing or null.
inline void read_optional(const JsonValue& at, std::string_view key, std::optional<int64_t>& value) {
  if (at.is_given(key)) value = at.at(key).integer();
}
inline void read_optional(const JsonValue& at, std::string_view key, std::optional<double>& value) {
  if (at.is_given(key)) value = at.at(key).number();
}
inline void read_optional(const JsonValue& at, std::string_view key, std::optional<bool>& value) {
  if (at.is_given(key)) value = at.at(key).boolean();
}

template <typename T>
void write_optional(nlohmann::json& dict, const char* key, const std::optional<T>& value) {
  if (value) dict[key] = *value;
}

}  // namespace tsq
