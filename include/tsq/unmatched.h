#pragma once

#include <string>
#include <vector>

namespace tsq {

/// An entry of the QConfigMapping or of the PrepareCustomConfig that applies to nothing in the model.
struct UnmatchedEntry {
  std::string level{};  ///< "module name", "module name regex", "object type" …, "standalone_module_name" …
  std::string entry{};   ///< the name, regex or type
  std::string reason{};  ///< why, where that is known; a name that the model does not have needs no reason
  std::vector<std::string> nearest{};  ///< similar names that the model has
  bool is_custom{false};               ///< of the PrepareCustomConfig
  /// "module name 'laeyr1' matches nothing; did you mean 'layer1'?"
  [[nodiscard]] std::string to_text() const;
};

/// A row of register_lowering, for the model's backend, that has lowered nothing in it.
struct UnmatchedLowering {
  std::string row{};     ///< its operators
  std::string kernel{};  ///< "my::linear"
  std::string reason{};
  /// "the lowering row 'torch.nn.Linear' for my::linear lowers nothing: the model has no such operators".
  [[nodiscard]] std::string to_text() const;
};

}  // namespace tsq
