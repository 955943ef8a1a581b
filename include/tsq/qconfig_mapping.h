#pragma once

#include <tsq/pattern.h>
#include <tsq/qconfig.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tsq {

/// A QConfig or None ("do not quantize").
using MaybeQConfig = std::optional<QConfig>;

/// Which QConfig each operator gets. Five levels, a later one wins: global, object type, module name regex,
/// module name, (module name, object type, order). Source: torch.ao.quantization.QConfigMapping; re-setting a
/// key keeps its position.
class QConfigMapping {
 public:
  struct ModuleNameObjectTypeOrder {
    std::string module_name;
    Symbol object_type;
    int index;
    MaybeQConfig qconfig;
    friend bool operator==(const ModuleNameObjectTypeOrder&, const ModuleNameObjectTypeOrder&) = default;
  };

  QConfigMapping& set_global(MaybeQConfig qconfig);
  QConfigMapping& set_object_type(Symbol type, MaybeQConfig qconfig);
  QConfigMapping& set_object_type(std::string_view type, MaybeQConfig qconfig) {
    return set_object_type(symbol(type), std::move(qconfig));
  }
  /// `regex` as Python's re.match: anchored at the start, not at the end (B-06). Throws Error(BadConfig) when
  /// it does not compile.
  QConfigMapping& set_module_name_regex(std::string regex, MaybeQConfig qconfig);
  QConfigMapping& set_module_name(std::string name, MaybeQConfig qconfig);
  QConfigMapping& set_module_name_object_type_order(std::string name, Symbol type, int index,
                                                    MaybeQConfig qconfig);

  [[nodiscard]] const MaybeQConfig& global_qconfig() const& noexcept { return global_; }
  [[nodiscard]] MaybeQConfig global_qconfig() && noexcept { return std::move(global_); }
  [[nodiscard]] const std::vector<std::pair<Symbol, MaybeQConfig>>& object_type_qconfigs() const& noexcept {
    return object_type_;
  }
  [[nodiscard]] std::vector<std::pair<Symbol, MaybeQConfig>> object_type_qconfigs() && noexcept {
    return std::move(object_type_);
  }
  [[nodiscard]] const std::vector<std::pair<std::string, MaybeQConfig>>& module_name_regex_qconfigs()
      const& noexcept {
    return regex_;
  }
  [[nodiscard]] std::vector<std::pair<std::string, MaybeQConfig>> module_name_regex_qconfigs() && noexcept {
    return std::move(regex_);
  }
  [[nodiscard]] const std::vector<std::pair<std::string, MaybeQConfig>>& module_name_qconfigs()
      const& noexcept {
    return module_name_;
  }
  [[nodiscard]] std::vector<std::pair<std::string, MaybeQConfig>> module_name_qconfigs() && noexcept {
    return std::move(module_name_);
  }
  [[nodiscard]] const std::vector<ModuleNameObjectTypeOrder>& module_name_object_type_order_qconfigs()
      const& noexcept {
    return order_;
  }
  [[nodiscard]] std::vector<ModuleNameObjectTypeOrder> module_name_object_type_order_qconfigs() && noexcept {
    return std::move(order_);
  }

  /// Keys "", "object_type", "module_name_regex", "module_name", "module_name_object_type_order" (B-20); an
  /// unknown key is an error.
  static QConfigMapping from_dict(const nlohmann::json& dict);
  /// The same; entries that take an earlier one's place go to `notes`, a sentence each.
  static QConfigMapping from_dict(const nlohmann::json& dict, std::vector<std::string>& notes);
  [[nodiscard]] nlohmann::json to_dict() const;

  friend bool operator==(const QConfigMapping&, const QConfigMapping&) = default;

 private:
  friend class MappingReader;  ///< fills whole levels

  MaybeQConfig global_{};
  std::vector<std::pair<Symbol, MaybeQConfig>> object_type_{};
  std::vector<std::pair<std::string, MaybeQConfig>> regex_{};
  std::vector<std::pair<std::string, MaybeQConfig>> module_name_{};
  std::vector<ModuleNameObjectTypeOrder> order_{};
};

/// The level of a mapping that an entry was found in.
enum class QConfigSource { None, Global, ObjectType, ModuleNameRegex, ModuleName, ModuleNameObjectTypeOrder };
std::string_view to_string(QConfigSource source);

/// The facts about an operator that the look-up of its QConfig needs.
struct QConfigQuery {
  std::vector<Symbol>
      targets{};  ///< the operator's PyTorch spellings (one for a module; several where TorchScript merges)
  bool is_module{false};  ///< call_module: type, regex and name are those of the called module itself (B-12)
  std::string module_path{};  ///< of the called module, or of the module that contains the call
  std::optional<Symbol>
      module_type{};  ///< class of the containing module, for functions and methods (B-10, B-11)
  /// Modules around the operator that FX would not look into, by path and class, the outermost first: what
  /// is configured for them applies to all in them.
  std::vector<std::pair<std::string, Symbol>> opened{};
  std::string parent_path{};  ///< where the order level counts: parent of a called module, else module_path
  std::optional<Symbol> order_type{};  ///< what is counted there when it is not one of `targets` (a fused
                                       ///< module counts as its root)
  int order_index{
      -1};  ///< how many uses of this target came before in parent_path; -1: not counted (methods, B-08)
};
struct QConfigDecision {
  MaybeQConfig qconfig{};
  QConfigSource source{QConfigSource::None};
  std::string key{};  ///< the type, regex or name that matched
};
/// The precedence rules B-04 … B-13.
QConfigDecision find_qconfig(const QConfigMapping& mapping, const QConfigQuery& query);

/// get_default_qconfig_mapping(backend, version) (B-23).
QConfigMapping default_qconfig_mapping(std::string_view backend = "x86", int version = 0);
/// get_default_qat_qconfig_mapping(backend, version).
QConfigMapping default_qat_qconfig_mapping(std::string_view backend = "x86", int version = 1);
/// _get_symmetric_qnnpack_qconfig_mapping() (B-24).
QConfigMapping symmetric_qnnpack_qconfig_mapping();
/// _get_symmetric_qnnpack_qat_qconfig_mapping() (B-24).
QConfigMapping symmetric_qnnpack_qat_qconfig_mapping();
/// A mapping whose global QConfig is the default dynamic one: FX's
/// `QConfigMapping().set_global(default_dynamic_qconfig)`.
QConfigMapping dynamic_qconfig_mapping();
/// Embeddings and linear layers with quantized weights and float activations, nothing else. There are no
/// kernels for linear layers with 2 bits: with `bits` 2 they have 4. Throws Error(BadConfig) for other bits
/// than 8, 4 and 2, or a group size that no kernel takes.
QConfigMapping weight_only_qconfig_mapping(int bits = 8, int64_t group_size = 64);

}  // namespace tsq
