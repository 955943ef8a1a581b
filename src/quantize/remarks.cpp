// What is a warning, what is a note.

#include "quantize/remarks.h"

#include <algorithm>

#include "trial/finish.h"

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

std::vector<Remark> warnings_of(const Quantized& quantized, uint64_t float_bytes, const Totals& sums) {
  // What tells most of data that the model has not seen.
  const Trial& trial = quantized.unseen ? *quantized.unseen : quantized.trial;
  if (trial.fault) return {{.kind = RemarkKind::Fails, .text = trial.fault->text}};
  std::vector<Remark> warnings;
  if (trial.sqnr_db && *trial.sqnr_db < kPoorDb) {
    warnings.push_back({.kind = RemarkKind::PoorSqnr, .figure = *trial.sqnr_db});
  } else if (const auto expected = trial.expected_db(); expected && *expected < kPoorDb) {
    warnings.push_back({.kind = RemarkKind::MayBePoorSqnr, .figure = *expected});
  }
  if (quantized.latency && quantized.latency->is_slower())
    warnings.push_back({.kind = RemarkKind::Slower, .figure = quantized.latency->ratio});
  const uint64_t bytes = quantized.trial.bytes;
  const double growth = static_cast<double>(bytes) / static_cast<double>(std::max<uint64_t>(1, float_bytes));
  if (bytes > 0 && growth > kLarger && !quantized.is_float_model)
    warnings.push_back({.kind = RemarkKind::Larger, .figure = growth});
  if (left_float_for_speed_or_size(quantized)) return warnings;
  if (quantized.is_float_model) {
    warnings.push_back({.kind = RemarkKind::NothingQuantized});
  } else if (is_hardly_quantized(sums)) {
    warnings.push_back({.kind = RemarkKind::HardlyQuantized, .figure = sums.quantized_macs_share()});
  }
  return warnings;
}

/// What is as it should be, and still worth knowing.
std::vector<Remark> notes_of(const Quantized& quantized, const Totals& sums) {
  constexpr std::size_t kTellRanges = 19;  // one more exceeds the ranges of n in one of n + 1 cases
  std::vector<Remark> notes;
  if (left_float_for_speed_or_size(quantized)) {
    if (quantized.is_float_model) {
      notes.push_back({.kind = RemarkKind::FloatPays});
    } else if (is_hardly_quantized(sums)) {
      notes.push_back({.kind = RemarkKind::MostlyFloatPays, .figure = sums.quantized_macs_share()});
    }
  }
  if (quantized.search_ended_early) notes.push_back({.kind = RemarkKind::SearchEnded});
  if (quantized.goal && quantized.unseen && quantized.unseen->samples < kTellRanges)
    notes.push_back(
        {.kind = RemarkKind::FewSamples, .figure = static_cast<double>(quantized.unseen->samples)});
  return notes;
}

}  // namespace

void add_remarks(Quantized& quantized, uint64_t float_bytes) {
  const Totals sums = totals(quantized.report());
  quantized.warnings = warnings_of(quantized, float_bytes, sums);
  quantized.notes = notes_of(quantized, sums);
}

}  // namespace tsq::detail
