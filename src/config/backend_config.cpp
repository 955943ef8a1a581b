#include <fmt/format.h>
#include <tsq/backend_config.h>
#include <tsq/error.h>

#include <algorithm>

#include "base/known_engines.h"
#include "base/text.h"

namespace tsq {
namespace {

[[noreturn]] void fail_both_patterns() {
  throw Error(ErrorCode::BadConfig, "only one of 'pattern' and 'pattern_complex_format' can be set",
              "leave one of them out");
}

bool is_chain_of_at_most(int longest, const Pattern& pattern) {
  if (pattern.args.empty()) return true;
  return longest > 1 && pattern.args.size() == 1 && is_chain_of_at_most(longest - 1, pattern.args[0]);
}

}  // namespace

BackendPatternConfig& BackendPatternConfig::set_pattern(Pattern p) {
  if (pattern_complex_format) fail_both_patterns();
  pattern = std::move(p);
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_pattern_complex_format(Pattern p) {
  if (pattern) fail_both_patterns();
  pattern_complex_format = std::move(p);
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_observation_type(ObservationType type) {
  observation_type = type;
  return *this;
}

BackendPatternConfig& BackendPatternConfig::add_dtype_config(DTypeConfig config) {
  dtype_configs.push_back(config);
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_dtype_configs(std::vector<DTypeConfig> configs) {
  dtype_configs = std::move(configs);
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_root_module(Symbol module) {
  root_module = module;
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_qat_module(Symbol module) {
  qat_module = module;
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_reference_quantized_module(Symbol module) {
  reference_quantized_module = module;
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_fused_module(Symbol module) {
  fused_module = module;
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_num_tensor_args_to_observation_type(
    std::map<int, ObservationType> types) {
  num_tensor_args_to_observation_type = std::move(types);
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_input_type_to_index(std::map<std::string, int> indices) {
  input_type_to_index = std::move(indices);
  return *this;
}

const Pattern& BackendPatternConfig::key() const& {
  if (pattern && pattern_complex_format) fail_both_patterns();
  if (pattern_complex_format) return *pattern_complex_format;
  if (!pattern)
    throw Error(ErrorCode::BadConfig,
                "a BackendPatternConfig has neither 'pattern' nor 'pattern_complex_format'",
                "set one of them");
  if (!is_chain_of_at_most(3, *pattern))
    throw Error(ErrorCode::BadConfig,
                fmt::format("the pattern '{}' is not a chain of at most 3 symbols", to_string(*pattern)),
                "use 'pattern_complex_format' for it");
  return *pattern;
}

BackendConfig& BackendConfig::set_name(std::string name) {
  if (engine_.empty()) engine_ = engine_of_pytorch_table(name_);
  name_ = std::move(name);
  return *this;
}

BackendConfig& BackendConfig::set_engine(std::string_view engine) {
  if (engine != kNoEngine && !is_known_engine(engine)) {
    constexpr auto kEngines = known_engines();
    std::vector<std::string_view> names{kEngines.begin(), kEngines.end()};
    names.push_back(kNoEngine);
    throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not an engine", engine),
                suggestion(engine, names));
  }
  engine_ = engine;
  return *this;
}

std::string_view BackendConfig::engine() const {
  if (!engine_.empty()) return engine_;
  const std::string_view of_pytorch = engine_of_pytorch_table(name_);
  if (!of_pytorch.empty()) return of_pytorch;
  throw Error(
      ErrorCode::BadConfig,
      name_.empty() ? "the table names no engine" : fmt::format("the table '{}' names no engine", name_),
      "name the one whose kernels it is for, x86, fbgemm, onednn, qnnpack or none, by set_engine, by "
      "\"engine\" in its JSON or by --backend");
}

BackendConfig& BackendConfig::set_backend_pattern_config(BackendPatternConfig config) {
  const Pattern& key = config.key();
  const auto same = std::ranges::find_if(configs_, [&](const auto& known) { return known.key() == key; });
  if (same == configs_.end()) {
    configs_.push_back(std::move(config));
  } else {
    *same = std::move(config);
  }
  return *this;
}

BackendConfig& BackendConfig::set_backend_pattern_configs(std::vector<BackendPatternConfig> configs) {
  for (BackendPatternConfig& config : configs) set_backend_pattern_config(std::move(config));
  return *this;
}

BackendConfig& BackendConfig::set_falls_back_to_libtorch(bool falls_back) {
  falls_back_to_libtorch_ = falls_back;
  return *this;
}

}  // namespace tsq
