#pragma once

#include <functional>
#include <span>

#include "passes/passes.h"

namespace tsq::detail {

template <typename... Arguments>
struct RecipePass {
  const char* name;
  void (*run)(Arguments...);
  /// In place of `run`, for a pass that takes long: calls back after each layer.
  void (*run_by_layer)(Arguments..., const std::function<void()>& on_layer){nullptr};
};

/// What a recipe adds to the passes of FX, by the place where it runs.
struct RecipePasses {
  bool any_spelling{false};                                   ///< GraphModule::any_spelling
  bool looks_into_layers{false};                              ///< capture_layers in place of capture
  std::span<const RecipePass<ir::GraphModule&>> on_flat;      ///< before operators become layers
  std::span<const RecipePass<ir::GraphModule&>> on_captured;  ///< before fusion
  std::span<const RecipePass<const ir::GraphModule&, const BackendConfig&, const PrepareCustomConfig&,
                             passes::MatchTable&>>
      on_matches;
  std::span<const RecipePass<ir::GraphModule&, const RecipeOptions&>>
      on_observed;  ///< the last passes of prepare
  std::span<
      const RecipePass<ir::GraphModule&, std::span<const torch::jit::Module>, Report&, const RecipeOptions&>>
      on_calibrated;
  std::span<const RecipePass<ir::GraphModule&, Report&, const RecipeOptions&>> on_reference;
  std::span<const RecipePass<ir::GraphModule&, Report&>> before_lowering;
  std::span<const RecipePass<ir::GraphModule&, Report&, const RecipeOptions&>> on_lowered;
};

const RecipePasses& passes_of(Recipe recipe);

}  // namespace tsq::detail
