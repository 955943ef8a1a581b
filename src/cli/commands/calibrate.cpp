#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/data.h>
#include <tsq/files.h>
#include <tsq/quantize.h>

#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/printing/progress.h"
#include "cli/printing/summary.h"
#include "cli/process/options.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kCalibrateHelp{
    .name = "calibrate",
    .summary = "Step 2 of quantize: run a prepared model on data",
    .examples =
        "  tsq calibrate prepared.pt --calib data.pt --output calibrated.pt\n"
        "  tsq calibrate calibrated.pt --calib more.npy --output calibrated2.pt\n\n"
        "Calibration continues where the file left off, so that data can come in several files, one after "
        "the other."};

struct CalibrateOptions {
  std::string model{};
  std::string calib{};
  std::string output{};
  std::string method{"forward"};
};

void run_calibrate(const CalibrateOptions& options, const Session& session) {
  OutputFiles files(session);
  Steps steps(session);
  Prepared prepared = steps.run("load", [&](const Progress&) { return Prepared::load(options.model); });
  const std::vector<Sample> samples = steps.run("read data", [&](const Progress&) {
    return load_samples(options.calib, prepared.module(), options.method);
  });
  steps.run("calibrate", [&](const Progress& progress) {
    calibrate(prepared, samples, {.method = options.method, .progress = progress});
  });
  files.write(options.output,
              [&](const std::string& place) { prepared.save(place, read_extra_files(options.model)); });
  files.commit();
  print_result(session,
               fmt::format("'{}' calibrated on {} sample{}: '{}'\n", options.model, samples.size(),
                           samples.size() == 1 ? "" : "s", options.output),
               {{"model", options.model},
                {"output", options.output},
                {"samples", samples.size()},
                {"steps", seconds_json(steps.seconds())}});
}

void add_calibrate_options(const Command& command, CalibrateOptions& options) {
  add_options(command,
              {required(input({"PREPARED.pt", into(options.model), "A model from 'tsq prepare'"})),
               required(input(
                   {"--calib", into(options.calib), "Calibration data, as for 'tsq quantize'", "DATA.pt"})),
               {"--method", into(options.method),
                "The method to run on the samples, which are its arguments (default: forward)", "NAME"},
               required(output({"-o,--output", into(options.output), "The calibrated model to write",
                                "CALIBRATED.pt"}))});
}

}  // namespace

void add_calibrate(CLI::App& app, Session& session) {
  add_command<CalibrateOptions>(app, session, kCalibrateHelp, add_calibrate_options, run_calibrate);
}

}  // namespace tsq::cli
