#pragma once

#include <tsq/lowering.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/choices/offers.h"
#include "backends/kernels/float_output_kernels.h"
#include "backends/kernels/target.h"
#include "backends/programs/translation_cache.h"
#include "ir/model.h"
#include "match/matcher.h"
#include "runtime/program/program.h"

namespace tsq::kernels {

/// What an operator may become.
struct Choice {
  std::string kernel{};  ///< LibTorch's, tsq's or a library's; the operator's own name where it runs itself
  ir::Placement placement{ir::Placement::Float};
  Form reads{Form::Float};
  Form returns{Form::Float};
  /// Which rounding of its operands it needs; none: it takes any, or is not in int8.
  std::optional<LoweringForm> form{};
  const ir::Node* with{};  ///< the activation after the operator that the kernel does too; null: none
  std::vector<runtime::Kind> operations{};  ///< of a fused program
  std::optional<double> nanoseconds{};      ///< none: nobody measured it, or nobody asked (timed_choices)
  std::optional<Refusal> refusal{};         ///< none: lowering makes it of an operator that reads these forms
};

/// Whether an operator of a QConfig may become a choice that is in int8.
[[nodiscard]] bool suits(const Choice& choice, const QConfig& qconfig);

/// All that an operator of the calibrated or of the reference graph may become by LibTorch's kernels: the
/// float operator, the float operator between roundings, and what each table of kernels has for it, refused
/// or not.
[[nodiscard]] std::vector<Choice> engine_choices(const Target& target, const ir::Model& model,
                                                 const ir::Node* op);

/// Engine's choices with all else: an operation of a fused program, and the kernels that the program has
/// registered. The model must not change while there is one.
class Catalogue {
 public:
  Catalogue(const Target& target, const ir::Model& model, std::span<const LoweringRow> registered = {});

  [[nodiscard]] std::vector<Choice> choices(const ir::Node* op);
  /// Those that are not the engine's.
  [[nodiscard]] std::vector<Choice> other_choices(const ir::Node* op);
  /// With nanoseconds by the target's profile: of the kernel alone, on one thread, at the largest sizes that
  /// calibration saw. Kernels that the profile does not know, and operators that calibration has not seen,
  /// have none; nor have elementwise operators in programs. What a program can compute it does compute: of
  /// such an operator those of programs alone.
  [[nodiscard]] std::vector<Choice> timed_choices(const ir::Node* op);

 private:
  /// A program reads bytes and floats, and rounds what it returns by the way: what it has, it has in int8 as
  /// well as in float.
  void add_of_programs(const ir::Node* op, std::vector<Choice>& found);
  void add_registered(const ir::Node* op, std::vector<Choice>& found);

  const Target& target_;
  const ir::Model& model_;
  std::span<const LoweringRow> registered_;
  match::Matcher matcher_;
  programs::TranslationCache translations_{};
};

}  // namespace tsq::kernels
