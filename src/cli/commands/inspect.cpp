#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/files.h>
#include <tsq/runtime_library.h>
#include <tsq/train.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/quantized_operator.h"
#include "cli/commands/commands.h"
#include "cli/printing/json_list.h"
#include "cli/printing/plan_text.h"
#include "cli/printing/texts.h"
#include "cli/process/model_facts.h"
#include "cli/process/model_file.h"
#include "cli/process/options.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kInspectHelp{
    .name = "inspect",
    .summary = "Show the contents of a TorchScript file and the engines that it works with",
    .examples =
        "  tsq inspect model.int8.pt\n"
        "  tsq inspect model.int8.pt --json | jq .engines"};

struct InspectOptions {
  std::string model{};
  std::string plan_output{};
};

using nlohmann::json;

json to_json(const Amount& amount) {
  return {{"count", amount.count}, {"numbers", amount.numbers}, {"bytes", amount.bytes}};
}

json to_json(const ProgramFacts& programs) {
  return {{"count", programs.count},
          {"constants", to_json(programs.constants)},
          {"operations", programs.operations},
          {"float_operations", programs.float_operations}};
}

/// Of the engine that the file was made for there is none: lowering has taken care.
std::string doubt_of(const EngineFit& fit, const json& metadata) {
  const bool is_own = metadata.is_object() && metadata.value("engine", json()) == fit.engine;
  return is_own || !fit.refusal.empty() ? std::string() : fit.doubt;
}

json to_json(const ModelFile& model, const ModelFacts& facts, json metadata,
             const std::optional<Plan>& plan) {
  if (plan) metadata["plan"] = plan->to_dict();
  const json engines = json_list(facts.engines, [&](const EngineFit& fit) -> json {
    return {{"engine", fit.engine},
            {"works", fit.refusal.empty()},
            {"reason", fit.refusal},
            {"doubt", doubt_of(fit, metadata)}};
  });
  return {{"path", model.path},
          {"bytes", model.bytes},
          {"methods", facts.methods},
          {"parameters", to_json(facts.parameters)},
          {"buffers", to_json(facts.buffers)},
          {"other_tensors", to_json(facts.other_tensors)},
          {"packed_weights", to_json(facts.packed_weights)},
          {"programs", to_json(facts.programs)},
          {"operators", facts.operators},
          {"engines", engines},
          {"devices", model.devices},
          {"tsq", metadata}};
}

std::string amount_text(const Amount& amount, std::string_view noun) {
  return fmt::format("{} {}, {} numbers, {}", amount.count, noun, amount.numbers,
                     readable_size(amount.bytes));
}

/// The most frequent first.
std::string counts_text(std::vector<std::pair<std::string, std::size_t>> counts) {
  std::ranges::stable_sort(counts, std::ranges::greater(), [](const auto& entry) { return entry.second; });
  std::string text;
  for (const auto& [name, count] : counts) text += fmt::format("    {:>5}  {}\n", count, name);
  return text;
}

/// Operators of one kind.
std::string operators_text(const ModelFacts& facts, bool quantized) {
  std::vector<std::pair<std::string, std::size_t>> chosen;
  for (const auto& [name, count] : facts.operators) {
    if (is_quantized_operator(name) == quantized) chosen.emplace_back(name, count);
  }
  return counts_text(std::move(chosen));
}

std::string programs_text(const ProgramFacts& programs) {
  if (programs.count == 0) return {};
  std::string text =
      fmt::format("programs\n  {} fused program{}, for which {} is loaded\n  {}\n  operations\n{}",
                  programs.count, programs.count == 1 ? "" : "s", kRuntimeLibrary,
                  amount_text(programs.constants, "weights, scales and biases"),
                  counts_text({programs.operations.begin(), programs.operations.end()}));
  if (programs.float_operations > 0) {
    text += fmt::format(
        "  {} of these compute{} in float on this processor, whose int8 sums could saturate at 16 bits\n",
        programs.float_operations, programs.float_operations == 1 ? "s" : "");
  }
  return text;
}

std::string engines_text(const ModelFacts& facts, const json& metadata) {
  if (facts.engines.empty()) return "  any: no operator depends on the quantized engine\n";
  std::string text;
  for (const EngineFit& fit : facts.engines) {
    const std::string doubt = doubt_of(fit, metadata);
    text += !fit.refusal.empty() ? fmt::format("  {:<8} no: {}\n", fit.engine, fit.refusal)
            : doubt.empty()      ? fmt::format("  {:<8} works\n", fit.engine)
                                 : fmt::format("  {:<8} runs, and may be wrong: {}\n", fit.engine, doubt);
  }
  return text;
}

/// The plain facts of the metadata; whole mappings and tables are for --json.
std::string metadata_text(const json& metadata) {
  if (!metadata.is_object()) return "  no record: made by another program, or given back by tsq as it was\n";
  std::string text;
  for (const auto& [key, value] : metadata.items()) {
    if (value.is_structured()) continue;
    text += fmt::format("  {:<8} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

std::string text_of(const ModelFile& model, const ModelFacts& facts, const json& metadata) {
  std::string text = fmt::format("'{}', {}\nmethods\n", model.path, readable_size(model.bytes));
  for (const std::string& method : facts.methods) text += fmt::format("  {}\n", method);
  text += fmt::format("contents\n  {}\n  {}\n", amount_text(facts.parameters, "parameters"),
                      amount_text(facts.buffers, "buffers"));
  if (facts.other_tensors.count > 0)
    text += fmt::format("  {}\n", amount_text(facts.other_tensors, "other tensors"));
  if (facts.packed_weights.count > 0)
    text += fmt::format("  {}\n", amount_text(facts.packed_weights, "packed weights and biases"));
  text += programs_text(facts.programs);
  const std::string quantized = operators_text(facts, true);
  return text + fmt::format("operators of forward\n{}{}  float\n{}engines\n{}tsq\n{}",
                            quantized.empty() ? "" : "  quantized\n", quantized, operators_text(facts, false),
                            engines_text(facts, metadata), metadata_text(metadata));
}

void run_inspect(const InspectOptions& options, const Session& session) {
  const std::string& path = options.model;
  OutputFiles files(session);
  const ModelFile model = load_any(path);
  tell_devices(model, session);
  const ModelFacts facts = model_facts(model.module, path);
  json metadata = read_metadata(path);
  if (metadata.is_null()) metadata = training_metadata(model.module);
  const std::optional<Plan> plan = read_plan(path);
  if (!options.plan_output.empty()) {
    if (!plan)
      throw Error(ErrorCode::BadModel, fmt::format("'{}' holds no plan", path), "give a quantized model");
    files.write_json(options.plan_output, plan->to_dict());
  }
  files.commit();
  print_result(session, text_of(model, facts, metadata) + (plan ? summary_text(*plan) : ""),
               to_json(model, facts, metadata, plan));
}

void add_inspect_options(const Command& command, InspectOptions& options) {
  add_options(command,
              {required(input({"MODEL.pt", into(options.model), "A TorchScript file, float or quantized"})),
               output({"--plan-output", into(options.plan_output),
                       "Write the plan that a quantized model was made by", "P.json"})});
}

}  // namespace

void add_inspect(CLI::App& app, Session& session) {
  add_command<InspectOptions>(app, session, kInspectHelp, add_inspect_options, run_inspect);
}

}  // namespace tsq::cli
