// Which passes run on which stage, in which order.

#include "pipeline/stage.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <mutex>

#include "config/observer_classes.h"
#include "ir/methods.h"
#include "match/unmatched_entries.h"
#include "observers/observer_module.h"
#include "passes/capture/capture.h"
#include "passes/capture/compute_in_float.h"
#include "passes/capture/fold_literals.h"
#include "passes/capture/no_value.h"
#include "passes/convert/batch_inputs.h"
#include "passes/convert/tie_tables.h"
#include "passes/lower/round_constants.h"
#include "passes/lower/view_any_layout.h"
#include "passes/match/fuse_for_training.h"
#include "passes/observe/settle_methods.h"
#include "passes/observe/settle_unreached.h"
#include "passes/passes.h"
#include "passes/train/finish_training.h"
#include "passes/train/leave_conditions.h"
#include "passes/train/swap_for_training.h"
#include "pipeline/mean_errors.h"
#include "pipeline/recipe_passes.h"
#include "torchscript/emit.h"
#include "torchscript/reference_module.h"
#include "torchscript/user_attributes.h"

namespace tsq::detail {
namespace {

using torch::jit::Module;

/// Runs one pass; its name goes in front of an error.
template <typename Pass>
auto in_pass(const char* name, const Pass& pass) {
  try {
    return pass();
  } catch (const Error& error) {
    throw error.in_pass(name);
  }
}

/// Passes that a recipe adds in one place, in order.
template <typename Pass, typename... Arguments>
void run_passes(std::span<const Pass> list, Arguments&&... arguments) {
  for (const Pass& pass : list) in_pass(pass.name, [&] { pass.run(arguments...); });
}

/// Counts the parts of convert that take time: observers, layers whose weights are rounded, samples.
class Parts {
 public:
  Parts(const Progress& progress, std::size_t total) : progress_(progress), total_(total) {}

  /// Several threads may call it.
  void advance() { reach(0, 1); }
  /// As many are done, however many there were to do.
  void reach(std::size_t done) { reach(done, 0); }

 private:
  void reach(std::size_t at_least, std::size_t more) {
    if (!progress_) return;
    const std::lock_guard lock(mutex_);
    done_ = std::min(total_, std::max(done_ + more, at_least));
    progress_(done_, total_);
  }

