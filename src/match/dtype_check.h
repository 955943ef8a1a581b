#pragma once

#include <tsq/dtype_config.h>
#include <tsq/qconfig.h>

#include <optional>
#include <string>

namespace tsq::match {

/// Whether an observer keeps within a backend's constraints (D-12 … D-15). Empty: yes; else the check that
/// failed, in words. `qconfig` none, a dtype that is not set or one that differs from the observer's count as
/// satisfied.
std::optional<std::string> refused_constraint(const std::optional<QConfig>& qconfig,
                                              const DTypeWithConstraints& constraints, bool is_activation);

/// _is_qconfig_supported_by_dtype_configs (D-10): dtypes only, whether one config takes the QConfig.
bool dtypes_supported(const QConfig& qconfig, const std::vector<DTypeConfig>& configs);

/// Whether FX calls a weight observer's dtype quantized (weight_is_quantized).
bool weight_is_quantized(const QConfig& qconfig);

/// Whether a QConfig leaves activations in float, so that it quantizes a weight or nothing.
bool is_weight_only(const QConfig& qconfig);
/// Whether activations become bytes by a scale that calibration finds.
bool is_static(const QConfig& qconfig);
/// Whether they do by one that is found when the model runs.
bool is_dynamic(const QConfig& qconfig);

}  // namespace tsq::match
