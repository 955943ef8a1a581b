#pragma once

#include <tsq/decision.h>
#include <tsq/fused_program.h>
#include <tsq/unmatched.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tsq {

/// What a pass of the flow took.
struct PassRun {
  std::string name{};
  std::string room{};      ///< its folder: "capture"
  std::string sentence{};  ///< what it does, for people: before → after
  double seconds{0};
  std::size_t changes{0};  ///< graphs (of forward, of other methods, in each step) that it has changed
};

/// The decision report: one entry per operator, in graph order.
struct Report {
  std::vector<Decision> decisions{};
  /// Layers whose observers saw no data by the time of convert: their qparams are scale 1, zero point 0.
  std::vector<std::string> unobserved_layers{};
  /// Entries of the user's mapping without effect; entries of PyTorch's default mappings are left out.
  std::vector<UnmatchedEntry> unmatched_entries{};
  std::vector<UnmatchedLowering> unmatched_lowering{};
  /// Files of Python source that a trace names, that are here and that were read because PrepareOptions::
  /// python_source asks for it: what they say of how operators are written counts as if the model had been
  /// scripted.
  std::vector<std::string> python_files{};
  std::vector<FusedProgram> programs{};  ///< of a model that was lowered for the fused target
  /// The passes that have run, in order. No part of to_json, which is the same for the same input.
  std::vector<PassRun> passes{};
  [[nodiscard]] nlohmann::json to_json() const;
  /// Text for people: a summary, a table of the operators by module, then the float operators with the change
  /// that would quantize them.
  [[nodiscard]] std::string to_text() const;
};

/// Sums over the operators that compute with tensors.
struct Totals {
  std::size_t operators{0};
  std::size_t quantized{0};
  std::size_t in_kernels{0};
  std::size_t without_tensors{0};  ///< the other ones
  bool has_macs{false};
  int64_t macs{0};
  int64_t int8_macs{0};                                ///< of operators that compute in int8
  std::map<std::string, int64_t> small_weight_macs{};  ///< of other quantized ones, by Decision::weights
  bool has_seconds{false};
  double seconds{0};
  double int8_seconds{0};

  /// Of the operators that compute in int8.
  [[nodiscard]] double macs_share() const;
  /// Of all that are quantized.
  [[nodiscard]] double quantized_macs_share() const;
  /// "60.0 % of the work in int8, 40.0 % with 4-bit weights", where `work` is "the work".
  [[nodiscard]] std::string macs_text(std::string_view work) const;
  [[nodiscard]] double seconds_share() const;
};

Totals totals(const Report& report);

}  // namespace tsq