  const Progress& progress_;
  std::size_t total_;
  std::size_t done_{0};
  std::mutex mutex_{};
};

/// Observers are independent: their searches for a range run side by side. `known` has the results of the
/// first `calibrated` ones, as long as convert has not put others in their places.
std::vector<passes::ObserverResult> find_qparams(const ir::GraphModule& gm, std::span<const Module> observers,
                                                 std::span<const Module> calibrated = {},
                                                 std::span<const passes::ObserverResult> known = {},
                                                 Parts* parts = nullptr) {
  std::vector<passes::ObserverResult> results(observers.size());
  at::parallel_for(0, static_cast<int64_t>(results.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto index = static_cast<std::size_t>(i);
      const bool is_known = index < known.size() && observers[index]._ivalue() == calibrated[index]._ivalue();
      results[index] =
          is_known ? known[index] : passes::observer_result(gm.observers[index].spec, observers[index]);
      if (parts != nullptr) parts->advance();
    }
  });
  return results;
}

void append_report(Report& report, const Report& child, const std::string& path) {
  for (Decision decision : child.decisions) {
    decision.layer = decision.layer.empty() ? path : fmt::format("{}.{}", path, decision.layer);
    decision.standalone =
        decision.standalone.empty() ? path : fmt::format("{}.{}", path, decision.standalone);
    report.decisions.push_back(std::move(decision));
  }
  for (const std::string& layer : child.unobserved_layers)
    report.unobserved_layers.push_back(fmt::format("{}.{}", path, layer));
  for (UnmatchedEntry entry : child.unmatched_entries) {
    entry.level = fmt::format("{} (mapping of standalone module '{}')", entry.level, path);
    report.unmatched_entries.push_back(std::move(entry));
  }
}

/// The mapping's QConfig for a standalone module; its own global one where it has no mapping.
QConfigMapping global_mapping(const ir::GraphModule& gm, const ir::ModuleCall& call,
                              const passes::MatchTable& table) {
  for (const auto& [node, decision] : table.qconfig_of) {
    if (ir::is_standalone(gm, node) && ir::call_of(gm, node).path == call.path)
      return QConfigMapping().set_global(decision.qconfig);
  }
  return {};
}

/// E-01: each standalone module is prepared as a model of its own, by
/// `prepare(model, mapping, backend, custom, path)`.
template <typename Prepare>
void prepare_standalone_modules(Stage& stage, const passes::MatchTable& table, const Prepare& prepare) {
  for (ir::ModuleCall& call : stage.gm.calls) {
    if (!call.standalone || stage.standalone.contains(call.path)) continue;
    const StandaloneModuleConfig& config = *stage.custom.standalone_module(call.path, call.type);
    try {
      std::shared_ptr<Stage> child =
          prepare(*call.module,
                  config.qconfig_mapping ? *config.qconfig_mapping : global_mapping(stage.gm, call, table),
                  config.backend_config.value_or(stage.backend), config.prepare_custom_config, call.path);
      if (child->gm.graph->outputs().size() != 1 ||
          child->gm.graph->outputs().front()->type()->kind() != c10::TypeKind::TensorType) {
        throw Error(ErrorCode::BadModel, "a standalone module must return one tensor",
                    "make it 'non_traceable', or choose a module inside it");
      }
      append_report(stage.report, child->report, call.path);
      stage.standalone.emplace(call.path, std::move(child));
    } catch (const Error& error) {
      throw Error(error.code(), error.problem(), error.remedy(), Where{.layer = call.path});
    }
  }
}

void check_quantized_indexes(const ir::GraphModule& gm, const PrepareCustomConfig& custom) {
  for (const int index : custom.input_quantized_indexes()) {
    if (index >= 0 && static_cast<std::size_t>(index) + 1 < gm.graph->inputs().size()) continue;
    throw Error(ErrorCode::BadConfig,
                fmt::format("input_quantized_idxs names input {}, forward has {}", index,
                            gm.graph->inputs().size() - 1),
                "count the arguments of forward from 0");
  }
}

/// The layers whose observers are in use and have seen nothing.
std::vector<std::string> unobserved_layers(const Stage& prepared,
                                           std::span<const passes::ObserverResult> results) {
  std::vector<std::string> layers;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].saw_data && passes::uses_observer(prepared.gm, i))
      layers.push_back(prepared.gm.observers[i].layer);
  }
  return layers;
}

/// Whether the mapping gives a QConfig to some operator.
bool quantizes_anything(const passes::MatchTable& table) {
  return std::any_of(table.qconfig_of.begin(), table.qconfig_of.end(),
                     [](const auto& entry) { return entry.second.qconfig.has_value(); });
}

/// What became of a standalone module's operators at lowering, into the report of the whole.
void take_decisions(Report& report, const Report& child, const std::string& path) {
  Report prefixed;
  append_report(prefixed, child, path);
  std::map<std::pair<std::string, std::string>, Decision> lowered;
  for (Decision& decision : prefixed.decisions) {
    const auto key = std::pair(decision.standalone, decision.node);
    lowered.emplace(key, std::move(decision));
  }
  for (Decision& decision : report.decisions) {
    const auto found = lowered.find({decision.standalone, decision.node});
    if (found != lowered.end()) decision = found->second;
  }
}

}  // namespace

Module module_of(const Stage& stage, const ir::GraphModule& gm, std::span<const Module> observers,
                 torchscript::Layout layout) {
  const bool trains = stage.training && !stage.training->is_finished;
  Module module = trains ? trained_module(stage) : torchscript::emit(gm, observers, layout);
  torchscript::keep_user_attributes(module, stage.float_model, stage.preserved_attributes);
  return module;
}

namespace {

/// Equalization that the user asks for takes the place of the recipe's smoothing: both scale a layer's input
/// channels.
std::optional<double> smoothing_of(const Stage& stage) {
  if (stage.training) return std::nullopt;
  if (stage.equalization.empty()) return migration_strength(stage.options);
  if (stage.options.smooth_quant) {
    throw Error(ErrorCode::BadConfig, "smoothing and equalization both scale the channels of a layer's input",
                "ask for one of them");
  }
  return std::nullopt;
}

}  // namespace

namespace {

/// What was trained is what is deployed: the passes that a recipe adds would change it.
const RecipePasses& recipe_of(const Stage& stage) {
  return passes_of(stage.training ? Recipe::Fx : stage.options.recipe);
}

}  // namespace

void set_standalone_modules(ir::GraphModule& gm, const std::string& path, const Module& module) {
  for (ir::ModuleCall& call : gm.calls) {
    if (call.standalone && call.path == path) call.module = module;
  }
}

