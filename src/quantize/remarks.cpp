// What is a warning, what is a note.

#include "quantize/remarks.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "backends/kernels/machine_profile.h"
#include "base/binomial.h"
#include "base/wilson.h"
#include "io/archive.h"
#include "trial/gains.h"

namespace tsq::detail {
namespace {

constexpr double kHardly = 0.1;  // of the work

bool left_float_for_speed_or_size(const Quantized& quantized) {
  return std::ranges::any_of(quantized.left_float,
                             [](const LeftFloat& left) { return left.cause != LeftFloatCause::Fault; });
}

bool is_hardly_quantized(const Totals& sums) {
  return sums.macs > 0 && sums.quantized_macs_share() < kHardly;
}

double growth_of(const Quantized& quantized, uint64_t float_bytes) {
  return static_cast<double>(quantized.trial.bytes) / static_cast<double>(std::max<uint64_t>(1, float_bytes));
}

/// The record that tsq writes into a file; empty where there is none.
std::string record_of(const torch::jit::Module& module) {
  return module.hasattr(io::kMetadataAttribute) ? module.attr(io::kMetadataAttribute).toStringRef()
                                                : std::string();
}

// Remedies name the option of the command, and the member of QuantizeOptions that it sets.

/// What it would take for a model that gains nothing to be better.
std::string leaving_remedy(const QuantizeOptions& options) {
  if (options.recipe == Recipe::Fx) return "--recipe best leaves layers float that do not pay";
  if (options.times && !measures_times(options))
    return "without --machine and --target-cpu (machine, target_cpu), times are measured, and layers that do "
           "not pay stay float";
  if (options.force)
    return options.times ? "without --force (force), layers that do not pay stay float"
                         : "without --force and --no-check (force, times), layers that do not pay stay float";
  if (!options.times) return "without --no-check (times = false), layers that do not pay stay float";
  return "deploy the float model";
}

std::string accuracy_remedy(const Quantized& quantized) {
  return quantized.goal && quantized.unseen
             ? "give a higher --min-sqnr (goal.min_sqnr)"
             : "--min-sqnr 20 (goal.min_sqnr) leaves the most costly layers float";
}

std::string nothing_quantized_remedy(const Quantized& quantized, const QuantizeOptions& options) {
  if (quantized.goal && !quantized.goal->search.kept.empty()) return "a lower goal leaves fewer layers float";
  if (options.mode != QuantizeMode::WeightOnly && options.mapping && !options.mapping->global_qconfig())
    return "the mapping has no entry \"\" for everything, 'tsq qconfig show best_x86' prints one to begin "
           "with; "
           "'tsq explain' says what else there is to change";
  return "'tsq explain' says why";
}

constexpr const char* kDecisionsRemedy =
    "--min-agreement 0.99 (goal.min_agreement) leaves the layers float that decide";

/// Whether decisions go wrong in an output for more than a few near ties, by what so many rows can tell.
std::optional<Remark> remark_on(const OutputTrial& output, const char* by_whom) {
  // What a search by a score of one's own allows (QuantizeGoal::max_drop).
  constexpr double kManyLost = 0.01;
  // A tie takes a step of the output that is larger than the margin of a clear decision. One such row in 20
  // is none too many for a result that is right.
  constexpr double kManyTies = 0.05;
  const auto share = [](uint64_t rows, const Decisions& of) {
    return static_cast<double>(rows) / static_cast<double>(of.rows);
  };
  const Decisions& clear = output.decisions.clear;
  if (clear.rows > 0 && wilson_95(clear.tied, clear.rows).low > kManyTies)
    return Remark{.kind = RemarkKind::TiedDecisions,
                  .figure = share(clear.tied, clear),
                  .text = output.name + by_whom,
                  .remedy = kDecisionsRemedy};
  const Decisions& all = output.decisions.all;
  if (!is_more_than(all.lost(), all.rows, kManyLost)) return std::nullopt;
  return Remark{.kind = RemarkKind::OtherDecisions,
                .figure = share(all.lost(), all),
                .text = fmt::format("{} of {} of {}, {} of them ties{}", all.lost(), all.rows, output.name,
                                    all.tied, by_whom),
                .remedy = kDecisionsRemedy};
}

/// Of outputs whose decisions go wrong in one of the trials, the first that shows it.
std::vector<Remark> remarks_on_decisions(const Quantized& quantized) {
  std::vector<Remark> remarks;
  for (const OutputTrial& output : quantized.trial.outputs) {
    std::optional<Remark> remark = remark_on(output, "");
    if (!remark && quantized.unseen) {
      const auto unseen = std::ranges::find(quantized.unseen->outputs, output.name, &OutputTrial::name);
      if (unseen != quantized.unseen->outputs.end())
        remark = remark_on(*unseen, ", by a model calibrated on other samples");
    }
    if (remark) remarks.push_back(*std::move(remark));
  }
  return remarks;
}

/// The name of the worst output where there are several.
std::string worst_output(const Trial& trial) {
  return trial.outputs.size() < 2 ? std::string() : trial.worst_output()->name;
}

/// What the file and the times disappoint in.
void remark_on_gains(const Quantized& quantized, double growth, const QuantizeOptions& options,
                     std::vector<Remark>& warnings) {
  const std::string remedy = leaving_remedy(options);
  const bool is_slower = quantized.latency && quantized.latency->is_slower();
  const bool is_hardly_faster = !quantized.latency || quantized.latency->is_hardly_faster();
  if (is_slower)
    warnings.push_back({.kind = RemarkKind::Slower, .figure = quantized.latency->ratio, .remedy = remedy});
  if (quantized.is_float_model || quantized.trial.bytes == 0) return;
  if (growth > kLarger) {
    warnings.push_back({.kind = RemarkKind::Larger, .figure = growth, .remedy = remedy});
  } else if (growth > kSmaller && is_hardly_faster && !is_slower) {
    warnings.push_back({.kind = RemarkKind::LittleGained,
                        .figure = growth,
                        .text = quantized.latency && quantized.latency->has_interval()
                                    ? fmt::format("{:.2f} of its speed", quantized.latency->ratio)
                                    : "a speed that was not measured",
                        .remedy = remedy});
  }
}

std::vector<Remark> warnings_of(const Quantized& quantized, uint64_t float_bytes, const Totals& sums,
                                const QuantizeOptions& options) {
  // What tells most of data that the model has not seen.
  const Trial& trial = quantized.unseen ? *quantized.unseen : quantized.trial;
  if (trial.fault) return {{.kind = RemarkKind::Fails, .text = trial.fault->text}};
  std::vector<Remark> warnings;
  if (trial.sqnr_db && *trial.sqnr_db < kPoorDb) {
    warnings.push_back({.kind = RemarkKind::PoorSqnr,
                        .figure = *trial.sqnr_db,
                        .text = worst_output(trial),
                        .remedy = accuracy_remedy(quantized)});
  } else if (const auto expected = trial.expected_db(); expected && *expected < kPoorDb) {
    warnings.push_back(
        {.kind = RemarkKind::MayBePoorSqnr, .figure = *expected, .remedy = accuracy_remedy(quantized)});
  }
  std::ranges::move(remarks_on_decisions(quantized), std::back_inserter(warnings));
  remark_on_gains(quantized, growth_of(quantized, float_bytes), options, warnings);
  if (left_float_for_speed_or_size(quantized)) return warnings;
  if (quantized.is_float_model) {
    warnings.push_back(
        {.kind = RemarkKind::NothingQuantized, .remedy = nothing_quantized_remedy(quantized, options)});
  } else if (is_hardly_quantized(sums)) {
    warnings.push_back({.kind = RemarkKind::HardlyQuantized,
                        .figure = sums.quantized_macs_share(),
                        .remedy = quantized.goal ? "a lower goal leaves fewer layers float"
                                                 : "'tsq explain' says what to change"});
  }
  return warnings;
}

std::size_t unbounded_layers(const Report& report) {
  std::size_t layers = 0;
  for (const FusedProgram& program : report.programs) layers += program.unbounded_layers;
  return layers;
}

/// Predictions of two targets differ by less than that by chance.
constexpr double kClearlyFaster = 0.9;

std::optional<Remark> faster_elsewhere(const Quantized& quantized) {
  const std::vector<TargetPrediction>& targets = quantized.elsewhere;
  const auto own = std::ranges::find(targets, quantized.target, &TargetPrediction::target);
  if (own == targets.end() || own == targets.begin()) return std::nullopt;
  const double share = targets.front().prediction.seconds / own->prediction.seconds;
  if (share > kClearlyFaster) return std::nullopt;
  const bool is_fused = targets.front().target.runtime == LoweringTarget::Fused;
  return Remark{.kind = RemarkKind::FasterElsewhere,
                .figure = share,
                .text = to_string(targets.front().target),
                .remedy = is_fused ? "the result then needs libtsq_runtime" : ""};
}

/// What is as it should be, and still worth knowing.
std::vector<Remark> notes_of(const Quantized& quantized, uint64_t float_bytes, const Totals& sums,
                             const QuantizeOptions& options) {
  constexpr std::size_t kTellRanges = 19;  // one more exceeds the ranges of n in one of n + 1 cases
  std::vector<Remark> notes;
  if (left_float_for_speed_or_size(quantized)) {
    if (quantized.is_float_model) {
      notes.push_back({.kind = RemarkKind::FloatPays});
    } else if (is_hardly_quantized(sums)) {
      notes.push_back({.kind = RemarkKind::MostlyFloatPays, .figure = sums.quantized_macs_share()});
    }
  }
  if (quantized.search_ended_early)
    notes.push_back({.kind = RemarkKind::SearchEnded, .remedy = "--effort high (effort) goes on"});
  const double growth = growth_of(quantized, float_bytes);
  if (quantized.is_float_model && growth > kLarger)
    notes.push_back({.kind = RemarkKind::FloatGrew, .figure = growth, .text = record_of(quantized.module())});
  if (const std::size_t layers = unbounded_layers(quantized.report());
      layers > 0 && !quantized.is_float_model)
    notes.push_back({.kind = RemarkKind::FloatWithoutVnni,
                     .figure = static_cast<double>(layers),
                     .remedy = "--target-cpu without-vnni (target_cpu) chooses weights for it"});
  const auto machine = kernels::profile_of({.cpu = options.target_cpu, .machine = options.machine});
  if (machine->is_estimated)
    notes.push_back({.kind = RemarkKind::EstimatedTimes,
                     .text = machine->name,
                     .remedy = "'tsq tune' measures them on such a machine, for --machine (machine)"});
  if (auto faster = faster_elsewhere(quantized)) notes.push_back(*std::move(faster));
  if (options.lowers && options.times && !measures_times(options))
    notes.push_back({.kind = RemarkKind::NotTimed,
                     .remedy = "without --machine and --target-cpu (machine, target_cpu) they are"});
  if (quantized.goal && quantized.unseen && quantized.unseen->samples < kTellRanges)
    notes.push_back(
        {.kind = RemarkKind::FewSamples, .figure = static_cast<double>(quantized.unseen->samples)});
  return notes;
}

}  // namespace

void add_remarks(Quantized& quantized, uint64_t float_bytes, const QuantizeOptions& options) {
  const Totals sums = totals(quantized.report());
  quantized.warnings = warnings_of(quantized, float_bytes, sums, options);
  quantized.notes = notes_of(quantized, float_bytes, sums, options);
}

}  // namespace tsq::detail
