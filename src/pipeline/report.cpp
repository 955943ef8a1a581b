// The decision report as JSON, and what its text shares with it.

#include <tsq/report.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace tsq {
namespace {

nlohmann::json summary_json(const Totals& sums) {
  nlohmann::json summary = {{"operators", sums.operators},
                            {"quantized", sums.quantized},
                            {"in_kernels", sums.in_kernels},
                            {"float", sums.operators - sums.quantized},
                            {"without_tensors", sums.without_tensors}};
  if (sums.has_macs) {
    summary.update(
        {{"macs", sums.macs}, {"int8_macs", sums.int8_macs}, {"int8_macs_share", sums.macs_share()}});
    if (!sums.small_weight_macs.empty()) summary["small_weight_macs"] = sums.small_weight_macs;
  }
  if (sums.has_seconds) {
    summary.update({{"float_seconds", sums.seconds},
                    {"float_seconds_of_int8", sums.int8_seconds},
                    {"int8_seconds_share", sums.seconds_share()}});
  }
  return summary;
}

nlohmann::json entry_json(const Decision& decision) {
  nlohmann::json entry = {{"node", decision.node},
                          {"layer", decision.layer},
                          {"op", decision.op},
                          {"quantized", decision.quantized},
                          {"on_tensors", decision.on_tensors}};
  nlohmann::json tried = nlohmann::json::array();
  for (std::size_t i = 0; i < decision.dtype_configs.size(); ++i) {
    tried.push_back({{"dtypes", decision.dtype_configs[i]}, {"taken", i >= decision.refusals.size()}});
    if (i < decision.refusals.size()) tried.back()["refusal"] = decision.refusals[i];
  }
  const nlohmann::json details = {{"parts", decision.parts},
                                  {"standalone", decision.standalone},
                                  {"pattern", decision.pattern},
                                  {"qconfig_source", decision.qconfig_source},
                                  {"qconfig", decision.qconfig},
                                  {"dtype_configs", std::move(tried)},
                                  {"refusals", decision.refusals},
                                  {"reason", decision.reason},
                                  {"remedy", decision.remedy},
                                  {"notes", notes_of(decision)},
                                  {"equalization", decision.equalization},
                                  {"kernel", decision.kernel},
                                  {"weights", decision.weights}};
  for (const auto& [key, value] : details.items()) {
    if (!value.empty() && value != "") entry[key] = value;
  }
  if (decision.macs) entry["macs"] = *decision.macs;
  if (!decision.method.empty()) entry["method"] = decision.method;
  if (decision.float_share > 0) entry["float_share"] = decision.float_share;
  if (decision.seconds) entry["seconds"] = *decision.seconds;
  if (decision.price)
    entry["price"] = {{"float_nanoseconds", decision.price->in_float},
                      {"int8_nanoseconds", decision.price->in_int8}};
  return entry;
}

nlohmann::json entry_json(const UnmatchedEntry& entry) {
  nlohmann::json json = {
      {"level", entry.level}, {"entry", entry.entry}, {"nearest", entry.nearest}, {"text", entry.to_text()}};
  if (!entry.reason.empty()) json["reason"] = entry.reason;
  return json;
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

double Totals::macs_share() const { return share(static_cast<double>(int8_macs), static_cast<double>(macs)); }
double Totals::quantized_macs_share() const {
  int64_t count_of_all = int8_macs;
  for (const auto& [weights, count] : small_weight_macs) count_of_all += count;
  return share(static_cast<double>(count_of_all), static_cast<double>(macs));
}
double Totals::seconds_share() const { return share(int8_seconds, seconds); }

Totals totals(const Report& report) {
  Totals sums;
  for (const Decision& decision : report.decisions) {
    if (!decision.on_tensors) {
      ++sums.without_tensors;
      continue;
    }
    ++sums.operators;
    if (decision.quantized) ++sums.quantized;
    if (decision.quantized && !decision.kernel.empty()) ++sums.in_kernels;
    if (decision.macs) {
      sums.has_macs = true;
      sums.macs += *decision.macs;
      if (decision.quantized)
        (decision.weights.empty() ? sums.int8_macs : sums.small_weight_macs[decision.weights]) +=
            std::llround(static_cast<double>(*decision.macs) * (1 - decision.float_share));
    }
    if (decision.seconds) {
      sums.has_seconds = true;
      sums.seconds += *decision.seconds;
      if (decision.quantized) sums.int8_seconds += *decision.seconds;
    }
  }
  return sums;
}

nlohmann::json Report::to_json() const {
  nlohmann::json operators = nlohmann::json::array();
  for (const Decision& decision : decisions) operators.push_back(entry_json(decision));
  nlohmann::json unmatched = nlohmann::json::array();
  for (const UnmatchedEntry& entry : unmatched_entries) unmatched.push_back(entry_json(entry));
  nlohmann::json json = {{"summary", summary_json(totals(*this))},
                         {"operators", std::move(operators)},
                         {"unobserved_layers", unobserved_layers},
                         {"unmatched_entries", std::move(unmatched)},
                         {"python_files", python_files}};
  for (const UnmatchedLowering& each : unmatched_lowering)
    json["unmatched_lowering"].push_back(
        {{"row", each.row}, {"kernel", each.kernel}, {"reason", each.reason}});
  for (const FusedProgram& program : programs) {
    json["programs"].push_back({{"name", program.name},
                                {"operators", program.operators},
                                {"first", program.first},
                                {"last", program.last},
                                {"ended_by", program.ended_by}});
  }
  return json;
}

}  // namespace tsq
