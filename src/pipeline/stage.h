#pragma once

#include <tsq/plan.h>
#include <tsq/quantize.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "io/samples.h"
#include "ir/model.h"
#include "noise/noise_by_name.h"
#include "passes/context/pass_context.h"
#include "pipeline/ranges_left.h"
#include "torchscript/emit.h"

namespace tsq {

namespace detail {

/// What is found once for all copies of a calibrated stage.
struct FoundOnce {
  std::mutex mutex{};                                 ///< of `noise`
  std::shared_ptr<const noise::NoiseByName> noise{};  ///< what roundings add to the outputs
  std::shared_ptr<ir::LearnedRoundings> roundings{std::make_shared<ir::LearnedRoundings>()};
};

}  // namespace detail

/// A model between two verbs: its graph, the module that runs it, and what it was made with.
struct Prepared::Stage {
  ir::Model model{};
  torch::jit::Module module{};       ///< executable form of `model`
  torch::jit::Module float_model{};  ///< the user's, kept so that a saved stage can be continued; of a stage
                                     ///< that trains: what is trained
  QConfigMapping mapping{};
  BackendConfig backend{};
  PrepareCustomConfig custom{};
  EqualizationMapping equalization{};
  RecipeOptions options{};
  bool trains{false};                               ///< prepare_qat has made it
  bool is_trained{false};                           ///< and convert has taken over
  std::optional<QConfigMapping> mapping_around{};   ///< PassContext::mapping_around
  ConvertCustomConfig convert_custom{};             ///< convert's own, for what becomes of observed modules
  std::optional<QConfigMapping> convert_mapping{};  ///< convert's own mapping (K-02)
  std::map<std::string, std::string> kept_float{};  ///< nodes that convert leaves float, and why
  std::shared_ptr<const Plan> plan{};               ///< what convert does; null: what the rules say
  std::vector<std::string> planned_nodes{};  ///< of a reference: Decision::node of the plan's operators
  detail::KeptSamples kept_samples{};        ///< of calibrate's: recipe best finds mean errors with them
  std::vector<std::string> preserved_attributes{};             ///< of the user's module, put on every result
  std::map<std::string, std::shared_ptr<Stage>> standalone{};  ///< standalone modules by path (E-01)
  std::shared_ptr<ir::Model> observed{};  ///< of a reference: the calibrated model that it was made of
  std::map<std::string, at::Tensor> trained_parameters{};  ///< of a reference that has trained, by name
  std::map<std::string, std::size_t> seen{};               ///< calibration samples by their types and shapes
  std::shared_ptr<detail::FoundOnce> found{};  ///< of what calibrate has seen, once it is asked for
  /// Nanoseconds of operators in float, by Decision::node, as they were measured; null: nobody has.
  std::shared_ptr<const std::map<std::string, double>> float_times{};
  detail::RangesLeft ranges_left{};  ///< of the last quarter of calibrate's last samples, by the ones before
  Report report{};                   ///< printed from `model`

  /// The way from public values to stages, and back.
  template <typename Value>
  static Stage& of(const Value& value) {
    return *value.stage_;
  }
  template <typename Value>
  static Value make(std::shared_ptr<Stage> stage) {
    return Value(std::move(stage));
  }
};

namespace detail {

using Stage = Prepared::Stage;

/// Which faults of its engine's kernels a stage has to reckon with.
kernels::ProcessorFaults processor_faults_of(const Stage& stage);

/// What passes may know of a stage.
passes::PassContext context_of(const Stage& stage);

/// The executable form of a stage's graph, with the attributes that the user wants to keep.
torch::jit::Module module_of(const Stage& stage, torchscript::Layout layout = torchscript::Layout::OfUser);
/// Every call of the standalone module at `path` calls `module`.
void set_standalone_modules(ir::Model& model, const std::string& path, const torch::jit::Module& module);

/// A stage that shares no state with another: observers, buffers, parameters that train.
std::shared_ptr<Stage> independent_copy(const Stage& stage);

/// A copy with observers and observed modules of its own.
ir::Model with_own_observers(const ir::Model& model);

/// The modules of the user's observed classes (E-08), by path.
std::map<std::string, torch::jit::Module> observed_modules(const ir::Model& model);
void set_observed_module(ir::Model& model, const std::string& path, const torch::jit::Module& module);

/// All modules that calibration changes: observers, and observed modules, of standalone modules as well.
std::vector<torch::jit::Module> observing_modules(const Stage& stage);

/// The observed model of a prepared stage or a reference.
inline const ir::Model& observed_model(const Stage& stage) {
  return stage.observed ? *stage.observed : stage.model;
}

/// The report of a stage, standalone modules included.
Report report_of(const Stage& stage);

inline Stage& stage_of(const Prepared& prepared) { return Stage::of(prepared); }
inline Stage& stage_of(const Reference& reference) { return Stage::of(reference); }

}  // namespace detail
}  // namespace tsq
