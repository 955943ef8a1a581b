#pragma once

#include <tsq/recipe_options.h>

namespace tsq::detail {

/// What the options of prepare or quantize say of the recipe.
template <typename Options>
RecipeOptions recipe_options(const Options& options) {
  return {.recipe = options.recipe,
          .target_cpu = options.target_cpu,
          .target = options.target,
          .machine = options.machine,
          .smooth_quant = options.smooth_quant,
          .cross_layer_margin = options.cross_layer_margin,
          .weight_rounding = options.weight_rounding,
          .effort = options.effort,
          .decibel_price = options.decibel_price,
          .python_source = options.python_source};
}

/// Such options with this recipe.
template <typename Options>
Options with_recipe(Options options, const RecipeOptions& recipe) {
  options.recipe = recipe.recipe;
  options.target_cpu = recipe.target_cpu;
  options.target = recipe.target;
  options.machine = recipe.machine;
  options.smooth_quant = recipe.smooth_quant;
  options.cross_layer_margin = recipe.cross_layer_margin;
  options.weight_rounding = recipe.weight_rounding;
  options.effort = recipe.effort;
  options.decibel_price = recipe.decibel_price;
  options.python_source = recipe.python_source;
  return options;
}

}  // namespace tsq::detail
