#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/data.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/printing/progress.h"
#include "cli/printing/summary.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr const char* kCalibrateSummary = "Step 2 of quantize: run a prepared model on data";
constexpr const char* kCalibrateExamples =
    "  tsq calibrate prepared.pt --calib data.pt --output calibrated.pt\n"
    "  tsq calibrate calibrated.pt --calib more.npy --output calibrated2.pt\n\n"
    "Calibration continues where the file left off, so that data can come in several files, one after the "
    "other.";

struct CalibrateOptions {
  std::string model{};
  std::string calib{};
  std::string output{};
  std::string method{"forward"};
};

void run_calibrate(const CalibrateOptions& options, const Session& session) {
  OutputFiles files({options.model, options.calib});
  files.claim(options.output);
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
  if (session.speaks_text()) {
    std::cout << fmt::format("'{}' calibrated on {} samples: '{}'\n", options.model, samples.size(),
                             options.output);
  }
  print_json(session, {{"model", options.model},
                       {"output", options.output},
                       {"samples", samples.size()},
                       {"steps", seconds_json(steps.seconds())}});
}

}  // namespace

void add_calibrate(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, session, "calibrate", kCalibrateSummary, kCalibrateExamples);
  const auto options = std::make_shared<CalibrateOptions>();
  command->add_option("PREPARED.pt", options->model, "A model from 'tsq prepare'")->required()->type_name("");
  command->add_option("--calib", options->calib, "Calibration data, as for 'tsq quantize'")
      ->required()
      ->type_name("DATA.pt");
  command
      ->add_option("--method", options->method,
                   "The method to run on the samples, which are its arguments (default: forward)")
      ->type_name("NAME");
  command->add_option("-o,--output", options->output, "The calibrated model to write")
      ->required()
      ->type_name("CALIBRATED.pt");
  command->callback(
      [options, &session] { session.action = [options, &session] { run_calibrate(*options, session); }; });
}

}  // namespace tsq::cli
