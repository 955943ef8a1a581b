#pragma once

#include <tsq/custom_config.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/unmatched.h>

#include <vector>

#include "ir/model.h"

namespace tsq::match {

/// The entries of a mapping that no operator of the fused graph looks up, in the order of the mapping: a name
/// that is misspelt, a module that was fused into another. Entries that the default mappings have are
/// left out, of any backend and mode: they are there for models of all kinds. After them the names and
/// classes of a PrepareCustomConfig that no module has. `source` is the user's module.
std::vector<UnmatchedEntry> unmatched_entries(const ir::Model& model, const torch::jit::Module& source,
                                              const QConfigMapping& mapping,
                                              const PrepareCustomConfig& custom);

}  // namespace tsq::match
