// The backend's DTypeConfigs against what is wanted of a match's inputs and output.

#include "passes/observe/dtype_checks.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <optional>
#include <string_view>

#include "ir/analysis.h"
#include "ir/number_first.h"
#include "match/dtype_check.h"
#include "passes/context/names.h"

namespace tsq::passes {
namespace {

std::string dtype_refusal(std::string_view port, const std::optional<WantedObserver>& got,
                          ScalarType allowed) {
  return fmt::format("{} is {}, the backend's config takes {}", port,
                     got ? dtype_name(got->dtype) : "no float tensor", dtype_name(allowed));
}

std::optional<std::string> activation_refusal(const TargetInfo& info, const MaybeQConfig& qconfig,
                                              const DTypeConfig& config) {
  if (!config.input_dtype.dtype) return std::nullopt;
  if (!info.input || info.input->dtype != *config.input_dtype.dtype)
    return dtype_refusal("input", info.input, *config.input_dtype.dtype);
  if (config.is_dynamic.value_or(false) != info.input->is_dynamic) {
    return info.input->is_dynamic ? "the qconfig is dynamic, the backend's config static"
                                  : "the qconfig is static, the backend's config dynamic";
  }
  return match::refused_constraint(qconfig, config.input_dtype, /*is_activation=*/true);
}

std::optional<std::string> weight_refusal(const TargetInfo& info, const MaybeQConfig& qconfig,
                                          const DTypeConfig& config) {
  if (!config.weight_dtype.dtype) return std::nullopt;
  if (!info.weight || info.weight->dtype != *config.weight_dtype.dtype)
    return dtype_refusal("weight", info.weight, *config.weight_dtype.dtype);
  return match::refused_constraint(qconfig, config.weight_dtype, /*is_activation=*/false);
}

std::optional<std::string> bias_refusal(const TargetInfo& info, const DTypeConfig& config) {
  if (!config.bias_dtype || (info.bias && info.bias->dtype == *config.bias_dtype)) return std::nullopt;
  return dtype_refusal("bias", info.bias, *config.bias_dtype);
}

std::optional<std::string> argument_refusal(const TargetInfo& info, Role role, const MaybeQConfig& qconfig,
                                            const DTypeConfig& config) {
  switch (role) {
    case Role::Activation:
      return activation_refusal(info, qconfig, config);
    case Role::Weight:
      return weight_refusal(info, qconfig, config);
    case Role::Bias:
      return bias_refusal(info, config);
  }
  return std::nullopt;
}

std::optional<std::string> output_refusal(const TargetInfo& info, const MaybeQConfig& qconfig,
                                          const DTypeConfig& config) {
  if (!config.output_dtype.dtype) return std::nullopt;
  std::optional<WantedObserver> output = info.output;
  if (output && output->is_dynamic) output = placeholder(ScalarType::Float);
  if (!output || output->dtype != *config.output_dtype.dtype)
    return dtype_refusal("output", output, *config.output_dtype.dtype);
  return match::refused_constraint(qconfig, config.output_dtype, /*is_activation=*/true);
}

std::optional<std::string> refusal(const TargetInfos& infos, const ir::Match& match,
                                   const MaybeQConfig& qconfig, const DTypeConfig& config) {
  const TargetInfo& info = infos.of(match.root);
  const auto arguments = ir::arguments_as_written(match.root);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::vector<ir::Value*> values =
        arguments[i].is_list ? arguments[i].elements : std::vector<ir::Value*>{arguments[i].value};
    for (const ir::Value* value : values) {
      if (ir::is_constant(value)) continue;
      if (const auto reason = argument_refusal(info, info.role_of(i), qconfig, config)) return reason;
    }
  }
  return output_refusal(infos.of(match.last), qconfig, config);
}

}  // namespace

std::vector<std::string> refusals_before_taken(const TargetInfos& infos, const ir::Match& match,
                                               const MaybeQConfig& qconfig) {
  std::vector<std::string> reasons;
  for (const DTypeConfig& config : match.row->dtype_configs) {
    const auto reason = refusal(infos, match, qconfig, config);
    if (!reason) break;
    reasons.push_back(*reason);
  }
  return reasons;
}

std::vector<std::string> refusals(const TargetInfos& infos, const ir::Match& match,
                                  const MaybeQConfig& qconfig) {
  auto reasons = refusals_before_taken(infos, match, qconfig);
  if (match.row->dtype_configs.empty()) return {"the backend's row has no dtype configs"};
  return reasons.size() < match.row->dtype_configs.size() ? std::vector<std::string>{} : reasons;
}

}  // namespace tsq::passes
