// The sentences of remarks.

#include <fmt/format.h>
#include <tsq/quantize_model.h>

#include "base/figures.h"

namespace tsq {
namespace {

std::string problem_of(const Remark& remark) {
  const double percent = 100 * remark.figure;
  switch (remark.kind) {
    case RemarkKind::Fails:
      return fmt::format("written by --force though it fails: {}", remark.text);
    case RemarkKind::PoorSqnr:
      return fmt::format("SQNR{} is {}, under 20 dB",
                         remark.text.empty() ? "" : fmt::format(" of {}", remark.text),
                         sqnr_db_text(remark.figure));
    case RemarkKind::MayBePoorSqnr:
      return fmt::format("SQNR may be {} on other samples, under 20 dB", sqnr_db_text(remark.figure));
    case RemarkKind::OtherDecisions:
      return fmt::format("{:.1f} % of the decisions are others than in float or ties ({})", percent,
                         remark.text);
    case RemarkKind::TiedDecisions:
      return fmt::format("in {:.0f} % of the rows of {} in which float decides clearly int8 has a tie",
                         percent, remark.text);
    case RemarkKind::Slower:
      return fmt::format("slower than float, {:.2f} of its speed", remark.figure);
    case RemarkKind::Larger:
      return fmt::format("larger than float, {:.0f} % of its file", percent);
    case RemarkKind::NothingQuantized:
      return "nothing is quantized, the result computes in float";
    case RemarkKind::HardlyQuantized:
      return fmt::format("only {:.1f} % of the work is quantized", percent);
    case RemarkKind::LittleGained:
      return fmt::format("little is gained, {:.0f} % of the float file and {}", percent, remark.text);
    case RemarkKind::FloatPays:
      return "int8 does not pay for this model on this machine: nothing is quantized, the result computes in "
             "float";
    case RemarkKind::MostlyFloatPays:
      return fmt::format("{:.1f} % of the work is quantized: for the rest it does not pay on this machine",
                         percent);
    case RemarkKind::SearchEnded:
      return "the search for layers that do not pay took as long as calibration and conversion, and ended "
             "before it had looked at each";
    case RemarkKind::FloatGrew:
      return fmt::format(
          "the file has {:.0f} % of the float file's bytes: {} of it are the record that tsq writes, "
          "whatever "
          "the model's size",
          percent, readable_size(remark.text.size()));
    case RemarkKind::FloatWithoutVnni:
      return fmt::format(
          "{:.0f} layer{} would compute in float on a processor without VNNI, whose int8 sums could saturate",
          remark.figure, remark.figure == 1 ? "" : "s");
    case RemarkKind::EstimatedTimes:
      return fmt::format("the times of kernels in profile '{}' are estimated", remark.text);
    case RemarkKind::FasterElsewhere:
      return fmt::format("with {} it is predicted to take {:.2f} times as long", remark.text, remark.figure);
    case RemarkKind::NotTimed:
      return "a processor is named, so that no times were measured, and nothing stayed float because it does "
             "not pay";
    case RemarkKind::FewSamples:
      break;
  }
  return fmt::format(
      "one of {:.0f} further samples has values outside of the ranges of {:.0f}: more would make the goal "
      "more certain",
      remark.figure + 1, remark.figure);
}

}  // namespace

std::string to_string(const Remark& remark) {
  return remark.remedy.empty() ? problem_of(remark)
                               : fmt::format("{}: {}", problem_of(remark), remark.remedy);
}

}  // namespace tsq
