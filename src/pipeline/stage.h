#pragma once

#include <tsq/quantize.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "ir/graph_module.h"

namespace tsq::detail {

/// A model between two verbs: its graph, the module that runs it, and what it was made with.
struct Stage {
  ir::GraphModule gm{};
  torch::jit::Module module{};                  ///< executable form of `gm`
  std::vector<torch::jit::Module> observers{};  ///< instances of gm.observers (prepared stage)
  torch::jit::Module float_model{};  ///< the user's module, kept so that a saved stage can be continued
  QConfigMapping mapping{};
  BackendConfig backend{};
  PrepareCustomConfig custom{};
  Report report{};
};

}  // namespace tsq::detail
