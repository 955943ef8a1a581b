#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <string_view>

#include "ir/model.h"
#include "passes/context/pass_context.h"

/// Passes of prepare, tried one by one.
namespace tsq::testing {

/// What passes know of a module that is prepared for an engine as a recipe says, with the recipe's mapping.
passes::PassContext recipe_context(const torch::jit::Module& module, Recipe recipe = Recipe::Best,
                                   const std::string& engine = "x86");
/// The same of a module that is prepared for training.
passes::PassContext training_context(const torch::jit::Module& module, const std::string& engine = "x86");

/// The model as a pass between capture and the end of prepare finds it: after all those in front of it.
/// Throws where the flow does not run the pass in this context.
ir::Model model_before(const passes::PassContext& context, std::string_view pass);

}  // namespace tsq::testing
