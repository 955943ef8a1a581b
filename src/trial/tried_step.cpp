// One step of quantize by itself: its result is tried, and what fails is left out of it.

#include <tsq/tried_step.h>

#include <algorithm>

#include "backends/kernels/engine.h"
#include "base/callers_exception.h"
#include "pipeline/stage.h"
#include "trial/attempt.h"
#include "trial/finish.h"
#include "trial/leave_out.h"

namespace tsq {
namespace {

TriedStep tried(detail::Attempt attempt, std::vector<LeftFloat> changes, bool force) {
  if (!attempt.made || (attempt.trial.fault && !force)) detail::refuse(attempt);
  return {.reference = std::move(attempt.made->reference),
          .model = Lowered(std::move(attempt.made->module), std::move(attempt.made->report)),
          .trial = std::move(attempt.trial),
          .left_float = std::move(changes)};
}

/// What lowering may put a kernel in the place of.
std::vector<QuantizedLayer> lowered_operators(const Report& report) {
  std::vector<QuantizedLayer> operators;
  for (const Decision& decision : report.decisions) {
    if (!decision.quantized || !decision.standalone.empty() || decision.node.empty()) continue;
    operators.push_back({.name = decision.layer.empty() ? decision.node : decision.layer,
                         .op = decision.op,
                         .nodes = {decision.node}});
  }
  return operators;
}

TriedStep converted(const Prepared& prepared, const BackendConfig& backend, const ConvertOptions& options,
                    const StepTrial& trial) {
  const detail::Stage& stage = detail::stage_of(prepared);
  const detail::Referee referee(stage.float_model, engine_of(backend),
                                detail::tried_samples(stage.float_model, trial.samples), {},
                                detail::TrialExtent::All, std::vector<NamedDecisions>());
  detail::Attempt now = detail::attempt(
      referee, [&] { return detail::unlowered(convert_to_reference(prepared, backend, options)); });
  const bool can_choose = stage.standalone.empty() && !options.mapping && !options.plan;
  if (!now.trial.fault || trial.force || !can_choose) return tried(std::move(now), {}, trial.force);
  const detail::Candidates candidates(prepared, backend, options.custom, {});
  const detail::LeftOut left =
      detail::leave_out_failing(candidates.size(), *now.trial.fault, [&](const detail::Indices& kept) {
        now = detail::attempt(referee, [&] { return detail::unlowered(candidates.reference(kept)); });
        return now.trial.fault;
      });
  return tried(std::move(now), left.changes(candidates.layers()), trial.force);
}

}  // namespace

torch::jit::Module TriedStep::module() && { return std::move(model).module(); }
Report TriedStep::report() && { return std::move(model).report(); }

TriedStep convert_and_try(const Prepared& prepared, const BackendConfig& backend,
                          const ConvertOptions& options, const StepTrial& trial) {
  ConvertOptions guarded = options;
  guarded.progress = detail::of_caller(options.progress);
  return detail::with_callers_exceptions([&] { return converted(prepared, backend, guarded, trial); });
}

TriedStep lower_and_try(const Reference& reference, const BackendConfig& backend, LoweringOptions options,
                        const StepTrial& trial) {
  const detail::Referee referee(reference.module(), engine_of(backend, /*must_have_kernels=*/true),
                                detail::tried_samples(reference.module(), trial.samples), {},
                                detail::TrialExtent::All, std::vector<NamedDecisions>());
  const auto lowered = [&] {
    Lowered result = lower(reference, backend, options);
    return detail::Made{.module = result.module(), .report = std::move(result).report()};
  };
  detail::Attempt now = detail::attempt(referee, lowered);
  if (!now.trial.fault || trial.force) return tried(std::move(now), {}, trial.force);
  const std::vector<QuantizedLayer> operators = lowered_operators(reference.report());
  const detail::LeftOut left =
      detail::leave_out_failing(operators.size(), *now.trial.fault, [&](const detail::Indices& kept) {
        options.kept_reference.clear();
        for (const std::size_t index : kept)
          options.kept_reference.emplace(operators[index].nodes.front(), "its kernel fails");
        now = detail::attempt(referee, lowered);
        return now.trial.fault;
      });
  return tried(std::move(now), left.changes(operators), trial.force);
}

}  // namespace tsq
