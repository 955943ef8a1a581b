#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/backend_config.h>
#include <tsq/custom_config.h>
#include <tsq/equalization.h>
#include <tsq/lowering.h>
#include <tsq/lowering_options.h>
#include <tsq/plan.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/recipe_options.h>
#include <tsq/sample.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/kernels/target.h"
#include "ir/learned_rounding.h"
#include "noise/noise_by_name.h"
#include "passes/context/names.h"

namespace tsq::passes {

/// The parts of converting that take time, in the order in which they come.
enum class Part { Observer, Layer, Sample };

/// What a pass may know beside the model. What a pass learns for others stands in the model.
struct PassContext {
  torch::jit::Module source{};  ///< the user's model; capture reads it
  BackendConfig table{};
  QConfigMapping mapping{};
  PrepareCustomConfig custom{};
  EqualizationMapping equalization{};
  RecipeOptions options{};
  kernels::Target target{};  ///< engine and processor
  bool trains{false};        ///< the model is prepared for training, or has been trained
  /// Of a standalone module that trains: the mapping of the model around it, in paths of this one, by which
  /// its layers fake-quantize already (QT-19).
  std::optional<QConfigMapping> mapping_around{};

  ConvertCustomConfig convert_custom{};
  std::optional<QConfigMapping> convert_mapping{};    ///< convert's own mapping (K-02)
  std::map<std::string, std::string> kept_float{};    ///< nodes (Decision::node) that stay float, and why
  std::shared_ptr<const Plan> plan{};                 ///< what apply_plan does; null: nothing
  bool plan_is_given{false};                          ///< by the caller of convert: no rule has written it
  std::shared_ptr<const noise::NoiseByName> noise{};  ///< of the calibrated model; null: nobody knows it
  /// Nanoseconds for an error as large as the outputs, in place of the price of a decibel.
  std::optional<double> noise_price{};
  /// Nanoseconds of operators in float, by Decision::node, as they were measured; null: nobody has.
  std::shared_ptr<const std::map<std::string, double>> float_times{};
  std::shared_ptr<ir::LearnedRoundings> roundings{};  ///< of earlier conversions; null: none is kept
  bool places_all_in_int8{false};                     ///< that may be, whatever it costs
  std::span<const Sample> samples{};                  ///< to find mean errors with
  /// Who runs the passes measures what is rounded: Model::before_rounding stays, and biases as they are.
  bool is_for_noise{false};
  LoweringOptions lowering{};
  std::vector<LoweringRow> lowering_rows{};  ///< that the program has registered for the table

  /// Called after each part of long work, with the number of parts of its kind. Possibly from several
  /// threads.
  std::function<void(Part part, std::size_t count)> on_part{};

  void advance(Part part, std::size_t count) const {
    if (on_part) on_part(part, count);
  }
};

}  // namespace tsq::passes
