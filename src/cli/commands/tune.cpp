#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/backends.h>
#include <tsq/engines.h>
#include <tsq/error.h>
#include <tsq/quantize.h>
#include <tsq/recipe.h>
#include <tsq/tune.h>

#include <nlohmann/json.hpp>

#include "base/known_engines.h"
#include "cli/commands/commands.h"
#include "cli/printing/progress.h"
#include "cli/printing/summary.h"
#include "cli/process/failure.h"
#include "cli/process/model_file.h"
#include "cli/process/options.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kTuneHelp{
    .name = "tune",
    .summary = "Measure what kernels take on this machine: a profile for --machine",
    .examples =
        "  tsq tune --output machine.json\n"
        "  tsq tune model.pt --data calib.pt --output machine.json\n"
        "  tsq quantize model.pt --calib calib.pt --machine machine.json --output model.int8.pt\n\n"
        "Kernels are measured at random sizes, with one and two threads, and a small model is fitted to "
        "their times; with a\n"
        "model, kernels are measured at its own sizes too, in float and in int8. Nothing else should run "
        "meanwhile."};

struct TuneCommandOptions {
  std::string model{};
  std::string data{};
  std::string output{};
  std::string name{"this machine"};
  std::string backend{"x86"};
  std::vector<std::string> engines{};
  std::vector<int> threads{1, 2};
  double effort{1};
  std::uint64_t seed{1};
};

TuneOptions tune_options(const TuneCommandOptions& options, const Progress& progress) {
  return {.name = options.name,
          .threads = options.threads,
          .engines = options.engines,
          .seed = options.seed,
          .effort = options.effort,
          .progress = progress};
}

/// The kernels of the model as it is, and as recipe best quantizes it, at its own sizes.
void add_model(const TuneCommandOptions& options, Steps& steps, MachineProfile& profile) {
  const ModelFile model = load_model(options.model);
  const std::vector<Sample> samples = samples_if_given(options.data, model.module);
  const BackendConfig backend = backend_config(options.backend);
  const std::string engine(backend.engine());
  steps.run("measure the model", [&](const Progress&) {
    measure_model(model.module, engine, samples.front(), tune_options(options, {}), profile);
    Prepared prepared = prepare(model.module, best_qconfig_mapping(options.backend), backend);
    calibrate(prepared, samples);
    const Lowered lowered = convert(prepared, backend);
    measure_model(lowered.module(), engine, samples.front(), tune_options(options, {}), profile);
  });
}

void run_tune(const TuneCommandOptions& options, const Session& session) {
  if (options.model.empty() != options.data.empty())
    throw UsageError("a model runs on data, and data needs a model; give MODEL.pt and --data, or neither");
  OutputFiles files(session);
  Steps steps(session);
  MachineProfile profile = steps.run(
      "measure kernels", [&](const Progress& progress) { return tune(tune_options(options, progress)); });
  if (!options.model.empty()) add_model(options, steps, profile);
  files.write_json(options.output, profile.to_dict());
  files.commit();
  std::size_t kinds = 0;
  for (const auto& [threads, kernels] : profile.by_threads) kinds += kernels.size();
  print_result(session,
               fmt::format("profile of {}: '{}'\n  {} kinds of kernels, {} calls of a model\n",
                           profile.processor, options.output, kinds, profile.measured.size()),
               {{"output", options.output},
                {"processor", profile.processor},
                {"kinds", kinds},
                {"measured", profile.measured.size()},
                {"steps", seconds_json(steps.seconds())}});
}

void add_tune_options(const Command& command, TuneCommandOptions& options) {
  constexpr auto kEngines = known_engines();
  add_options(
      command,
      {input({"MODEL.pt", into(options.model), "A float model whose kernels are measured as well"}),
       input({"--data", into(options.data), "Samples for it", "DATA.pt"}),
       required(output({"-o,--output", into(options.output), "The profile to write", "machine.json"})),
       {"--name", into(options.name), "What the profile is called (default: this machine)", "NAME"},
       {"--backend", into(options.backend), "The kernels of the quantized model (default: x86)",
        "x86|fbgemm|qnnpack|onednn", one_of({kEngines.begin(), kEngines.end()})},
       {.names = "--engines",
        .add = into(options.engines),
        .help = "Whose kernels are measured (default: all)",
        .type = "x86,fbgemm,…",
        .check = one_of({kEngines.begin(), kEngines.end()}),
        .delimiter = ','},
       {.names = "--measured-threads",
        .add = into(options.threads),
        .help = "With how many threads kernels are measured (default: 1,2)",
        .type = "N,…",
        .check = within(1, 4096),
        .delimiter = ','},
       {"--effort", into(options.effort),
        "How many sizes are drawn, in parts of the usual number: 0.1 for a try (default: 1)", "PART",
        CLI::Range(0.0, 100.0)},
       {"--seed", into(options.seed), "Of the sizes that are drawn (default: 1)", "N"}});
}

}  // namespace

void add_tune(CLI::App& app, Session& session) {
  add_command<TuneCommandOptions>(app, session, kTuneHelp, add_tune_options, run_tune);
}

}  // namespace tsq::cli
