#include <ATen/Parallel.h>
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
  int passes{TuneOptions{}.passes};
  std::uint64_t seed{1};
};

TuneOptions tune_options(const TuneCommandOptions& options, int threads, const Progress& progress = {}) {
  return {.name = options.name,
          .threads = {threads},
          .engines = options.engines.empty() ? std::vector{options.backend} : options.engines,
          .seed = options.seed,
          .effort = options.effort,
          .passes = options.passes,
          .progress = progress};
}

/// A model as it is, and as recipe best quantizes it.
struct MeasuredModel {
  std::string engine{};
  Sample sample{};
  std::vector<torch::jit::Module> forms{};
};

MeasuredModel measured_model(const TuneCommandOptions& options) {
  const ModelFile model = load_model(options.model);
  const std::vector<Sample> samples = samples_if_given(options.data, model.module);
  const BackendConfig backend = backend_config(options.backend);
  Prepared prepared = prepare(model.module, best_qconfig_mapping(options.backend), backend);
  calibrate(prepared, samples);
  return {.engine = std::string(backend.engine()),
          .sample = samples.front(),
          .forms = {model.module, convert(prepared, backend).module()}};
}

/// All kernels with one number of threads before the next: see tuning::measured_calls.
MachineProfile measured_profile(const TuneCommandOptions& options, const MeasuredModel& model, Steps& steps) {
  MachineProfile profile;
  for (const int threads : options.threads) {
    const std::string with = fmt::format("with {} thread{}", threads, threads == 1 ? "" : "s");
    MachineProfile of_threads = steps.run("measure kernels " + with, [&](const Progress& progress) {
      return tune(tune_options(options, threads, progress));
    });
    profile.name = of_threads.name;
    profile.processor = of_threads.processor;
    profile.by_threads.merge(of_threads.by_threads);
    if (model.forms.empty()) continue;
    steps.run("measure the model " + with, [&](const Progress&) {
      for (const torch::jit::Module& form : model.forms)
        measure_model(form, model.engine, model.sample, tune_options(options, threads), profile);
    });
  }
  return profile;
}

void run_tune(const TuneCommandOptions& options, const Session& session) {
  if (options.model.empty() != options.data.empty())
    throw UsageError("a model runs on data, and data needs a model; give MODEL.pt and --data, or neither");
  OutputFiles files(session);
  Steps steps(session);
  // Nothing computes with more threads before what is measured with these.
  if (!options.threads.empty()) at::set_num_threads(options.threads.front());
  const MeasuredModel model = options.model.empty() ? MeasuredModel() : measured_model(options);
  const MachineProfile profile = measured_profile(options, model, steps);
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
        .help =
            "Whose kernels are measured (default: those of --backend); one engine a run is the most exact",
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
       {"--passes", into(options.passes),
        "How often each size is measured, of which the median counts (default: 3)", "N", within(1, 100)},
       {"--seed", into(options.seed), "Of the sizes that are drawn (default: 1)", "N"}});
}

}  // namespace

void add_tune(CLI::App& app, Session& session) {
  add_command<TuneCommandOptions>(app, session, kTuneHelp, add_tune_options, run_tune);
}

}  // namespace tsq::cli
