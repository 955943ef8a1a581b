#pragma once

#include <tsq/dtype_config.h>
#include <tsq/pattern.h>

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// How a pattern's output is observed. Source: torch.ao.quantization.backend_config.ObservationType.
enum class ObservationType {
  OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT,
  OUTPUT_SHARE_OBSERVER_WITH_INPUT,
  INPUT_OUTPUT_NOT_OBSERVED,
};

/// How a fusion row makes its fused module. Names and meanings:
/// torch/ao/quantization/fuser_method_mappings.py.
enum class Fuser {
  Sequential,         ///< put the matched modules in sequence into `fused_module` (_sequential_wrapper2)
  ConvBn,             ///< fuse_conv_bn: fold the batch norm into the convolution
  ConvBnReLU,         ///< fuse_conv_bn_relu: fold, then ConvReLU
  LinearBn,           ///< fuse_linear_bn
  ConvTransposeBn,    ///< fuse_convtranspose_bn
  ConvAdd,            ///< onednn: _fuse_conv_add_left / _right
  ConvAddReLU,        ///< onednn: _fuse_conv_add_relu_left / _right
  ConvBnAdd,          ///< onednn: _fuse_conv_bn_add_left / _right
  ConvBnAddReLU,      ///< onednn: _fuse_conv_bn_add_relu_left / _right
  LinearBnLeakyReLU,  ///< onednn: _fuse_linear_bn_leaky_relu
  Registered,         ///< a function of the user's, by its name: register_fuser
};

/// A fuser of the user's own: what the modules of a match, in data-flow order and its root first, become. Of
/// the pattern's functions those that have a module (relu, tanh, leaky_relu) come as it, others are left out.
/// The result is called with the arguments of the match's root and the extra inputs; to the table it is its
/// class.
using FuserFunction =
    std::function<torch::jit::Module(bool is_qat, const std::vector<torch::jit::Module>& matched)>;

/// Which node of a match is its root (the weighted operator that gets the input observers). A-21.
/// Default: follow the last argument to the deepest node, as FX does (which in a chain is the only argument).
/// FirstArgument: the node that the pattern's last operator reads first (the pooling before
/// `operator.getitem`).
/// Registered and the values after it: functions of the user's, in the order in which they were registered.
enum class RootNodeGetter { Default, ConvLeft, ConvRight, FirstArgument, Registered };
/// The part of a row's pattern, which it is given whole, that is its root.
using RootNodeFunction = std::function<const Pattern&(const Pattern& whole)>;
/// Which nodes of a match become further inputs of the fused module. A-22. Registered: as in RootNodeGetter.
enum class ExtraInputsGetter { None, OtherAddend, Registered };
/// The parts of a row's pattern whose values become further inputs of the fused module, in their order.
using ExtraInputsFunction = std::function<std::vector<const Pattern*>(const Pattern& whole)>;

/// Functions that rows, in C++ and in JSON, speak of by a name. A name that PyTorch or tsq has is refused
/// with Error(BadConfig); a name of the user's own that is registered again gets the new function. A prepared
/// file holds the name: who loads it must have registered it before.
void register_fuser(std::string name, FuserFunction fuser);
void register_root_node_getter(std::string name, RootNodeFunction getter);
void register_extra_inputs_getter(std::string name, ExtraInputsFunction getter);

/// One row of a backend's table. Source: torch.ao.quantization.backend_config.BackendPatternConfig; setters
/// have PyTorch's names and return *this. An aggregate: tables write rows as designated initialisers.
struct BackendPatternConfig {
  std::optional<Pattern> pattern{};                 ///< a single symbol or a chain of 2 or 3
  std::optional<Pattern> pattern_complex_format{};  ///< any tree; excludes `pattern` (A-09, A-10)
  ObservationType observation_type{ObservationType::OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT};
  std::vector<DTypeConfig> dtype_configs{};
  std::optional<Symbol> root_module{};
  std::optional<Symbol> qat_module{};
  std::optional<Symbol> reference_quantized_module{};
  std::optional<Symbol> fused_module{};
  std::optional<Fuser> fuser_method{};
  /// PyTorch's spelling of the fuser, kept so that to_dict writes what from_dict read, or the name of a
  /// registered one; empty: Fuser's own name.
  std::string fuser_method_name{};
  RootNodeGetter root_node_getter{RootNodeGetter::Default};
  ExtraInputsGetter extra_inputs_getter{ExtraInputsGetter::None};
  std::map<int, ObservationType> num_tensor_args_to_observation_type{};
  std::map<std::string, int> input_type_to_index{};  ///< "weight", "bias", "input" → positional index

