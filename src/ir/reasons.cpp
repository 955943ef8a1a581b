#include "ir/reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/range_when_run.h"

namespace tsq::ir {
namespace {

struct Row {
  Reason reason;
  std::string_view sentence;  ///< {}: the detail
  std::string_view remedy{};
};

constexpr std::string_view kBetween = "computed in float between dequantize and quantize: ";
constexpr std::string_view kUseFx = "nothing, or use --recipe fx";

constexpr std::array kRows{
    // Before calibration.
    Row{Reason::NoReferenceModule, "the table has no reference module for {}", kUseFx},
    Row{Reason::ShortRows, "its rows are so short that a scale for each makes them larger", kUseFx},
    Row{Reason::OfAttention,
        "recipe best computes products of activations, softmax, LayerNorm, GroupNorm and GELU in float",
        kUseFx},
    Row{Reason::WholeAverage,
        "an average of a whole map uses a small part of the map's range, in which the quantized kernel "
        "rounds",
        kUseFx},
    Row{Reason::Amplified,
        "a logarithm, root, reciprocal or division reads it, which is steep where rounding loses small "
        "values",
        kUseFx},
    Row{Reason::FloatAfterLayer,
        "after a layer whose kernel returns float it is as fast in float, and rounds nothing", kUseFx},
    Row{Reason::FilterBank,
        "it is a filter bank that float operators read: its quiet bands would disappear in the rounding",
        kUseFx},
    Row{Reason::Island,
        "it does not lie between quantized operators: rounding its values would cost accuracy and save no "
        "time",
        kUseFx},

    // After it.
    Row{Reason::NotReached, "no calibration sample reached it, so that its ranges are not known",
        "add samples that reach it"},
    Row{Reason::MethodNotReached,
        "method '{}' stays float where no calibration sample reached it and forward does not run the same",
        "calibrate by calling it (--method)"},
    Row{Reason::OfSample, "its kernel takes batches only"},
    Row{Reason::OtherDtype, "its tensors are not float32 (integers, booleans), and only float32 is quantized",
        "nothing where they are integers; otherwise convert its input to float32 in the model"},
    Row{Reason::NonFinite,
        "it hands on NaN or infinity, which int8 does not have, to an operator that looks for them",
        "nothing, or mask by the condition that makes them"},
    Row{Reason::ReadsFloat, "it reads float values that nothing rounds"},
    Row{Reason::Costs, "it costs least in float: {}"},
};

}  // namespace

Explanation explanation_of(Reason reason, std::string_view detail) {
  const auto* const row = std::ranges::find(kRows, reason, &Row::reason);
  if (row == kRows.end()) return {.reason = std::string(detail)};
  return {.reason = fmt::format(fmt::runtime(row->sentence), detail), .remedy = std::string(row->remedy)};
}

std::string range_found_when_run(std::string_view method) {
  if (method.empty()) return fmt::format("{}no calibration sample reached it", kRangeWhenRun);
  return fmt::format(
      "{}no calibration sample reached method '{}', and forward does not run the same; calibrate by calling "
      "it (--method)",
      kRangeWhenRun, method);
}

std::string between_roundings(std::string_view why) { return fmt::format("{}{}", kBetween, why); }

std::string without_roundings(std::string_view sentence) {
  return std::string(sentence.starts_with(kBetween) ? sentence.substr(kBetween.size()) : sentence);
}

}  // namespace tsq::ir
