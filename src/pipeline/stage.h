#pragma once

#include <tsq/quantize.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph_module.h"
#include "passes/passes.h"
#include "pipeline/samples.h"
#include "pipeline/training.h"
#include "torchscript/emit.h"

namespace tsq::detail {

/// A model between two verbs: its graph, the module that runs it, and what it was made with.
struct Stage {
  ir::GraphModule gm{};
  torch::jit::Module module{};                  ///< executable form of `gm`
  std::vector<torch::jit::Module> observers{};  ///< instances of gm.observers (prepared stage)
  torch::jit::Module float_model{};  ///< the user's module, kept so that a saved stage can be continued
  QConfigMapping mapping{};
  BackendConfig backend{};
  PrepareCustomConfig custom{};
  EqualizationMapping equalization{};
  RecipeOptions options{};
  std::optional<QConfigMapping> convert_mapping{};  ///< convert's own mapping (K-02)
  std::map<std::string, std::string> kept_float{};  ///< nodes that convert leaves float, and why
  /// What the first observers of `observers` have found, where that is known already; null: nothing.
  std::shared_ptr<const std::vector<passes::ObserverResult>> known_results{};
  KeptSamples kept_samples{};  ///< of those that calibrate was given: recipe best finds mean errors with them
  std::optional<passes::MeanErrors> mean_errors{};  ///< what is corrected by, where that is known already
  std::vector<std::string> preserved_attributes{};  ///< of the user's module, put on every result
  std::map<std::string, std::shared_ptr<Stage>> standalone{};  ///< standalone modules by path (E-01)
  std::optional<Training> training{};  ///< of a model that trains: `float_model` is what is trained
  Report report{};
  std::map<std::string, std::size_t> seen{};  ///< calibration samples by their types and shapes
};

/// The executable form of a stage's graph, with the attributes that the user wants to keep.
torch::jit::Module module_of(const Stage& stage, const ir::GraphModule& gm,
                             std::span<const torch::jit::Module> observers = {},
                             torchscript::Layout layout = torchscript::Layout::OfUser);
/// Every call of the standalone module at `path` calls `module`.
void set_standalone_modules(ir::GraphModule& gm, const std::string& path, const torch::jit::Module& module);

/// capture, normalise, fuse: the float graph that patterns are matched on.
ir::GraphModule fused_graph(const torch::jit::Module& model, const BackendConfig& backend,
                            const PrepareCustomConfig& custom);
/// The whole of prepare, convert and lower, standalone modules included.
std::shared_ptr<Stage> prepared_stage(const torch::jit::Module& model, const QConfigMapping& mapping,
                                      const BackendConfig& backend, const PrepareCustomConfig& custom,
                                      const EqualizationMapping& equalization = {},
                                      const RecipeOptions& options = {});
/// prepared_stage for training: the parameters of `model`, which must be the stage's own, are those that
/// train. `around`: the mapping, in paths of `model`, by which the model around a standalone module has made
/// its layers fake-quantize already, so that they are not fused (QT-19).
std::shared_ptr<Stage> training_stage(const torch::jit::Module& model, const QConfigMapping& mapping,
                                      const BackendConfig& backend, const PrepareCustomConfig& custom,
                                      const RecipeOptions& options, const QConfigMapping* around = nullptr);
/// The patterns that `mapping` selects on `gm`, the fused graph of a prepared stage without observers: match,
/// and what the recipe does to matches.
passes::MatchTable matched(const Stage& prepared, const ir::GraphModule& gm, const QConfigMapping& mapping);
/// What the calibrated observers of a stage have found.
std::vector<passes::ObserverResult> observer_results(const Stage& prepared);
/// Whether observers need data and none of them has seen any.
bool is_uncalibrated(const Stage& prepared);
/// Fills `mean_errors`, where samples are there to find them with.
void find_mean_errors(Stage& prepared);
std::shared_ptr<Stage> reference_stage(const Stage& prepared, const BackendConfig& backend,
                                       const std::optional<QConfigMapping>& mapping,
                                       const Progress& progress = {});
torch::jit::Module lowered_module(const Stage& reference, Report& report, const LoweringOptions& options);

}  // namespace tsq::detail
