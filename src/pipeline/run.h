#pragma once

#include <memory>

#include "passes/flow.h"
#include "pipeline/stage.h"

namespace tsq::detail {

/// Runs the rows of a step on a model; an error gets the name of its pass in front. Adds to `log`, where
/// there is one, what each took.
void run(passes::Step step, ir::Model& model, const passes::PassContext& context,
         std::vector<PassRun>* log = nullptr);

/// What roundings add to the outputs: what the stage knows already, or found with the samples that it has
/// kept. Null where nothing is known, and where nobody asks.
std::shared_ptr<const noise::NoiseByName> known_noise(const Stage& stage);

/// What the rules decide about a settled model, which stays as it is. Adds to `log`, where there is one.
Plan drafted_plan(const ir::Model& model, const passes::PassContext& context,
                  std::vector<PassRun>* log = nullptr);

/// capture to fuse: the float graph that patterns are matched on, as an executable module.
torch::jit::Module fused_module(const torch::jit::Module& model, const BackendConfig& backend,
                                const FuseCustomConfig& custom);

/// Prepares a stage that has its configuration and its float model, and standalone modules in it.
std::shared_ptr<Stage> prepared_stage(Stage configured);

/// Converts a calibrated stage, which stays as it is: by the plan of `options`, else by its own. `progress`
/// counts observers, layers and samples.
std::shared_ptr<Stage> reference_stage(const Stage& prepared, const ConvertOptions& options = {});

enum class Rounding {
  AsDecided,  ///< what the stage's plan rounds
  All,        ///< all that can be rounded
};

/// A calibrated stage as convert makes it, before and after it is rounded. Nodes have the same names in both.
struct RoundedGraph {
  std::shared_ptr<const ir::Model> exact{};  ///< with observers; null of a model with modules that are whole
  ir::Model rounded{};
};
[[nodiscard]] RoundedGraph rounded_graph(const Stage& calibrated, Rounding rounding);

/// The plan of a converted stage, with those of standalone modules.
Plan plan_of(const Stage& reference, const LoweringOptions& options = {});

Lowered lowered_stage(const Stage& reference, const LoweringOptions& options);

/// Gives `model` what is measured of a calibrated stage: mean errors, by which convert corrects biases, and
/// factors of inputs; those that the stage has already, or measured with the samples that it has kept.
void take_measured(ir::Model& model, const Stage& prepared);

}  // namespace tsq::detail
