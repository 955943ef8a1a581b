#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>
#include <torch/serialize.h>
#include <tsq/agreement.h>
#include <tsq/data.h>
#include <tsq/engines.h>
#include <tsq/error.h>
#include <tsq/files.h>
#include <tsq/runner.h>
#include <tsq/try_load.h>

#include <nlohmann/json.hpp>

#include "base/libtorch_error.h"
#include "base/text_table.h"
#include "cli/commands/commands.h"
#include "cli/printing/json_list.h"
#include "cli/printing/progress.h"
#include "cli/process/model_file.h"
#include "cli/process/options.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kRunHelp{
    .name = "run",
    .summary = "Run a model on data, as fast as LibTorch can",
    .examples =
        "  tsq run model.int8.pt --data test.pt --output results.pt\n"
        "  tsq run model.int8.pt --data test.npy --threads 2 --channels-last --json\n\n"
        "What tsq::Runner does in a program of yours: the engine that the file names is set before its "
        "weights are\n"
        "packed, freed memory stays in the process, and no gradients are kept."};

using nlohmann::json;

struct RunOptions {
  std::string model{};
  std::string data{};
  std::string output{};
  bool channels_last{false};
};

Runner runner_of(const RunOptions& options, const Session& session) {
  check_model_file(options.model);
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
    throw run_error(fmt::format("model '{}'", path), number, error);
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
  return json_list(tensors_of(result), [](const auto& named) -> json {
    const auto& [name, tensor] = named;
    return {{"name", name}, {"dtype", c10::toString(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}};
  });
}

std::string text_of_run(const json& value) {
  std::vector<std::vector<std::string>> rows{{"first result", "dtype", "shape"}};
  for (const json& tensor : value["outputs"])
    rows.push_back({tensor["name"], tensor["dtype"],
                    fmt::format("{}", fmt::join(tensor["shape"].get<std::vector<int64_t>>(), "x"))});
  return text_table(rows) + fmt::format("{} samples in {:.3f} s, engine {}\n",
                                        value["samples"].get<std::size_t>(), value["seconds"].get<double>(),
                                        value["engine"].get<std::string>());
}

std::string pickled(const c10::impl::GenericList& results, const std::string& path) {
  try {
    // Of a list LibTorch writes the type as well, which torch.load takes for code.
    const std::vector<char> bytes =
        torch::pickle_save(c10::ivalue::Tuple::create({results.begin(), results.end()}));
    return {bytes.begin(), bytes.end()};
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    throw Error(ErrorCode::BadModel,
                fmt::format("what model '{}' returns cannot be written: {}", path, reason_of(error)),
                "return tensors, or lists, tuples and dictionaries of them");
  }
}

void run_model(const RunOptions& options, const Session& session) {
  OutputFiles files(session);
  Runner runner = runner_of(options, session);
  if (!runner.module().find_method("forward")) load_model(options.model);
  tell_devices(options.model, foreign_devices(options.model), session);
  const std::vector<Sample> samples = load_samples(options.data, runner.module());
  Steps steps(session);
  const c10::impl::GenericList results = steps.run(
      "run", [&](const Progress& progress) { return results_of(runner, samples, options.model, progress); });
  const json value = {{"samples", samples.size()},
                      {"seconds", steps.seconds().front().second},
                      {"engine", engine_name(runner.engine())},
                      {"outputs", tensors_in(results.get(0))}};
  if (!options.output.empty()) {
    files.write_text(options.output, pickled(results, options.model));
    files.commit();
  }
  print_result(session, text_of_run(value), value);
}

void add_run_options(const Command& command, RunOptions& options) {
  add_options(
      command,
      {required(input({"MODEL.pt", into(options.model), "A TorchScript file"})),
       required(input({"--data", into(options.data), "Samples, as for 'tsq quantize --calib'", "DATA.pt"})),
       output({"-o,--output", into(options.output),
               "Write the results as a tuple, one for each sample, for torch.load (weights_only=False where "
               "they hold lists or dictionaries)",
               "R.pt"}),
       {"--channels-last", into(options.channels_last),
        "Pass four-dimensional tensors in channels-last order"}});
}

}  // namespace

void add_run(CLI::App& app, Session& session) {
  add_command<RunOptions>(app, session, kRunHelp, add_run_options, run_model);
}

}  // namespace tsq::cli
