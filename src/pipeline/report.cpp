#include <fmt/format.h>
#include <tsq/report.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tsq {

nlohmann::json Report::to_json() const {
  nlohmann::json entries = nlohmann::json::array();
  for (const Decision& decision : decisions) {
    nlohmann::json entry = {{"node", decision.node},
                            {"layer", decision.layer},
                            {"op", decision.op},
                            {"quantized", decision.quantized}};
    const auto add = [&entry](const char* key, const std::string& value) {
      if (!value.empty()) entry[key] = value;
    };
    add("standalone", decision.standalone);
    add("pattern", decision.pattern);
    add("qconfig_source", decision.qconfig_source);
    if (!decision.refusals.empty()) entry["refusals"] = decision.refusals;
    add("reason", decision.reason);
    add("remedy", decision.remedy);
    add("equalization", decision.equalization);
    add("kernel", decision.kernel);
    entries.push_back(std::move(entry));
  }
  return {{"operators", std::move(entries)}, {"unobserved_layers", unobserved_layers}};
}

std::string Report::to_text() const {
  const auto quantized =
      std::count_if(decisions.begin(), decisions.end(), [](const Decision& d) { return d.quantized; });
  std::string text = fmt::format("{} of {} operators quantized\n", quantized, decisions.size());
  for (const Decision& decision : decisions) {
    text += fmt::format("{:<9} {} {}", decision.quantized ? "quantized" : "float",
                        decision.layer.empty() ? decision.node : decision.layer, decision.op);
    if (!decision.kernel.empty()) text += " → " + decision.kernel;
    if (!decision.reason.empty()) text += ": " + decision.reason;
    if (!decision.remedy.empty()) text += "; " + decision.remedy;
    if (!decision.equalization.empty()) text += "; " + decision.equalization;
    text += '\n';
  }
  return text;
}

}  // namespace tsq
