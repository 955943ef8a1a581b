#include "pipeline/recipe_passes.h"

#include <array>

#include "passes/capture/read_written_inputs.h"
#include "passes/convert/tie_tables.h"
#include "passes/lower/batch_dynamic_inputs.h"
#include "passes/lower/read_recurrent_inputs.h"
#include "passes/observe/observe_fixed_inputs.h"
#include "passes/observe/observe_layer_inputs.h"
#include "passes/observe/settle_unreached.h"
#include "passes/placement/keep_exact_weights.h"
#include "passes/placement/leave_unswapped.h"
#include "passes/rewrite/fold_constants.h"

namespace tsq::detail {
namespace {

using passes::MatchTable;
using OnGraph = RecipePass<ir::GraphModule&>;
using OnMatches =
    RecipePass<const ir::GraphModule&, const BackendConfig&, const PrepareCustomConfig&, MatchTable&>;
using OnObserved = RecipePass<ir::GraphModule&, const RecipeOptions&>;
using OnCalibrated =
    RecipePass<ir::GraphModule&, std::span<const torch::jit::Module>, Report&, const RecipeOptions&>;
using OnReference = RecipePass<ir::GraphModule&, Report&, const RecipeOptions&>;
using OnLowering = RecipePass<ir::GraphModule&, Report&>;
using OnLowered = OnReference;

constexpr std::array kBestOnFlat{
    OnGraph{"read_written_inputs", passes::read_written_inputs},
    OnGraph{"fold_constants", passes::fold_constants},
};
constexpr std::array kBestOnCaptured{
    OnGraph{"drop_identities", passes::drop_identities},
    OnGraph{"gather_activations", passes::gather_activations},
    OnGraph{"gather_layer_norms", passes::gather_layer_norms},
    OnGraph{"maximum_of_stack", passes::maximum_of_stack},
    OnGraph{"fold_arithmetic", passes::fold_arithmetic},
    OnGraph{"fold_batch_norms", passes::fold_batch_norms},
};
constexpr std::array kBestOnMatches{
    OnMatches{"leave_unswapped",
              [](const ir::GraphModule& gm, const BackendConfig& backend, const PrepareCustomConfig&,
                 MatchTable& table) { passes::leave_unswapped(gm, backend, table); }},
    OnMatches{"absorb_clamps", [](const ir::GraphModule& gm, const BackendConfig&, const PrepareCustomConfig&,
                                  MatchTable& table) { passes::absorb_clamps(gm, table); }},
    OnMatches{"leave_float_islands",
              [](const ir::GraphModule& gm, const BackendConfig&, const PrepareCustomConfig& custom,
                 MatchTable& table) { passes::leave_float_islands(gm, custom, table); }},
    OnMatches{"separate_concatenations",
              [](const ir::GraphModule& gm, const BackendConfig&, const PrepareCustomConfig&,
                 MatchTable& table) { passes::separate_concatenations(gm, table); }},
    OnMatches{"separate_scalar_arithmetic",
              [](const ir::GraphModule&, const BackendConfig&, const PrepareCustomConfig&,
                 MatchTable& table) { passes::separate_scalar_arithmetic(table); }},
};
constexpr std::array kBestOnObserved{
    OnObserved{"observe_fixed_inputs",
               [](ir::GraphModule& gm, const RecipeOptions&) { passes::observe_fixed_inputs(gm); }},
    OnObserved{"observe_layer_inputs",
               [](ir::GraphModule& gm, const RecipeOptions&) { passes::observe_layer_inputs(gm); }},
    OnObserved{"observe_channels",
               [](ir::GraphModule& gm, const RecipeOptions&) { passes::observe_channels(gm); }},
    OnObserved{"observe_input_products",
               [](ir::GraphModule& gm, const RecipeOptions& options) {
                 if (options.weight_rounding == WeightRounding::Learned) passes::observe_input_products(gm);
               }},
    OnObserved{"clamp_observed",
               [](ir::GraphModule& gm, const RecipeOptions&) { passes::clamp_observed(gm); }},
};
constexpr std::array kBestOnCalibrated{
    OnCalibrated{"settle_unreached",
                 [](ir::GraphModule& gm, std::span<const torch::jit::Module> observers, Report& report,
                    const RecipeOptions&) { passes::settle_unreached(gm, observers, report); }},
    OnCalibrated{"drop_observed_clamps", [](ir::GraphModule& gm, std::span<const torch::jit::Module>, Report&,
                                            const RecipeOptions&) { passes::drop_observed_clamps(gm); }},
    OnCalibrated{"take_channel_statistics",
                 [](ir::GraphModule& gm, std::span<const torch::jit::Module> observers, Report&,
                    const RecipeOptions&) { passes::take_channel_statistics(gm, observers); }},
    OnCalibrated{"take_input_products",
                 [](ir::GraphModule& gm, std::span<const torch::jit::Module> observers, Report&,
                    const RecipeOptions&) { passes::take_input_products(gm, observers); }},
    OnCalibrated{"share_ranges_of_extremes",
                 [](ir::GraphModule& gm, std::span<const torch::jit::Module>, Report&, const RecipeOptions&) {
                   passes::share_ranges_of_extremes(gm);
                 }},
    OnCalibrated{"drop_output_observers",
                 [](ir::GraphModule& gm, std::span<const torch::jit::Module>, Report& report,
                    const RecipeOptions&) { passes::drop_output_observers(gm, report); }},
    OnCalibrated{"equalize_across_layers",
                 [](ir::GraphModule& gm, std::span<const torch::jit::Module> observers, Report& report,
                    const RecipeOptions& options) {
                   if (const auto margin = cross_layer_margin(options))
                     passes::equalize_across_layers(gm, observers, *margin, report);
                 }},
    OnCalibrated{"equalize_float_values",
                 [](ir::GraphModule& gm, std::span<const torch::jit::Module> observers, Report& report,
                    const RecipeOptions& options) {
                   if (const auto margin = cross_layer_margin(options))
                     passes::equalize_float_values(gm, observers, *margin, report);
                 }},
};
constexpr std::array kBestOnReference{
    OnReference{"keep_exact_weights", [](ir::GraphModule& gm, Report& report,
                                         const RecipeOptions&) { passes::keep_exact_weights(gm, report); }},
    OnReference{"gate_in_float", [](ir::GraphModule& gm, Report& report,
                                    const RecipeOptions&) { passes::gate_in_float(gm, report); }},
    OnReference{"leave_float_outputs",
                [](ir::GraphModule& gm, Report&, const RecipeOptions&) { passes::leave_float_outputs(gm); }},
    OnReference{"leave_small_layers", [](ir::GraphModule& gm, Report& report,
                                         const RecipeOptions&) { passes::leave_small_layers(gm, report); }},
    OnReference{"round_weights", nullptr,
                [](ir::GraphModule& gm, Report&, const RecipeOptions& options,
                   const std::function<void()>& on_layer) {
                  passes::round_weights(gm, options.target_cpu, on_layer);
                }},
    OnReference{"fold_padding", [](ir::GraphModule& gm, Report& report,
                                   const RecipeOptions&) { passes::fold_padding(gm, report); }},
    OnReference{"leave_slow_layers", [](ir::GraphModule& gm, Report& report,
                                        const RecipeOptions&) { passes::leave_slow_layers(gm, report); }},
    OnReference{"bound_pair_sums",
                [](ir::GraphModule& gm, Report& report, const RecipeOptions& options) {
                  passes::bound_pair_sums(gm, options.target_cpu, report);
                }},
    OnReference{"tie_tables",
                [](ir::GraphModule& gm, Report&, const RecipeOptions&) { passes::tie_tables(gm); }},
    OnReference{"correct_biases",
                [](ir::GraphModule& gm, Report&, const RecipeOptions&) { passes::correct_biases(gm); }},
    OnReference{"share_parameters",
                [](ir::GraphModule& gm, Report&, const RecipeOptions&) { passes::share_parameters(gm); }},
};
constexpr std::array kBestBeforeLowering{
    OnLowering{"read_recurrent_inputs", passes::read_recurrent_inputs},
    OnLowering{"average_in_float", [](ir::GraphModule& gm, Report&) { passes::average_in_float(gm); }},
    OnLowering{"multiply_in_float", passes::multiply_in_float},
    OnLowering{"take_other_kernels", [](ir::GraphModule& gm, Report&) { passes::take_other_kernels(gm); }},
    OnLowering{"activate_in_float", passes::activate_in_float},
    OnLowering{"saturate_clamps", [](ir::GraphModule& gm, Report&) { passes::saturate_clamps(gm); }},
    OnLowering{"requantize_concatenations", passes::requantize_concatenations},
};
constexpr std::array kBestOnLowered{
    OnLowered{"lower_float_outputs", [](ir::GraphModule& gm, Report& report,
                                        const RecipeOptions&) { passes::lower_float_outputs(gm, report); }},
    OnLowered{"pool_averages",
              [](ir::GraphModule& gm, Report&, const RecipeOptions&) { passes::pool_averages(gm); }},
    OnLowered{"widen_dynamic_ranges",
              [](ir::GraphModule& gm, Report&, const RecipeOptions& options) {
                passes::widen_dynamic_ranges(gm, options.target_cpu);
              }},
    OnLowered{"join_linear_layers", [](ir::GraphModule& gm, Report& report,
                                       const RecipeOptions&) { passes::join_linear_layers(gm, report); }},
    OnLowered{"transform_filter_banks",
              [](ir::GraphModule& gm, Report& report, const RecipeOptions&) {
                passes::transform_filter_banks(gm, report);
              }},
    OnLowered{"window_filter_banks", [](ir::GraphModule& gm, Report& report,
                                        const RecipeOptions&) { passes::window_filter_banks(gm, report); }},
    OnLowered{"call_cells_directly",
              [](ir::GraphModule& gm, Report&, const RecipeOptions&) { passes::call_cells_directly(gm); }},
    OnLowered{"signals_as_images", [](ir::GraphModule& gm, Report& report,
                                      const RecipeOptions&) { passes::signals_as_images(gm, report); }},
    OnLowered{"batch_dynamic_inputs",
              [](ir::GraphModule& gm, Report&, const RecipeOptions&) { passes::batch_dynamic_inputs(gm); }},
};

}  // namespace

const RecipePasses& passes_of(Recipe recipe) {
  static constexpr RecipePasses kFx{};
  static constexpr RecipePasses kBest{.any_spelling = true,
                                      .looks_into_layers = true,
                                      .on_flat = kBestOnFlat,
                                      .on_captured = kBestOnCaptured,
                                      .on_matches = kBestOnMatches,
                                      .on_observed = kBestOnObserved,
                                      .on_calibrated = kBestOnCalibrated,
                                      .on_reference = kBestOnReference,
                                      .before_lowering = kBestBeforeLowering,
                                      .on_lowered = kBestOnLowered};
  return recipe == Recipe::Best ? kBest : kFx;
}

}  // namespace tsq::detail
