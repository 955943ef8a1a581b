#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>
#include <torch/serialize.h>
#include <tsq/agreement.h>
#include <tsq/data.h>
#include <tsq/engines.h>
#include <tsq/error.h>
#include <tsq/runner.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/libtorch_error.h"
#include "cli/commands/commands.h"
#include "cli/printing/progress.h"
#include "cli/printing/text_table.h"
#include "cli/process/model_file.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr const char* kRunSummary = "Run a model on data, as fast as LibTorch can";
constexpr const char* kRunExamples =
    "  tsq run model.int8.pt --data test.pt --output results.pt\n"
    "  tsq run model.int8.pt --data test.npy --threads 2 --channels-last --json\n\n"
    "What tsq::Runner does in a program of yours: the engine that the file names is set before its weights "
    "are\n"
    "packed, freed memory stays in the process, and no gradients are kept.";

using nlohmann::json;

struct RunOptions {
  std::string model{};
  std::string data{};
  std::string output{};
  bool channels_last{false};
};

Runner runner_of(const RunOptions& options, const Session& session) {
  try {
    return Runner(options.model,
                  {.threads = session.threads, .keep_memory = true, .channels_last = options.channels_last});
  } catch (const std::exception&) {
    load_model(options.model);  // says what is wrong with the file
    throw;
  }
}

at::IValue result_of(Runner& runner, const Sample& sample, const std::string& path, std::size_t number) {
  try {
    return runner(sample);
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    throw Error(ErrorCode::BadData,
                fmt::format("model '{}' cannot run on sample {}: {}", path, number, reason_of(error)));
  }
}

c10::impl::GenericList results_of(Runner& runner, const std::vector<Sample>& samples, const std::string& path,
                                  const Progress& progress) {
  c10::impl::GenericList results(c10::AnyType::get());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    results.push_back(result_of(runner, samples[i], path, i));
    progress(i + 1, samples.size());
  }
  return results;
}

/// The tensors in the first result.
json tensors_in(const at::IValue& result) {
  json tensors = json::array();
  for (const auto& [name, tensor] : tensors_of(result))
    tensors.push_back(
        {{"name", name}, {"dtype", c10::toString(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}});
  return tensors;
}

void print_text(const json& value) {
  std::vector<std::vector<std::string>> rows{{"first result", "dtype", "shape"}};
  for (const json& tensor : value["outputs"])
    rows.push_back({tensor["name"], tensor["dtype"],
                    fmt::format("{}", fmt::join(tensor["shape"].get<std::vector<int64_t>>(), "x"))});
  std::cout << text_table(rows);
  std::cout << fmt::format("{} samples in {:.3f} s, engine {}\n", value["samples"].get<std::size_t>(),
                           value["seconds"].get<double>(), value["engine"].get<std::string>());
}

void run_model(const RunOptions& options, const Session& session) {
  OutputFiles files({options.model, options.data});
  if (!options.output.empty()) files.claim(options.output);
  Runner runner = runner_of(options, session);
  if (!runner.module().find_method("forward")) load_model(options.model);
  tell_devices(options.model, foreign_devices(options.model), session);
  const std::vector<Sample> samples = load_samples(options.data, runner.module());
  Steps steps(session);
  const c10::impl::GenericList results = steps.run(
      "run", [&](const Progress& progress) { return results_of(runner, samples, options.model, progress); });
  if (!options.output.empty()) {
    const std::vector<char> bytes = torch::pickle_save(results);
    files.write_text(options.output, {bytes.begin(), bytes.end()});
    files.commit();
  }
  const json value = {{"samples", samples.size()},
                      {"seconds", steps.seconds().front().second},
                      {"engine", engine_name(runner.engine())},
                      {"outputs", tensors_in(results.get(0))}};
  if (session.speaks_text()) print_text(value);
  print_json(session, value);
}

}  // namespace

void add_run(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, session, "run", kRunSummary, kRunExamples);
  const auto options = std::make_shared<RunOptions>();
  command->add_option("MODEL.pt", options->model, "A TorchScript file")->required()->type_name("");
  command->add_option("--data", options->data, "Samples, as for 'tsq quantize --calib'")
      ->required()
      ->type_name("DATA.pt");
  command
      ->add_option("-o,--output", options->output,
                   "Write the results as a list, one for each sample, for torch.load")
      ->type_name("R.pt");
  command->add_flag("--channels-last", options->channels_last,
                    "Pass four-dimensional tensors in channels-last order");
  command->callback(
      [options, &session] { session.action = [options, &session] { run_model(*options, session); }; });
}

}  // namespace tsq::cli
