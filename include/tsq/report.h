#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tsq {

/// What became of one operator of the model.
struct Decision {
  std::string node{};   ///< name of the value it gives in the captured graph
  std::string layer{};  ///< module path in the user's model
  std::string op{};     ///< PyTorch's name, "torch.nn.Conv2d"
  bool quantized{false};
  std::string pattern{};                ///< the row that matched, empty when none did
  std::string qconfig_source{};         ///< "global", "object type 'torch.nn.Linear'" …
  std::vector<std::string> refusals{};  ///< for each DTypeConfig tried, the first check that failed
  std::string reason{};                 ///< why it stayed float; empty when quantized
  std::string remedy{};                 ///< what to change
  std::string equalization{};           ///< "equalized", or why not; empty when it was not asked for
  std::string kernel{};                 ///< the engine kernel it became at lowering
  std::string standalone{};             ///< path of the standalone module that it is inside of; empty: none
};

/// The decision report: one entry per operator, in graph order.
struct Report {
  std::vector<Decision> decisions{};
  /// Layers whose observers saw no data by the time of convert: their qparams are scale 1, zero point 0.
  std::vector<std::string> unobserved_layers{};
  [[nodiscard]] nlohmann::json to_json() const;
  /// For people: a summary, then a line per operator.
  [[nodiscard]] std::string to_text() const;
};

}  // namespace tsq