  BackendPatternConfig& set_pattern(Pattern p);
  BackendPatternConfig& set_pattern_complex_format(Pattern p);
  BackendPatternConfig& set_observation_type(ObservationType type);
  BackendPatternConfig& add_dtype_config(DTypeConfig config);
  BackendPatternConfig& set_dtype_configs(std::vector<DTypeConfig> configs);
  BackendPatternConfig& set_root_module(Symbol module);
  BackendPatternConfig& set_qat_module(Symbol module);
  BackendPatternConfig& set_reference_quantized_module(Symbol module);
  BackendPatternConfig& set_fused_module(Symbol module);
  /// A name is one of PyTorch's, of tsq's or a registered one; others throw Error(BadConfig) with the known
  /// ones. A function without a name serves this process: what is saved needs a registered one.
  BackendPatternConfig& set_fuser_method(Fuser fuser);
  BackendPatternConfig& set_fuser_method(std::string_view name);
  BackendPatternConfig& set_fuser_method(FuserFunction fuser);
  BackendPatternConfig& set_root_node_getter(RootNodeGetter getter);
  BackendPatternConfig& set_root_node_getter(std::string_view name);
  BackendPatternConfig& set_root_node_getter(RootNodeFunction getter);
  BackendPatternConfig& set_extra_inputs_getter(ExtraInputsGetter getter);
  BackendPatternConfig& set_extra_inputs_getter(std::string_view name);
  BackendPatternConfig& set_extra_inputs_getter(ExtraInputsFunction getter);
  BackendPatternConfig& set_num_tensor_args_to_observation_type(std::map<int, ObservationType> types);
  BackendPatternConfig& set_input_type_to_index(std::map<std::string, int> indices);

  /// The row's one canonical pattern. Throws Error(BadConfig) when neither form is set.
  [[nodiscard]] const Pattern& key() const&;
  [[nodiscard]] Pattern key() && { return static_cast<const BackendPatternConfig&>(*this).key(); }

  /// PyTorch's keys; see docs/configuration.md. Throws Error(BadConfig) with the key, the value
  /// and the nearest known name; an unknown key is an error and not ignored.
  static BackendPatternConfig from_dict(const nlohmann::json& dict);
  [[nodiscard]] nlohmann::json to_dict() const;

  friend bool operator==(const BackendPatternConfig&, const BackendPatternConfig&) = default;
};

/// A backend's table: rows in insertion order, one per pattern. Source:
/// torch.ao.quantization.backend_config.BackendConfig.
class BackendConfig {
 public:
  BackendConfig() = default;
  explicit BackendConfig(std::string name) : name_(std::move(name)) {}

  BackendConfig& set_name(std::string name);  ///< its engine stays
  /// The kernels of LibTorch that models of the table are lowered to, and whose default mapping it takes:
  /// "x86", "fbgemm", "onednn" or "qnnpack"; "none" where it has none, so that LibTorch runs its reference
  /// models, and what registered rows lower, alone. Throws Error(BadConfig) for another name.
  BackendConfig& set_engine(std::string_view engine);
  /// An existing row with the same pattern is replaced in place and keeps its position.
  BackendConfig& set_backend_pattern_config(BackendPatternConfig config);
  BackendConfig& set_backend_pattern_configs(std::vector<BackendPatternConfig> configs);
  /// Whether operators that no registered row lowers get LibTorch's CPU kernels, where it has some. Without,
  /// as a table of an accelerator wants it, they stay as the reference model computes them. PyTorch's tables
  /// have no such setting.
  BackendConfig& set_falls_back_to_libtorch(bool falls_back);

  [[nodiscard]] const std::string& name() const& noexcept { return name_; }
  [[nodiscard]] std::string name() && noexcept { return std::move(name_); }
  /// Of a table that names none: that of PyTorch's table of the same name, for PyTorch's tables name none
  /// ("native" has fbgemm's; "executorch" and "tensorrt" have "none"). Throws Error(BadConfig) for a table of
  /// another name.
  [[nodiscard]] std::string_view engine() const;
  [[nodiscard]] bool falls_back_to_libtorch() const noexcept { return falls_back_to_libtorch_; }
  /// By value of a temporary, so that `for (const auto& row : backend_config("x86").configs())` is sound.
  [[nodiscard]] const std::vector<BackendPatternConfig>& configs() const& noexcept { return configs_; }
  [[nodiscard]] std::vector<BackendPatternConfig> configs() && noexcept { return std::move(configs_); }

  /// A later row with an equal pattern takes the earlier one's place, as in the setters; each such row adds a
  /// sentence to `notes`.
  static BackendConfig from_dict(const nlohmann::json& dict);
  static BackendConfig from_dict(const nlohmann::json& dict, std::vector<std::string>& notes);
  [[nodiscard]] nlohmann::json to_dict() const;

  friend bool operator==(const BackendConfig&, const BackendConfig&) = default;

 private:
  std::string name_{};
  std::string engine_{};  ///< empty: not named
  std::vector<BackendPatternConfig> configs_{};
  bool falls_back_to_libtorch_{true};
};

}  // namespace tsq
