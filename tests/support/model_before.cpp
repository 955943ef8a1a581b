#include "support/model_before.h"

#include <torch/script.h>

#include <stdexcept>
#include <utility>

#include "passes/flow.h"
#include "pipeline/training.h"

namespace tsq::testing {
passes::PassContext recipe_context(const torch::jit::Module& module, Recipe recipe,
                                   const std::string& engine) {
  return {.source = module,
          .table = backend_config(engine),
          .mapping = recipe == Recipe::Best ? best_qconfig_mapping(engine) : default_qconfig_mapping(engine),
          .options = {.recipe = recipe},
          .target = {.engine = engine}};
}

passes::PassContext training_context(const torch::jit::Module& module, const std::string& engine) {
  passes::PassContext context = recipe_context(detail::copy_to_train(module), Recipe::Fx, engine);
  context.mapping = default_qat_qconfig_mapping(engine);
  context.trains = true;
  return context;
}

ir::Model model_before(const passes::PassContext& context, std::string_view pass) {
  ir::Model model;
  for (const passes::FlowRow& row : passes::flow()) {
    if (row.step > passes::Step::Observe) break;
    const bool is_taken = passes::is_taken(row, model, context);
    if (row.name == pass && is_taken) return model;
    if (is_taken) passes::run_row(row, model, context);
  }
  throw std::runtime_error("prepare does not run " + std::string(pass));
}

}  // namespace tsq::testing
