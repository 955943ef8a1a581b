#pragma once

#include <memory>

#include "passes/flow.h"
#include "pipeline/stage.h"

namespace tsq::detail {

/// Runs the rows of a step on a model; an error gets the name of its pass in front. Adds to `log`, where
/// there is one, what each took.
void run(passes::Step step, ir::Model& model, const passes::PassContext& context,
         std::vector<PassRun>* log = nullptr);

/// capture to fuse: the float graph that patterns are matched on, as an executable module.
torch::jit::Module fused_module(const torch::jit::Module& model, const BackendConfig& backend,
                                const FuseCustomConfig& custom);

/// Prepares a stage that has its configuration and its float model, and standalone modules in it.
std::shared_ptr<Stage> prepared_stage(Stage configured);

/// Converts a calibrated stage, which stays as it is. `progress` counts observers, layers and samples.
std::shared_ptr<Stage> reference_stage(const Stage& prepared, const std::optional<QConfigMapping>& mapping,
                                       const ConvertCustomConfig& custom = {}, const Progress& progress = {});

Lowered lowered_stage(const Stage& reference, const LoweringOptions& options);

/// Gives `model` what is measured of a calibrated stage: mean errors, by which convert corrects biases, and
/// factors of inputs; those that the stage has already, or measured with the samples that it has kept.
void take_measured(ir::Model& model, const Stage& prepared);

}  // namespace tsq::detail
