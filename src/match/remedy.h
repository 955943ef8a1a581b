#pragma once

#include <tsq/backend_config.h>
#include <tsq/qconfig.h>
#include <tsq/qconfig_mapping.h>

#include <optional>
#include <string>
#include <vector>

/// What the decision report says of QConfigs and DTypeConfigs, and what to change in them.
namespace tsq::match {

/// "static, input quint8, weight qint8, output quint8".
std::string describe(const DTypeConfig& config);
/// "activation HistogramObserver quint8, weight PerChannelMinMaxObserver qint8".
std::string describe(const QConfig& qconfig);

/// What to change in a QConfig so that a DTypeConfig takes it: "give its activation observer dtype quint8".
/// Empty when dtypes and ranges are not what is wrong.
struct Remedy {
  std::size_t dtype_config{0};  ///< the one of the row that asks for the fewest changes
  std::string text{};
};
Remedy remedy_for(const QConfig& qconfig, const BackendPatternConfig& row);

/// How to give a QConfig to an operator that has none: at the entry of the mapping that says none.
std::string remedy_for_none(const QConfigDecision& decision, const std::string& op);

/// The shipped backends beside `backend` that have an engine and a row for an operator. A recipe may leave it
/// float there too.
std::vector<std::string> other_backends_with_row(const Pattern& pattern, const BackendConfig& backend);

/// Another spelling of an operator, for which the table has a row; empty: there is none.
std::optional<std::string> spelling_with_row(const std::string& op, const BackendConfig& backend);

/// What to do about an operator without a row in `backend` and in others: another spelling, or an operator of
/// the same use that has kernels.
std::string remedy_without_row(const std::string& op, const BackendConfig& backend);

}  // namespace tsq::match
