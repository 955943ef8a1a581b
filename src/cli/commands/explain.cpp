#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>
#include <tsq/data.h>
#include <tsq/error.h>
#include <tsq/measure_operators.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/text_table.h"
#include "cli/commands/commands.h"
#include "cli/commands/configuration.h"
#include "cli/commands/float_model.h"
#include "cli/printing/json_list.h"
#include "cli/printing/plan_text.h"
#include "cli/printing/progress.h"
#include "cli/printing/summary.h"
#include "cli/process/failure.h"
#include "cli/process/options.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kExplainHelp{
    .name = "explain",
    .summary = "Say which operators would be quantized and why the others would not, without doing it",
    .examples =
        "  tsq explain model.pt --backend fbgemm\n"
        "  tsq explain model.pt --calib data.pt --time 10\n"
        "  tsq explain model.pt --passes\n"
        "  tsq explain model.pt --qconfig q.json --json"};

struct ExplainOptions {
  std::string model{};
  std::string calib{};
  std::size_t rounds{0};
  bool shows_plan{false};
  bool passes{false};
  ConfigurationOptions configuration{};
  ConvertConfigurationOptions convert{};
};

/// A backend without kernels in LibTorch ends at the reference model: its report has no kernels.
Report report_of_lowered(const Reference& reference, const BackendConfig& backend) {
  try {
    return lower(reference, backend).report();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Unsupported) throw;
  }
  return reference.report();
}

/// Without data, observers have seen none: that changes numbers, not kernels.
Reference converted(const Prepared& prepared, const BackendConfig& backend, ConvertOptions options) {
  options.custom.set_allow_uncalibrated(true);
  return convert_to_reference(prepared, backend, options);
}

struct Explained {
  Report report{};
  Plan plan{};
};

/// What names an operator whatever it is quantized for.
using Operator = std::pair<std::string, std::string>;
Operator name_of(const Decision& decision) { return {decision.node, decision.op}; }

/// The operators that are quantized with another backend and else the same options: none where it refuses
/// them.
std::set<Operator> quantized_with(std::string_view backend, ExplainOptions options,
                                  const torch::jit::Module& model, std::span<const Sample> samples) {
  options.configuration.backend = backend;
  options.configuration.backend_config.clear();
  options.convert.plan.clear();
  std::set<Operator> names;
  try {
    const Configuration chosen = configuration(options.configuration);
    Prepared prepared = prepared_model(model, chosen);
    if (!samples.empty()) calibrate(prepared, samples.first(1));
    const Report report = report_of_lowered(
        converted(prepared, chosen.backend, convert_options(options.convert)), chosen.backend);
    for (const Decision& decision : report.decisions) {
      if (decision.quantized) names.insert(name_of(decision));
    }
  } catch (const Error&) {
    return {};
  }
  return names;
}

/// Names other backends for an operator only where they would quantize it.
void try_other_backends(Report& report, const ExplainOptions& options, const torch::jit::Module& model,
                        std::span<const Sample> samples) {
  std::map<std::string, std::set<Operator>> quantized;
  for (Decision& decision : report.decisions) {
    if (decision.quantized || decision.other_backends.empty()) continue;
    std::vector<std::string> takers;
    for (const std::string& backend : decision.other_backends) {
      if (!quantized.contains(backend))
        quantized.emplace(backend, quantized_with(backend, options, model, samples));
      if (quantized.at(backend).contains(name_of(decision))) takers.push_back(backend);
    }
    decision.remedy =
        takers.empty() ? fmt::format("leave it float: it stays float with backend {} too",
                                     fmt::join(decision.other_backends, " and "))
                       : fmt::format("quantize for a backend that quantizes it: {}", fmt::join(takers, ", "));
    decision.other_backends = std::move(takers);
  }
}