namespace {

/// The graph with every number in float32.
ir::GraphModule captured(const Module& model, const PrepareCustomConfig& custom, const RecipePasses& recipe) {
  ir::GraphModule gm = in_pass("capture", [&] {
    return recipe.looks_into_layers ? passes::capture_layers(model, custom) : passes::capture(model, custom);
  });
  in_pass("compute_in_float", [&] { passes::compute_in_float(gm); });
  return gm;
}

/// Forward, then the other methods that are captured as it is, each as the graph.
template <typename Run>
void on_each_method(ir::GraphModule& gm, bool opens_methods, const Run& run) {
  run();
  if (!opens_methods) return;
  for (ir::Method& method : gm.methods) {
    std::swap(gm.graph, method.graph);
    run();
    std::swap(gm.graph, method.graph);
  }
}

void make_plain(ir::GraphModule& gm, const RecipePasses& recipe) {
  in_pass("lift_recurrent", [&] { passes::lift_recurrent(gm); });
  in_pass("untrace", [&] { passes::untrace(gm); });
  in_pass("normalise", [&] { passes::normalise(gm); });
  run_passes(recipe.on_flat, gm);
  in_pass("fold_literals", [&] { passes::fold_literals(gm); });
  in_pass("lift", [&] { passes::lift(gm); });
  in_pass("lift_embeddings", [&] { passes::lift_embeddings(gm); });
}

/// What reads a parameter keeps doing so: nothing becomes a layer with parameters of its own.
void make_plain_for_training(ir::GraphModule& gm) {
  in_pass("untrace", [&] { passes::untrace(gm); });
  in_pass("normalise", [&] { passes::normalise(gm); });
  in_pass("fold_literals", [&] { passes::fold_literals(gm); });
  in_pass("find_embedding_tables", [&] { passes::find_embedding_tables(gm); });
}

ir::GraphModule plain_graph(ir::GraphModule gm, bool opens_methods,
                            const RecipePasses& recipe = passes_of(Recipe::Fx)) {
  on_each_method(gm, opens_methods, [&] { make_plain(gm, recipe); });
  return gm;
}

void fuse(ir::GraphModule& gm, const BackendConfig& backend, bool trains = false) {
  in_pass("drop_library_assertions", [&] { passes::drop_library_assertions(gm); });
  in_pass("keep_writes", [&] { passes::keep_writes(gm); });
  in_pass("fuse", [&] {
    if (trains) {
      passes::fuse_for_training(gm, backend);
    } else {
      passes::fuse(gm, backend);
    }
  });
}

}  // namespace

ir::GraphModule fused_graph(const Module& model, const BackendConfig& backend,
                            const PrepareCustomConfig& custom) {
  const bool opens_methods = passes::opens_methods(model, custom);
  ir::GraphModule gm =
      plain_graph(in_pass("capture", [&] { return passes::capture(model, custom); }), opens_methods);
  on_each_method(gm, opens_methods, [&] { fuse(gm, backend); });
  ir::join_methods(gm);
  return gm;
}

