#include <torch/script.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/configuration.h"
#include "cli/model_file.h"
#include "cli/progress.h"

namespace tsq::cli {
namespace {

constexpr const char* kSummary =
    "Say which operators would be quantized and why the others would not, without doing it";
constexpr const char* kExamples =
    "  tsq explain model.pt --backend fbgemm\n"
    "  tsq explain model.pt --qconfig q.json --json";

struct ExplainOptions {
  std::string model{};
  ConfigurationOptions configuration{};
};

void run_explain(const ExplainOptions& options, const Session& session) {
  const Configuration chosen = configuration(options.configuration);
  Steps steps(session);
  const ModelFile model = steps.run("load", [&](const Progress&) { return load_float_model(options.model); });
  const Prepared prepared = steps.run("prepare", [&](const Progress&) {
    return prepare(model.module, chosen.mapping, chosen.backend, chosen.custom, chosen.equalization,
                   chosen.recipe);
  });
  if (session.speaks_text()) std::cout << prepared.report().to_text();
  print_json(session, prepared.report().to_json());
}

}  // namespace

void add_explain(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, session, "explain", kSummary, kExamples);
  const auto options = std::make_shared<ExplainOptions>();
  command->add_option("MODEL.pt", options->model, "The float model, a TorchScript file")
      ->required()
      ->type_name("");
  add_configuration_options(*command, options->configuration);
  command->callback(
      [options, &session] { session.action = [options, &session] { run_explain(*options, session); }; });
}

}  // namespace tsq::cli
