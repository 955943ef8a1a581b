#include "cli/printing/decisions.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mapped.h"
#include "base/text.h"

namespace tsq::cli {

OptionRow decisions_option(std::vector<std::string>& values) {
  return {"--decisions", into_each(values),
          "An output whose numbers are scores, and the dimension along which classes are numbered:\n"
          "output, output[1]:2, output['logits'] (default: what the model tells)",
          "OUTPUT[:DIM]"};
}

std::vector<NamedDecisions> named_decisions(const std::vector<std::string>& values) {
  return mapped(values, [](const std::string& value) { return NamedDecisions::parse(value); });
}

std::string decisions_text(const std::vector<std::pair<std::string, JudgedDecisions>>& outputs) {
  constexpr std::size_t kMostLines = 4;
  constexpr std::size_t kNamed = 3;
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;
  for (const auto& [name, decisions] : outputs) {
    const std::string text = decisions.to_text();
    const auto same = std::ranges::find_if(lines, [&](const auto& line) { return line.first == text; });
    if (same != lines.end()) {
      same->second.push_back(name);
    } else {
      lines.emplace_back(text, std::vector{name});
    }
  }
  std::string text;
  std::size_t untold = outputs.size();
  for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) {
    text += fmt::format("  decisions  {}: {}\n", first_of(lines[i].second, kNamed), lines[i].first);
    untold -= lines[i].second.size();
  }
  if (untold > 0) text += fmt::format("  decisions  those of {} further outputs: --json has them\n", untold);
  return text;
}

std::string decisions_text(const Trial& trial) {
  return decisions_text(mapped(
      trial.outputs, [](const OutputTrial& output) { return std::pair(output.name, output.decisions); }));
}

}  // namespace tsq::cli