/// Goes all the way to the engine's kernels and writes nothing.
Explained explained(const ExplainOptions& options, const Session& session) {
  if (options.rounds > 0 && options.calib.empty())
    throw UsageError("--time needs a sample to run; give --calib DATA.pt");
  const Configuration chosen = configuration_to_lower(options.configuration);
  ConvertOptions at_convert = convert_options(options.convert);
  Steps steps(session);
  const ModelFile model = load_float_model(options.model, steps, session);
  std::vector<Sample> samples;
  if (!options.calib.empty()) {
    samples =
        steps.run("read data", [&](const Progress&) { return load_samples(options.calib, model.module); });
  }
  Prepared prepared =
      steps.run("prepare", [&](const Progress&) { return prepared_model(model.module, chosen); });
  if (!samples.empty()) {
    steps.run("calibrate",
              [&](const Progress& progress) { calibrate(prepared, samples, {.progress = progress}); });
  }
  auto [report, plan] = steps.run("convert", [&](const Progress& progress) {
    at_convert.progress = progress;
    const Reference reference = converted(prepared, chosen.backend, at_convert);
    return Explained{.report = report_of_lowered(reference, chosen.backend), .plan = reference.plan()};
  });
  steps.run("other backends",
            [&](const Progress&) { try_other_backends(report, options, model.module, samples); });
  if (samples.empty()) {
    report.unobserved_layers.clear();
  } else {
    steps.run("measure",
              [&](const Progress&) { measure_operators(prepared, samples.front(), options.rounds, report); });
  }
  return {.report = std::move(report), .plan = std::move(plan)};
}

/// In the order in which they ran.
std::string passes_text(const std::vector<PassRun>& passes) {
  constexpr double kMilliseconds = 1000;
  std::vector<std::vector<std::string>> rows{{"room", "pass", "changes", "ms", "what it does"}};
  for (const PassRun& pass : passes) {
    rows.push_back({pass.room, pass.name, std::to_string(pass.changes),
                    fmt::format("{:.2f}", kMilliseconds * pass.seconds), pass.sentence});
  }
  return "\n" + text_table(rows, {0, 1, 4});
}

nlohmann::json passes_json(const std::vector<PassRun>& passes) {
  return json_list(passes, [](const PassRun& pass) -> nlohmann::json {
    return {{"room", pass.room},
            {"name", pass.name},
            {"changes", pass.changes},
            {"seconds", pass.seconds},
            {"sentence", pass.sentence}};
  });
}

void run_explain(const ExplainOptions& options, const Session& session) {
  OutputFiles files(session);
  const auto [report, plan] = explained(options, session);
  if (!options.convert.plan_output.empty()) files.write_json(options.convert.plan_output, plan.to_dict());
  files.commit();
  nlohmann::json answer = report.to_json();
  if (options.shows_plan) answer["plan"] = plan.to_dict();
  if (options.passes) answer["passes"] = passes_json(report.passes);
  print_result(session,
               report.to_text() + unobserved_text(report) +
                   (options.shows_plan ? plan_text(plan) : std::string()) +
                   (options.passes ? passes_text(report.passes) : std::string()),
               answer);
}

void add_explain_options(const Command& command, ExplainOptions& options) {
  add_options(
      command,
      {required(input({"MODEL.pt", into(options.model), "The float model, a TorchScript file"})),
       input({"--calib", into(options.calib), "Calibration data, which also shows multiply-accumulates",
              "DATA.pt"}),
       {"--time", into(options.rounds),
        "Time each float operator: the best of N runs on the first sample (needs --calib)", "N",
        within(1, 1000000)},
       {"--show-plan", into(options.shows_plan),
        "Also print the plan: which operators compute in int8, and which values are not rounded"},
       {"--passes", into(options.passes),
        "Also print the passes that have run, in order, with the graphs that each has changed and its "
        "time"}});
  add_configuration_options(command, options.configuration);
  add_convert_options(command, options.convert);
}

}  // namespace

void add_explain(CLI::App& app, Session& session) {
  add_command<ExplainOptions>(app, session, kExplainHelp, add_explain_options, run_explain);
}

}  // namespace tsq::cli
