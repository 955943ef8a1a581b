// One step of quantize by itself: its result is tried, and what fails is left out of it.

#include <tsq/tried_step.h>

#include <algorithm>

#include "backends/kernels/engine.h"
#include "pipeline/stage.h"
#include "trial/attempt.h"
#include "trial/finish.h"
#include "trial/leave_out.h"

namespace tsq {
namespace {

TriedStep tried(detail::Attempt attempt, std::vector<LeftFloat> changes, bool force) {
  if (!attempt.made || (attempt.trial.fault && !force)) detail::refuse(*attempt.trial.fault);
  return {.reference = attempt.made->reference,
          .model = Lowered(std::move(attempt.made->module), std::move(attempt.made->report)),
          .trial = std::move(attempt.trial),
          .left_float = std::move(changes)};
}

/// What lowering may put a kernel in the place of.
std::vector<Decision> lowered_nodes(const Report& report) {
  std::vector<Decision> nodes;
  std::ranges::copy_if(report.decisions, std::back_inserter(nodes), [](const Decision& decision) {
    return decision.quantized && decision.standalone.empty() && !decision.node.empty();
  });
  return nodes;
}

QuantizedLayer layer_of(const Decision& decision) {
  QuantizedLayer layer;
  layer.name = decision.layer.empty() ? decision.node : decision.layer;
  layer.op = decision.op;
  layer.nodes = {decision.node};
  return layer;
}

}  // namespace

torch::jit::Module TriedStep::module() && { return std::move(model).module(); }
Report TriedStep::report() && { return std::move(model).report(); }

TriedStep convert_and_try(const Prepared& prepared, const BackendConfig& backend,
                          const ConvertCustomConfig& custom, const std::optional<QConfigMapping>& mapping,
                          const StepTrial& trial, const Progress& progress) {
  const detail::Stage& stage = detail::stage_of(prepared);
  const detail::Referee referee(stage.float_model, engine_of(backend),
                                detail::spread(trial.samples, detail::kMostTried));
  const auto made_of = [](Reference reference) {
    detail::Made made{.reference = std::move(reference), .module = {}};
    made.module = made.reference.module();
    made.report = made.reference.report();
    return made;
  };
  detail::Attempt now = detail::attempt(referee, [&] {
    return made_of(convert_to_reference(prepared, backend,
                                        {.custom = custom, .mapping = mapping, .progress = progress}));
  });
  const bool can_choose = stage.standalone.empty() && !mapping;
  if (!now.trial.fault || trial.force || !can_choose) return tried(std::move(now), {}, trial.force);
  const detail::Candidates candidates(prepared, backend, custom, {});
  const detail::LeftOut left =
      detail::leave_out_failing(candidates.size(), *now.trial.fault, [&](const detail::Indices& kept) {
        now = detail::attempt(referee, [&] { return made_of(candidates.reference(kept)); });
        return now.trial.fault;
      });
  std::vector<LeftFloat> changes;
  for (const detail::LeftOut::Fault& fault : left.faults)
    changes.push_back({.layers = candidates.layers(fault.parts), .text = fault.text});
  return tried(std::move(now), std::move(changes), trial.force);
}

TriedStep lower_and_try(const Reference& reference, const BackendConfig& backend, LoweringOptions options,
                        const StepTrial& trial) {
  const detail::Referee referee(reference.module(), engine_of(backend, /*must_have_kernels=*/true),
                                detail::spread(trial.samples, detail::kMostTried));
  const auto lowered = [&] {
    detail::Made made{.reference = reference, .module = {}};
    const Lowered result = lower(reference, backend, options);
    made.module = result.module();
    made.report = result.report();
    return made;
  };
  detail::Attempt now = detail::attempt(referee, lowered);
  if (!now.trial.fault || trial.force) return tried(std::move(now), {}, trial.force);
  const std::vector<Decision> nodes = lowered_nodes(reference.report());
  const detail::LeftOut left =
      detail::leave_out_failing(nodes.size(), *now.trial.fault, [&](const detail::Indices& kept) {
        options.kept_reference.clear();
        for (const std::size_t index : kept)
          options.kept_reference.emplace(nodes[index].node, "its kernel fails");
        now = detail::attempt(referee, lowered);
        return now.trial.fault;
      });
  std::vector<LeftFloat> changes;
  for (const detail::LeftOut::Fault& fault : left.faults) {
    LeftFloat change{.text = fault.text};
    for (const std::size_t index : fault.parts) change.layers.push_back(layer_of(nodes[index]));
    changes.push_back(std::move(change));
  }
  return tried(std::move(now), std::move(changes), trial.force);
}

}  // namespace tsq
