#pragma once

#include <tsq/backend_config.h>
#include <tsq/custom_config.h>
#include <tsq/equalization.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/quantize.h>
#include <tsq/quantize_model.h>
#include <tsq/recipe_options.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/process/options.h"
#include "cli/process/session.h"

namespace tsq::cli {

/// In the place of a backend or a target: quantize chooses it.
constexpr std::string_view kAuto = "auto";

/// The options that say how a model is quantized; `quantize`, `prepare` and `explain` share them.
struct ConfigurationOptions {
  std::string backend{};         ///< empty: not given
  std::string backend_config{};  ///< a JSON file
  std::string qconfig{};         ///< a JSON file
  std::string equalization{};    ///< a JSON file
  std::string prepare_custom{};  ///< a JSON file
  std::string mode{"static"};
  bool qat{false};  ///< for training
  std::string recipe{"best"};
  std::optional<std::string> target_cpu{};
  std::optional<std::string> target{};
  std::string machine{};  ///< a JSON file
  std::optional<double> smooth_quant{};
  std::optional<double> cross_layer_margin{};
  std::optional<double> decibel_price{};  ///< in percent
  std::optional<std::string> weight_rounding{};
  std::optional<std::string> effort{};
  bool python_source{false};
  std::optional<std::string> dtype{};   ///< of weights, in mode dynamic
  std::optional<int> bits{};            ///< of weights, in mode weight_only
  std::optional<int64_t> group_size{};  ///< of linear layers with 4 bits
  std::string float_dtype{"float32"};

  /// The JSON files that are given; an empty name is none.
  [[nodiscard]] std::vector<std::string> files() const;
};
/// `may_choose`: backend and target may be kAuto.
void add_configuration_options(const Command& command, ConfigurationOptions& options,
                               bool may_choose = false);
/// `--decibel-price`.
OptionRow decibel_price_option(std::optional<double>& percent);
/// Of a number in percent.
std::optional<double> share_of(const std::optional<double>& percent);
/// `--float-dtype`, for the commands that lower.
void add_lowering_options(const Command& command, ConfigurationOptions& options);
LoweringOptions lowering_options(const ConfigurationOptions& options);
/// `--machine`, for the commands that choose kernels.
void add_machine_option(const Command& command, ConfigurationOptions& options);
/// The profile that it names; null: none.
std::shared_ptr<const MachineProfile> named_machine(const ConfigurationOptions& options);
/// `--backend` and `--backend-config` alone, for the later steps, which need no QConfigs.
void add_backend_options(const Command& command, ConfigurationOptions& options);

struct Configuration {
  BackendConfig backend;
  QuantizeMode mode{QuantizeMode::Static};
  QConfigMapping mapping;
  PrepareCustomConfig custom;
  EqualizationMapping equalization;
  RecipeOptions recipe{};
};
/// Throws UsageError for an option that nothing would read with the others, Error(BadConfig, Unsupported).
Configuration configuration(const ConfigurationOptions& options);
/// The same for a command that lowers: what the target needs is there before the work begins.
Configuration configuration_to_lower(const ConfigurationOptions& options);

/// The model with observers, as a configuration says.
Prepared prepared_model(const torch::jit::Module& model, const Configuration& chosen);

/// What convert alone takes and writes.
struct ConvertConfigurationOptions {
  std::string custom{};   ///< a JSON file
  std::string qconfig{};  ///< a JSON file
  std::string plan{};     ///< a JSON file
  std::string plan_output{};
};
void add_convert_options(const Command& command, ConvertConfigurationOptions& options);
/// Throws Error(BadConfig), UsageError for options that say two things.
ConvertOptions convert_options(const ConvertConfigurationOptions& options);

/// What a file that tsq wrote was made with, also a trained one that Python has saved; null for others.
nlohmann::json metadata_of_step(const std::string& path);
/// The table for a step on a file that tsq wrote: what the options say, else what the file was made for.
BackendConfig backend_for(const ConfigurationOptions& options, const std::string& path);

}  // namespace tsq::cli