std::shared_ptr<Stage> prepared_stage(const Module& model, const QConfigMapping& mapping,
                                      const BackendConfig& backend, const PrepareCustomConfig& custom,
                                      const EqualizationMapping& equalization, const RecipeOptions& options) {
  torchscript::check_reference_modules(backend);
  auto stage = std::make_shared<Stage>();
  stage->options = options;
  stage->float_model = model;
  stage->mapping = mapping;
  stage->backend = backend;
  stage->custom = custom;
  stage->equalization = equalization;
  stage->preserved_attributes = custom.preserved_attributes();
  const RecipePasses& recipe = passes_of(options.recipe);
  ir::GraphModule& gm = stage->gm;
  const bool opens_methods = passes::opens_methods(model, custom);
  gm = plain_graph(captured(model, custom, recipe), opens_methods, recipe);
  gm.any_spelling = recipe.any_spelling;
  on_each_method(gm, opens_methods, [&] {
    run_passes(recipe.on_captured, gm);
    in_pass("lift_products", [&] { passes::lift_products(gm, mapping); });
    fuse(gm, backend);
  });
  ir::join_methods(gm);
  check_quantized_indexes(stage->gm, custom);
  passes::MatchTable table = in_pass("match", [&] { return passes::match(stage->gm, mapping, backend); });
  if (!quantizes_anything(table)) {
    // A batch norm that a convolution takes in changes the last bits: not where nothing is quantized.
    stage->gm = plain_graph(captured(model, custom, passes_of(Recipe::Fx)), opens_methods);
    stage->gm.any_spelling = recipe.any_spelling;
    ir::join_methods(stage->gm);
    table = in_pass("match", [&] { return passes::match(stage->gm, mapping, backend); });
  }
  stage->report.unmatched_entries = match::unmatched_entries(stage->gm, model, mapping);
  run_passes(recipe.on_matches, stage->gm, backend, custom, table);
  in_pass("observe", [&] { passes::observe(stage->gm, table, backend, custom, stage->report); });
  in_pass("equalize", [&] { passes::equalize(stage->gm, table, equalization, stage->report); });
  if (smoothing_of(*stage)) in_pass("smooth", [&] { passes::smooth(stage->gm, table, stage->report); });
  in_pass("join_branches", [&] { passes::join_branches(stage->gm); });
  run_passes(recipe.on_observed, stage->gm, options);
  in_pass("observe_where_read", [&] { passes::observe_where_read(stage->gm); });
  prepare_standalone_modules(
      *stage, table,
      [&](const Module& child, const QConfigMapping& of_child, const BackendConfig& rows,
          const PrepareCustomConfig& inside,
          const std::string&) { return prepared_stage(child, of_child, rows, inside, {}, options); });
  for (const auto& [path, child] : stage->standalone) set_standalone_modules(stage->gm, path, child->module);
  for (const ir::ObserverEntry& entry : stage->gm.observers)
    stage->observers.push_back(make_observer(entry.spec));
  stage->module = module_of(*stage, stage->gm, stage->observers);
  return stage;
}

namespace {

/// What a mapping says inside of the module at `path`, in paths that begin there.
QConfigMapping mapping_within(const QConfigMapping& mapping, const std::string& path) {
  QConfigMapping result;
  result.set_global(mapping.global_qconfig());
  for (const auto& [type, qconfig] : mapping.object_type_qconfigs()) result.set_object_type(type, qconfig);
  std::size_t nearest = 0;
  for (const auto& [name, qconfig] : mapping.module_name_qconfigs()) {
    if (name.starts_with(path + ".")) {
      result.set_module_name(name.substr(path.size() + 1), qconfig);
    } else if ((name == path || path.starts_with(name + ".")) && name.size() >= nearest) {
      nearest = name.size();
      result.set_global(qconfig);
    }
  }
  return result;
}

}  // namespace

std::shared_ptr<Stage> training_stage(const Module& model, const QConfigMapping& mapping,
                                      const BackendConfig& backend, const PrepareCustomConfig& custom,
                                      const RecipeOptions& options, const QConfigMapping* around) {
  torchscript::check_reference_modules(backend);
  auto stage = std::make_shared<Stage>();
  stage->options = options;
  stage->float_model = model;
  stage->mapping = mapping;
  stage->backend = backend;
  stage->custom = custom;
  stage->preserved_attributes = custom.preserved_attributes();
  std::map<std::string, QConfig> qconfigs;  // of the layers that train
  const auto swap = [&](const QConfigMapping& by) {
    passes::SwappedLayers swapped = passes::swap_for_training(stage->gm, by, backend);
    qconfigs.merge(swapped.qconfigs);
    return std::move(swapped.mapping);
  };
  Training& training = stage->training.emplace();
  const bool opens_methods = passes::opens_methods(model, custom);
  stage->gm = in_pass("capture", [&] { return passes::capture_for_training(model, custom); });
  on_each_method(stage->gm, opens_methods, [&] {
    make_plain_for_training(stage->gm);
    if (around != nullptr) in_pass("swap_for_training", [&] { swap(*around); });
    fuse(stage->gm, backend, /*trains=*/true);
  });
  ir::join_methods(stage->gm);
  check_quantized_indexes(stage->gm, custom);
  stage->report.unmatched_entries = match::unmatched_entries(stage->gm, model, mapping);
  const QConfigMapping with_training_types = in_pass("swap_for_training", [&] { return swap(mapping); });
  const passes::MatchTable table =
      in_pass("match", [&] { return passes::match(stage->gm, with_training_types, backend); });
  in_pass("observe", [&] { passes::observe(stage->gm, table, backend, custom, stage->report); });
  in_pass("leave_conditions", [&] { passes::leave_conditions(stage->gm); });
  in_pass("join_branches", [&] { passes::join_branches(stage->gm); });
  in_pass("observe_where_read", [&] { passes::observe_where_read(stage->gm); });
  prepare_standalone_modules(
      *stage, table,
      [&](const Module& child, const QConfigMapping& of_child, const BackendConfig& rows,
          const PrepareCustomConfig& inside, const std::string& path) {
        const QConfigMapping outside = mapping_within(mapping, path);
        return training_stage(child, of_child, rows, inside, options, &outside);
      });
  training.weight_fake_quants = make_weight_fake_quants(stage->gm, qconfigs);
  stage->observers = make_training_observers(stage->gm);
  stage->module = module_of(*stage, stage->gm, stage->observers);
  return stage;
}

