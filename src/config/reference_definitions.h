#pragma once

#include <tsq/pattern.h>

#include <optional>
#include <string>

/// Reference modules that a table in JSON defines where others name one.
namespace tsq {

/// One of the two is given.
struct ReferenceDefinition {
  std::string file{};    ///< a TorchScript file that holds the module
  std::string source{};  ///< a TorchScript class: "class Reference(Module):\n  weight : Tensor\n  def …"

  friend bool operator==(const ReferenceDefinition&, const ReferenceDefinition&) = default;
};

/// The symbol that stands for a definition in this process, "json.Reference". Throws Error(BadConfig) for a
/// source without a class. Safe to call from several threads.
Symbol define_reference_module(const ReferenceDefinition& definition);

/// None for the symbol of a registered class.
std::optional<ReferenceDefinition> reference_definition(Symbol reference);

}  // namespace tsq
