#pragma once

#include <tsq/backend_config.h>
#include <tsq/qconfig_mapping.h>

#include <string>
#include <vector>

#include "cli/session.h"

namespace tsq::cli {

/// The options that say how a model is quantized; `quantize`, `prepare` and `explain` share them.
struct ConfigurationOptions {
  std::string backend{};         ///< empty: not given
  std::string backend_config{};  ///< a JSON file
  std::string qconfig{};         ///< a JSON file
  std::string mode{"static"};
  std::string recipe{"fx"};

  /// The files that no output may replace.
  [[nodiscard]] std::vector<std::string> files() const;
};
void add_configuration_options(CLI::App& command, ConfigurationOptions& options);
/// `--backend` and `--backend-config` alone, for the later steps, which need no QConfigs.
void add_backend_options(CLI::App& command, ConfigurationOptions& options);

struct Configuration {
  BackendConfig backend;
  QConfigMapping mapping;
};
/// Throws Error(BadConfig, Unsupported).
Configuration configuration(const ConfigurationOptions& options);

/// The table for a step on a file that tsq wrote: what the options say, else what the file was made for.
BackendConfig backend_for(const ConfigurationOptions& options, const std::string& path);

}  // namespace tsq::cli
