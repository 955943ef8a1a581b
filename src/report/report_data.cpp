// What a report shows, as JSON.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/backends.h>
#include <tsq/bench/profile.h>
#include <tsq/compare_layers.h>
#include <tsq/engine_lock.h>
#include <tsq/engines.h>
#include <tsq/error.h>
#include <tsq/report_page.h>
#include <tsq/trial.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/kernels/engine_packing.h"
#include "base/attribute_name.h"
#include "base/json_number.h"
#include "base/libtorch_error.h"
#include "ir/define_method.h"
#include "operators/can_be_frozen.h"
#include "report/operator_graph.h"
#include "trial/captured.h"
#include "trial/reloaded.h"

namespace tsq {
namespace {

using detail::finite_or_null;
using nlohmann::json;
using torch::jit::Module;

/// What two equal tensors have is no number of JSON; the page reads this word as infinity.
json decibels_json(std::optional<double> decibels) {
  return decibels && std::isinf(*decibels) && *decibels > 0 ? json("infinite") : finite_or_null(decibels);
}

/// A model in the form in which its times are taken: a float model is frozen, where LibTorch can do that,
/// since an int8 model has its batch norms folded as well.
struct Ran {
  Module module;
  std::optional<Module> unfrozen{};
  bench::Profile profile{};
  std::vector<report::RunOperator> operators{};
};

Ran ran(const ReportedModel& model, bool is_float, const Sample& sample, std::size_t rounds) {
  Ran result{.module = *model.module};
  if (is_float && operators::can_be_frozen(*model.module)) {
    try {
      Module in_eval = model.module->copy();
      in_eval.eval();
      result.module = torch::jit::freeze(in_eval);
      ir::own_call_stacks(result.module);
      result.unfrozen = in_eval;
    } catch (const std::exception& error) {
      rethrow_out_of_memory(error);
    }
  }
  const Module* unfrozen = result.unfrozen ? &*result.unfrozen : nullptr;
  try {
    result.profile = bench::profile(result.module, model.engine, sample, rounds, unfrozen);
    result.operators = report::operators_of_run(result.module, model.engine, sample, unfrozen);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw run_error(fmt::format("model '{}'", model.name), "the first sample", error);
  }
  return result;
}

/// For each operator the row that tells of it, or null. What follows a layer may have its row, but no name of
/// its own; LibTorch's optimizer may have changed how many operators of a kind there are.
std::vector<const LayerComparison*> rows_of(const std::vector<report::RunOperator>& operators,
                                            const std::vector<LayerComparison>& rows) {
  std::map<std::pair<std::string, std::size_t>, const LayerComparison*> by_kind;
  for (const LayerComparison& row : rows) by_kind.emplace(std::pair(row.kernel, row.occurrence), &row);
  std::map<std::string, std::size_t> seen;
  std::vector<const LayerComparison*> found;
  for (const report::RunOperator& op : operators) {
    const auto row = by_kind.find({op.kind, seen[op.kind]++});
    const bool is_of_it =
        row != by_kind.end() &&
        (!row->second->weight_sqnr_db || attribute_name(op.layer) == attribute_name(row->second->layer));
    found.push_back(is_of_it ? row->second : nullptr);
  }
  return found;
}

using Seconds = std::vector<std::optional<double>>;

/// Times of a program's operations, the operators from `begin` on. A step that is none of them, as a change
/// of layout, belongs to the operation before it; an operation without a step is part of another one's
/// kernel.
void add_steps(const std::vector<bench::OperatorTime>& steps,
               const std::vector<report::RunOperator>& operators, std::size_t begin, Seconds& seconds) {
  std::size_t end = begin;
  while (end < operators.size() && operators[end].program == operators[begin].program) ++end;
  std::vector<std::size_t> found(operators.size());  // steps of the kind of each
  std::size_t last = begin;
  for (const bench::OperatorTime& step : steps) {
    for (std::size_t i = begin; i < end; ++i) {
      const bool has_all = found[i] == operators[i].steps;
      if (has_all || operators[i].kind != step.kind || operators[i].layer != step.layer) continue;
      ++found[i];
      last = i;
      break;
    }
    seconds[last] = seconds[last].value_or(0) + step.seconds;
  }
}

/// The time of each operator; empty where the two runs differ: times belong to nothing then.
Seconds seconds_of(const Ran& model) {
  Seconds seconds(model.operators.size());
  std::size_t next = 0;
  for (const bench::OperatorTime& time : model.profile.operators) {
    const bool is_program = !time.steps.empty();
    if (next >= model.operators.size() || is_program != model.operators[next].program.has_value() ||
        (!is_program && model.operators[next].kind != time.kind))
      return Seconds(model.operators.size());
    if (!is_program) {
      seconds[next++] = time.seconds;
      continue;
    }
    add_steps(time.steps, model.operators, next, seconds);
    const auto program = model.operators[next].program;
    while (next < model.operators.size() && model.operators[next].program == program) ++next;
  }
  return next == model.operators.size() ? seconds : Seconds(model.operators.size());
}

json operators_json(const Ran& model, const std::vector<LayerComparison>& rows) {
  const Seconds seconds = seconds_of(model);
  const std::vector<const LayerComparison*> found = rows_of(model.operators, rows);
  json operators = json::array();
  for (std::size_t i = 0; i < model.operators.size(); ++i) {
    const report::RunOperator& op = model.operators[i];
    const LayerComparison* row = found[i];
    json entry{{"id", i},
               {"kind", op.kind},
               {"layer", row != nullptr && row->layer != kModelItself ? row->layer : op.layer},
               {"inputs", op.inputs},
               {"shape", op.shape},
               {"numbers", to_string(op.numbers)}};
    entry["seconds"] = seconds[i] ? json(*seconds[i]) : json(nullptr);
    entry["sqnr_db"] = row != nullptr ? decibels_json(row->sqnr_db) : json(nullptr);
    entry["alone_sqnr_db"] = row != nullptr ? decibels_json(row->alone_sqnr_db) : json(nullptr);
    operators.push_back(std::move(entry));
  }
  return operators;
}

json histogram_json(const std::optional<ValueHistogram>& histogram) {
  return histogram ? histogram->to_json() : json(nullptr);
}

/// The rows of the comparison with the times of their layers. The first row of a layer has them.
json layers_json(const ComparedLayers& compared, const Ran& exact, const Ran& int8) {
  std::map<std::string, bench::ProfileRow> times;
  for (const bench::ProfileRow& row : bench::by_layer({exact.profile, int8.profile}))
    times.emplace(attribute_name(row.name), row);
  json layers = json::array();
  for (const LayerComparison& row : compared.rows) {
    json entry = row.to_json();
    entry["sqnr_db"] = decibels_json(row.sqnr_db);
    entry["alone_sqnr_db"] = decibels_json(row.alone_sqnr_db);
    entry["weight_sqnr_db"] = decibels_json(row.weight_sqnr_db);
    entry["activation"] = histogram_json(row.values);
    entry["weight"] = histogram_json(row.weights);
    if (const auto time = times.extract(attribute_name(row.layer))) {
      entry["float_seconds"] = time.mapped().seconds.front();
      entry["seconds"] = time.mapped().seconds.back();
    }
    layers.push_back(std::move(entry));
  }
  return layers;
}

json decision_json(const Decision& decision) {
  return {{"node", decision.node},
          {"layer", decision.layer},
          {"operator", decision.op},
          {"quantized", decision.quantized},
          {"kernel", decision.kernel},
          {"reason", decision.reason},
          {"remedy", decision.remedy},
          {"qconfig", decision.qconfig},
          {"qconfig_source", decision.qconfig_source},
          {"notes", notes_of(decision)}};
}

json decisions_json(const std::vector<Decision>& decisions) {
  json all = json::array();
  for (const Decision& decision : decisions) {
    if (decision.on_tensors) all.push_back(decision_json(decision));
  }
  return all;
}

json advice_json(const std::vector<Finding>& findings) {
  json all = json::array();
  for (const Finding& finding : findings) {
    json entry{{"layer", finding.layer},
               {"finding", fmt::format("{}: {}", to_string(finding.detector), finding.to_text())},
               {"figures", fmt::format("{:.2f}, limit {:.2f}", finding.figure, finding.limit)},
               {"advice", finding.advice()}};
    if (finding.advises_qconfig)
      entry["mapping"] = advised_qconfigs(QConfigMapping(), std::span(&finding, 1)).to_dict();
    all.push_back(std::move(entry));
  }
  return all;
}

json latency_json(const LatencyComparison& latency) {
  json result{{"median_seconds", latency.int8_seconds}, {"float_seconds", latency.float_seconds}};
  const bool has_ratio = latency.has_interval();
  result["ratio"] = has_ratio ? json(latency.ratio) : json(nullptr);
  result["ratio_low"] = has_ratio ? json(latency.ratio_low) : json(nullptr);
  result["ratio_high"] = has_ratio ? json(latency.ratio_high) : json(nullptr);
  return result;
}

/// "agreement" is that of all outputs that are judged as decisions.
json accuracy_json(const Trial& trial) {
  json accuracy{{"sqnr_db", decibels_json(trial.sqnr_db)},
                {"expected_sqnr_db", decibels_json(trial.expected_db())},
                {"outputs", json::array()}};
  JudgedDecisions all;
  for (const OutputTrial& output : trial.outputs) {
    all.add(output.decisions);
    json entry = output.to_json();
    entry["sqnr_db"] = decibels_json(output.sqnr_db);
    entry["text"] = output.decisions.to_text();
    accuracy["outputs"].push_back(std::move(entry));
  }
  const bool has_decisions = all.is_judged() && all.all.rows > 0;
  accuracy["agreement"] = has_decisions ? json(all.all.share()) : json(nullptr);
  accuracy["decisions"] = has_decisions ? all.to_json() : json(nullptr);
  if (trial.fault) accuracy["fault"] = trial.fault->text;
  return accuracy;
}

json facts_json(const ReportedModel& model, const char* role) {
  const auto text_or_null = [](const std::string& text) { return text.empty() ? json(nullptr) : json(text); };
  return {{"name", model.name},
          {"role", role},
          {"bytes", model.bytes},
          {"sha1", model.sha1},
          {"engine", engine_name(model.engine)},
          {"recipe", text_or_null(model.recipe)},
          {"mode", text_or_null(model.mode)},
          {"target", text_or_null(model.target)}};
}

ComparedLayers compared_layers(const ReportedModel& exact, const ReportedModel& int8,
                               std::span<const Sample> samples) {
  // As it was loaded: after a frozen copy of it was made, some calls have no names of modules any more.
  const Module loaded = detail::reloaded_with_size(*exact.module, exact.engine).first;
  const EngineHold hold(int8.engine);
  return compare_layers(loaded, *int8.module, samples, {.histograms = true});
}

json int8_json(const ReportedModel& exact, const ReportedModel& int8, const Ran& of_exact,
               std::span<const Sample> samples, const ReportOptions& options) {
  const Ran of_int8 = ran(int8, false, samples.front(), options.rounds);
  const ComparedLayers compared = compared_layers(exact, int8, samples);
  const BackendConfig backend = backend_config(engine_name(int8.engine));
  json model = facts_json(int8, "int8");
  model["operators"] = operators_json(of_int8, compared.rows);
  model["layers"] = layers_json(compared, of_exact, of_int8);
  model["missing_layers"] = compared.to_json()["without_row"];
  model["decisions"] = int8.decisions.empty() ? json(nullptr) : decisions_json(int8.decisions);
  model["advice"] = advice_json(options.findings);
  model["accuracy"] =
      accuracy_json(try_model(*exact.module, *int8.module, backend, samples, options.named_decisions));
  if (options.times)
    model["latency"] = latency_json(compare_latency(*exact.module, *int8.module, backend, samples.front()));
  return model;
}

}  // namespace

json report_data(const ReportedModel& exact, std::span<const ReportedModel> others,
                 std::span<const Sample> samples, const ReportOptions& options) {
  if (samples.empty()) throw Error(ErrorCode::BadData, "a report needs samples", "give at least one");
  const Ran of_exact = ran(exact, true, samples.front(), options.rounds);
  json models = json::array({facts_json(exact, "float")});
  models[0]["operators"] = operators_json(of_exact, {});
  models[0]["layers"] = json::array();
  std::size_t done = 0;
  for (const ReportedModel& int8 : others) {
    models.push_back(int8_json(exact, int8, of_exact, samples, options));
    if (options.progress) options.progress(++done, others.size());
  }
  // The float model's own time, as it was measured beside the first of the others.
  if (options.times && !others.empty())
    models[0]["latency"] = {{"median_seconds", models[1]["latency"]["float_seconds"]}, {"ratio", 1.0}};
  return {{"format", 1}, {"models", std::move(models)}};
}

}  // namespace tsq