passes::MatchTable matched(const Stage& prepared, const ir::GraphModule& gm, const QConfigMapping& mapping) {
  passes::MatchTable table = in_pass("match", [&] { return passes::match(gm, mapping, prepared.backend); });
  run_passes(passes_of(prepared.options.recipe).on_matches, gm, prepared.backend, prepared.custom, table);
  return table;
}

std::vector<passes::ObserverResult> observer_results(const Stage& prepared) {
  return find_qparams(prepared.gm, prepared.observers);
}

bool is_uncalibrated(const Stage& prepared) {
  bool needs_data = false;
  for (const ir::Node* node : ir::nodes_in_order(*prepared.gm.graph)) {
    // What a constant weight is like, convert finds out by itself.
    if (!ir::is_observer(node) || node->input(0)->node()->kind() == c10::prim::GetAttr) continue;
    const std::size_t index = ir::observer_index(node);
    // Channels that were never seen are not smoothed.
    if (prepared.gm.observers[index].spec.observer == observer_classes::kInputEqualization) continue;
    const ResolvedObserver resolved = resolve(prepared.gm.observers[index].spec);
    const bool finds_a_range = c10::isQIntType(resolved.dtype) && !resolved.is_dynamic;
    if (!finds_a_range || !passes::uses_observer(prepared.gm, index) ||
        saw_data(make_observer(prepared.gm.observers[index].spec)))
      continue;
    if (saw_data(prepared.observers[index])) return false;
    needs_data = true;
  }
  return needs_data;
}

namespace {

/// Standalone modules would take what runs through the float graph for calibration data.
bool needs_mean_errors(const Stage& prepared) {
  return !prepared.mean_errors && !prepared.kept_samples.samples().empty() && prepared.standalone.empty();
}

}  // namespace

void find_mean_errors(Stage& prepared) {
  if (!needs_mean_errors(prepared)) return;
  prepared.mean_errors = reference_stage(prepared, prepared.backend, std::nullopt)->mean_errors;
}

namespace {

std::size_t weighted_calls(const ir::GraphModule& gm) {
  return static_cast<std::size_t>(std::ranges::count_if(
      gm.calls, [](const ir::ModuleCall& call) { return ir::weighted_of(call) != nullptr; }));
}

}  // namespace

