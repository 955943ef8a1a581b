#pragma once

#include <tsq/custom_module.h>
#include <tsq/pattern.h>

#include <optional>

/// Reference modules that a table in JSON defines where others name one.
namespace tsq {

/// The symbol that stands for a definition in this process, "json.Reference". Throws Error(BadConfig) for a
/// source without a class. Safe to call from several threads.
Symbol define_reference_module(const ModuleDefinition& definition);

/// None for the symbol of a registered class.
std::optional<ModuleDefinition> reference_definition(Symbol reference);

}  // namespace tsq