std::shared_ptr<Stage> reference_stage(const Stage& prepared, const BackendConfig& backend,
                                       const std::optional<QConfigMapping>& mapping,
                                       const Progress& progress) {
  const std::size_t observers_to_ask = prepared.observers.size();
  const std::size_t layers_to_round = weighted_calls(prepared.gm);
  const std::size_t samples_to_run = needs_mean_errors(prepared) ? prepared.kept_samples.samples().size() : 0;
  Parts parts(progress, observers_to_ask + layers_to_round + samples_to_run);
  auto stage = std::make_shared<Stage>(prepared);
  stage->kept_samples = {};
  stage->gm = prepared.gm.copy();
  stage->backend = backend;
  stage->convert_mapping = mapping;
  const RecipePasses& recipe = recipe_of(prepared);
  std::vector<Module> observers = prepared.observers;
  if (stage->training) {
    in_pass("finish_training",
            [&] { passes::finish_training(stage->gm, stage->training->weight_fake_quants, observers); });
    stage->training->is_finished = true;
  }
  in_pass("settle_methods", [&] { passes::settle_methods(stage->gm, prepared.observers, stage->report); });
  in_pass("batch_inputs", [&] { passes::batch_inputs(stage->gm, prepared.observers, stage->report); });
  run_passes(recipe.on_calibrated, stage->gm, std::span<const Module>(prepared.observers), stage->report,
             prepared.options);
  ir::GraphModule exact;
  in_pass("convert", [&] {
    if (mapping) passes::apply_convert_mapping(stage->gm, prepared.mapping, *mapping);
    passes::keep_float(stage->gm, prepared.kept_float, stage->report);
    if (const auto alpha = smoothing_of(prepared)) {
      passes::convert_smoothing(stage->gm, observers, *alpha);
    } else {
      passes::convert_equalization(stage->gm, observers);
    }
    std::span<const passes::ObserverResult> known;
    if (prepared.known_results) known = *prepared.known_results;
    std::vector<passes::ObserverResult> results =
        find_qparams(stage->gm, observers, prepared.observers, known, &parts);
    passes::excuse_unused(stage->gm, results);
    if (needs_mean_errors(prepared)) exact = stage->gm.copy();
    passes::convert(stage->gm, results, backend, stage->custom);
    passes::dequantize_behind_branches(stage->gm);
    stage->report.unobserved_layers = unobserved_layers(prepared, results);
    // Without data there is nothing to tell.
    if (!is_uncalibrated(prepared)) passes::explain_calibrated(prepared.gm, results, stage->report);
  });
  parts.reach(observers_to_ask);
  const auto on_layer = [&parts] { parts.advance(); };
  for (const auto& pass : recipe.on_reference) {
    in_pass(pass.name, [&] {
      if (pass.run_by_layer != nullptr) {
        pass.run_by_layer(stage->gm, stage->report, prepared.options, on_layer);
      } else {
        pass.run(stage->gm, stage->report, prepared.options);
      }
    });
  }
  in_pass("report_pair_sums",
          [&] { passes::report_pair_sums(stage->gm, prepared.options.target_cpu, stage->report); });
  parts.reach(observers_to_ask + layers_to_round);
  for (auto& [path, child] : stage->standalone) {
    child = reference_stage(*child, backend, std::nullopt);
    child->module = module_of(*child, child->gm);
    set_standalone_modules(stage->gm, path, child->module);
    take_decisions(stage->report, child->report, path);
    for (const std::string& layer : child->report.unobserved_layers)
      stage->report.unobserved_layers.push_back(fmt::format("{}.{}", path, layer));
  }
  in_pass("correct_mean_errors", [&] {
    if (needs_mean_errors(prepared))
      stage->mean_errors =
          mean_errors(prepared.gm, exact, stage->gm, prepared.kept_samples.samples(), on_layer);
    if (stage->mean_errors) {
      passes::correct_mean_errors(stage->gm, *stage->mean_errors);
      passes::share_parameters(stage->gm);
    }
  });
  parts.reach(observers_to_ask + layers_to_round + samples_to_run);
  return stage;
}

Module lowered_module(const Stage& reference, Report& report, const LoweringOptions& options) {
  ir::GraphModule gm = reference.gm.copy();
  report = reference.report;
  in_pass("keep_reference", [&] { passes::keep_reference(gm, options.kept_reference, report); });
  run_passes(recipe_of(reference).before_lowering, gm, report);
  in_pass("lower_registered",
          [&] { passes::lower_registered(gm, report, lowering_rows(reference.backend.name())); });
  in_pass("lower_dynamic", [&] { passes::lower_dynamic(gm, report); });
  in_pass("lower_recurrent", [&] { passes::lower_recurrent(gm, report); });
  in_pass("lower", [&] { passes::lower(gm, report); });
  run_passes(recipe_of(reference).on_lowered, gm, report, reference.options);
  in_pass("view_any_layout", [&] { passes::view_any_layout(gm); });
  in_pass("lower_embeddings", [&] { passes::lower_embeddings(gm, report); });
  in_pass("hold_tied_tables_once", [&] { passes::hold_tied_tables_once(gm); });
  in_pass("lower_weight_only_linear", [&] { passes::lower_weight_only_linear(gm, report); });
  in_pass("explain_unlowered", [&] { passes::explain_unlowered(gm, report); });
  in_pass("fold_packed_weights", [&] { passes::fold_packed_weights(gm); });
  if (options.float_dtype == c10::ScalarType::BFloat16)
    in_pass("float_in_bfloat16", [&] { passes::float_in_bfloat16(gm); });
  in_pass("round_constants", [&] { passes::round_constants(gm); });
  for (const auto& [path, child] : reference.standalone) {
    Report of_child;
    set_standalone_modules(gm, path, lowered_module(*child, of_child, options));
    take_decisions(report, of_child, path);
  }
  return module_of(reference, gm, {}, torchscript::Layout::Flat);
}

}  // namespace tsq::detail
