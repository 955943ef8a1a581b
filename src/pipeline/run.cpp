// Runs the flow: which steps make up a verb, and what goes on with standalone modules in between.

#include "pipeline/run.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <numeric>
#include <span>
#include <string_view>

#include "base/known_engines.h"
#include "base/libtorch_error.h"
#include "config/names/observer_classes.h"
#include "io/libraries.h"
#include "ir/analysis.h"
#include "operators/roundings.h"
#include "passes/legality.h"
#include "passes/place/draft.h"
#include "passes/place/plan_names.h"
#include "pipeline/predicted_noise.h"
#include "torchscript/modules/reference/reference_module.h"

namespace tsq::detail {
namespace {

using passes::FlowRow;
using passes::PassContext;
using passes::Step;
using torch::jit::Module;
using Clock = std::chrono::steady_clock;

/// Counts the parts of converting that take time. How many there are of a kind is known for certain when the
/// first one is done: until then there is a plan, by which all are counted, and the steps of a kind whose
/// number differs from it are as many times as large or small.
class Parts {
 public:
  using Plan = std::array<std::size_t, 3>;  ///< by Part

  Parts(const Progress& progress, const Plan& planned)
      : progress_(progress),
        planned_(planned),
        total_(std::accumulate(planned.begin(), planned.end(), std::size_t{0})) {}

  /// Several threads may call it.
  void advance(passes::Part part, std::size_t count) {
    const std::lock_guard lock(mutex_);
    const auto kind = static_cast<std::size_t>(part);
    const std::size_t done = std::min(++done_[kind], count);
    std::size_t now = planned_[kind] * done / count;
    for (std::size_t earlier = 0; earlier < kind; ++earlier) now += planned_[earlier];
    tell(now);
  }
  void finish() { tell(total_); }

 private:
  void tell(std::size_t now) {
    if (now <= told_) return;
    told_ = now;
    if (progress_) progress_(told_, total_);
  }

  const Progress& progress_;
  Plan planned_;
  std::size_t total_;
  Plan done_{};
  std::size_t told_{0};
  std::mutex mutex_{};
};

void add_to(std::vector<PassRun>& log, const FlowRow& row, double seconds, std::size_t changes) {
  const auto found = std::ranges::find(log, row.name, &PassRun::name);
  PassRun& entry = found != log.end() ? *found
                                      : log.emplace_back(PassRun{.name = std::string(row.name),
                                                                 .room = std::string(to_string(row.room)),
                                                                 .sentence = std::string(row.sentence)});
  entry.seconds += seconds;
  entry.changes += changes;
}

/// A room leaves nothing to later ones that these do not know.
void check_legality([[maybe_unused]] const FlowRow& row, [[maybe_unused]] const ir::Model& model) {
#ifdef TSQ_CHECKS_LEGALITY
  const auto rows = passes::flow();
  const bool ends_room = &row == &rows.back() || (&row + 1)->room != row.room;
  const std::string illegal = ends_room ? passes::illegal_after(row.room, model) : std::string();
  if (!illegal.empty()) throw Error(ErrorCode::Internal, illegal, "please report it with the model");
#endif
}

void check_options(const Stage& stage) {
  (void)decibel_price(stage.options);
  torchscript::check_reference_modules(stage.backend);
  if (!stage.equalization.empty() && stage.options.smooth_quant) {
    throw Error(ErrorCode::BadConfig, "smoothing and equalization both scale the channels of a layer's input",
                "ask for one of them");
  }
}

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

/// The mapping's QConfig for a standalone module, where it has no mapping of its own.
QConfigMapping global_mapping(const ir::Model& model, const std::string& path) {
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_standalone(model, node) || ir::call_of(model, node).path != path) continue;
    const ir::NodeRecord* record = ir::record_of(model, node);
    if (record != nullptr) return QConfigMapping().set_global(record->lookup.qconfig);
  }
  return {};
}

/// A table inside of a model that names no engine is for that of the model.
BackendConfig table_inside(const std::optional<BackendConfig>& own, const BackendConfig& around) {
  if (!own) return around;
  const bool names_engine =
      own->to_dict().contains("engine") || !engine_of_pytorch_table(own->name()).empty();
  return names_engine ? *own : BackendConfig(*own).set_engine(around.engine());
}

Stage configured_child(const Stage& stage, const ir::ModuleCall& call) {
  const StandaloneModuleConfig& config = *stage.custom.standalone_module(call.path, call.type);
  Stage child{
      .float_model = *call.module,
      .mapping = config.qconfig_mapping ? *config.qconfig_mapping : global_mapping(stage.model, call.path),
      .backend = table_inside(config.backend_config, stage.backend),
      .custom = config.prepare_custom_config,
      .options = stage.options,
      .trains = stage.trains};
  const bool is_fx = stage.options.recipe == Recipe::Fx;
  if (stage.trains && is_fx) child.mapping_around = mapping_within(stage.mapping, call.path);
  return child;
}

/// E-01: each standalone module is prepared as a model of its own.
void prepare_standalone_modules(Stage& stage) {
  for (const ir::ModuleCall& call : stage.model.calls) {
    if (!call.standalone || stage.standalone.contains(call.path)) continue;
    try {
      std::shared_ptr<Stage> child = prepared_stage(configured_child(stage, call));
      const auto outputs = child->model.graph->outputs();
      if (outputs.size() != 1 || outputs.front()->type()->kind() != c10::TypeKind::TensorType) {
        throw Error(ErrorCode::BadModel, "a standalone module must return one tensor",
                    "make it 'non_traceable', or choose a module inside it");
      }
      stage.standalone.emplace(call.path, std::move(child));
    } catch (const Error& error) {
      throw Error(error.code(), error.problem(), error.remedy(), Where{.layer = call.path});
    }
  }
  if (stage.trains) return;  // the training form finds the user's module by the call, and replaces it itself
  for (const auto& [path, child] : stage.standalone) set_standalone_modules(stage.model, path, child->module);
}

/// Standalone and observed modules would take what runs through the float graph for calibration data.
bool measures_mean_errors(const Stage& stage) {
  return stage.model.mean_errors.empty() && !stage.kept_samples.samples().empty() &&
         std::ranges::none_of(stage.model.calls,
                              [](const ir::ModuleCall& call) { return ir::is_opaque(call); });
}

/// What find_qparams, round_weights and correct_mean_errors will have to do.
Parts::Plan planned_parts(const ir::Model& prepared, std::span<const Sample> samples) {
  const auto count = [&](const auto& has) {
    return static_cast<std::size_t>(std::ranges::count_if(prepared.observers, [&](const auto& observer) {
      return observer.module.has_value() && has(observer.spec.observer);
    }));
  };
  const auto is_products = [](std::string_view name) { return name == observer_classes::kInputProducts; };
  const auto finds_range = [&](std::string_view name) {
    return !is_products(name) && name != observer_classes::kChannelStatistics &&
           name != observer_classes::kBranch && name != observer_classes::kInputEqualization;
  };
  return {count(finds_range), count(is_products), samples.size()};
}

/// The part of a stage's plan that is for a standalone module; none where the rules say it.
std::optional<Plan> plan_inside(const Stage& stage, const std::string& path) {
  const auto found = stage.plan->standalone.find(path);
  return found == stage.plan->standalone.end() ? std::nullopt : std::optional(found->second);
}

/// Whether recipe best has made nothing of a model. It rewrites graphs for int8 alone: then the result is the
/// model as it was, bit for bit.
bool is_as_it_was(const Stage& stage, const LoweringOptions& options, const Report& report) {
  return stage.options.recipe == Recipe::Best && !stage.trains && stage.standalone.empty() &&
         options.float_dtype == c10::ScalarType::Float && options.kept_reference.empty() &&
         std::ranges::none_of(report.decisions, &Decision::quantized);
}

/// A model of which a mapping quantizes nothing is not rewritten.
Module unchanged_module(const Stage& stage) {
  Stage unchanged{.float_model = stage.float_model,
                  .backend = stage.backend,
                  .options = stage.options,
                  .preserved_attributes = stage.preserved_attributes};
  const PassContext context = context_of(unchanged);
  for (const Step step : {Step::Fuse, Step::Match, Step::Observe, Step::Settle, Step::Convert, Step::Lower})
    detail::run(step, unchanged.model, context);
  return module_of(unchanged, torchscript::Layout::Flat);
}

/// Decision::node of the operators that a plan of the model places; empty for those that the report has not.
std::vector<std::string> planned_nodes(const ir::Model& model) {
  std::vector<std::string> nodes;
  for (const ir::Node* node : passes::planned_operators(model)) {
    const Decision* decision = ir::decision_of(model, node);
    nodes.push_back(decision == nullptr ? std::string() : decision->node);
  }
  return nodes;
}

/// Whether values of a prepared model are rounded, and not weights alone.
bool rounds_values(const ir::Model& model) {
  return std::ranges::any_of(ir::nodes_in_order(*model.graph), [&](const ir::Node* node) {
    return operators::is_static_rounding(model, node) || operators::is_dynamic_rounding(model, node);
  });
}

}  // namespace

void run(Step step, ir::Model& model, const PassContext& context, std::vector<PassRun>* log) {
  for (const FlowRow& row : passes::flow()) {
    if (row.step != step || !passes::is_taken(row, model, context)) continue;
    const Clock::time_point begin = Clock::now();
    const std::size_t changes = passes::run_row(row, model, context);
    check_legality(row, model);
    if (log != nullptr)
      add_to(*log, row, std::chrono::duration<double>(Clock::now() - begin).count(), changes);
  }
}

std::shared_ptr<const noise::NoiseByName> known_noise(const Stage& stage) {
  const bool chooses = stage.options.recipe == Recipe::Best && !stage.trains && rounds_values(stage.model);
  if (!chooses || stage.found == nullptr) return nullptr;
  const std::lock_guard lock(stage.found->mutex);
  if (stage.found->noise != nullptr || stage.kept_samples.samples().empty()) return stage.found->noise;
  Stage all = stage;
  all.kept_float.clear();
  all.convert_mapping.reset();
  try {
    stage.found->noise = noise_of(all, stage.kept_samples.samples(), Rounding::All);
  } catch (const std::exception& error) {  // with all rounded, the model may not run
    rethrow_out_of_memory(error);
  }
  return stage.found->noise;
}

Plan drafted_plan(const ir::Model& model, const PassContext& context, std::vector<PassRun>* log) {
  passes::Draft draft(model);
  run(Step::Plan, draft.model(), context, log);
  return draft.plan(context);
}

Module fused_module(const Module& model, const BackendConfig& backend, const FuseCustomConfig& custom) {
  Stage stage;
  stage.float_model = model;
  stage.backend = backend;
  stage.preserved_attributes = custom.preserved_attributes();
  stage.options.recipe = Recipe::Fx;
  stage.model.is_quantized = true;  // it is fused whatever a mapping would say
  run(Step::Fuse, stage.model, context_of(stage));
  return module_of(stage, torchscript::Layout::OfUser);
}

std::shared_ptr<Stage> prepared_stage(Stage configured) {
  check_options(configured);
  auto stage = std::make_shared<Stage>(std::move(configured));
  stage->preserved_attributes = stage->custom.preserved_attributes();
  const PassContext context = context_of(*stage);
  for (const Step step : {Step::Fuse, Step::Match, Step::Observe})
    run(step, stage->model, context, &stage->report.passes);
  prepare_standalone_modules(*stage);
  stage->module = module_of(*stage);
  stage->report = report_of(*stage);
  return stage;
}

Plan plan_of(const Stage& reference, const LoweringOptions& options) {
  Plan plan = *reference.plan;
  for (std::size_t i = 0; i < plan.operators.size(); ++i) {
    const auto kept = options.kept_reference.find(reference.planned_nodes.at(i));
    PlannedOperator& planned = plan.operators[i];
    if (kept == options.kept_reference.end() || planned.placement == Placement::Written) continue;
    planned.placement = Placement::Reference;
    planned.reason = Reason::KeptReference;
    planned.detail = kept->second;
  }
  for (const auto& [path, child] : reference.standalone)
    plan.standalone.insert_or_assign(path, plan_of(*child, options));
  return plan;
}

namespace {

/// `plan_is_given`: by the caller of convert. `measured`: the graph before rounding is kept, of what is
/// rounded then.
std::shared_ptr<Stage> converted_stage(const Stage& prepared, const ConvertOptions& options,
                                       bool plan_is_given, std::optional<Rounding> measured = {}) {
  auto stage = std::make_shared<Stage>(prepared);
  if (options.decibel_price) stage->options.decibel_price = options.decibel_price;
  stage->model = prepared.model.copy();
  stage->observed = std::make_shared<ir::Model>(with_own_observers(prepared.model));
  stage->convert_mapping = options.mapping;
  stage->convert_custom = options.custom;
  if (options.mapping || options.decibel_price || measured == Rounding::All) stage->plan.reset();
  if (options.plan) stage->plan = std::make_shared<const Plan>(*options.plan);
  // Files hold mean errors in the place of samples, measured before a mapping of convert is known: with one,
  // those are taken here as well.
  if (options.mapping) take_measured(stage->model, prepared);
  PassContext context = context_of(*stage);
  if (measures_mean_errors(*stage)) context.samples = prepared.kept_samples.samples();
  Parts parts(options.progress, planned_parts(prepared.model, context.samples));
  context.on_part = [&parts](passes::Part part, std::size_t count) { parts.advance(part, count); };
  stage->is_trained = stage->trains;
  detail::run(Step::Settle, stage->model, context, &stage->report.passes);
  if (!stage->plan) {
    context.places_all_in_int8 = measured == Rounding::All;
    if (!context.places_all_in_int8) context.noise = known_noise(prepared);
    stage->plan = std::make_shared<const Plan>(drafted_plan(stage->model, context, &stage->report.passes));
  }
  context.plan = stage->plan;
  context.plan_is_given = plan_is_given;
  context.is_for_noise = measured.has_value();
  stage->planned_nodes = planned_nodes(stage->model);
  for (const Step step : {Step::Place, Step::Convert})
    detail::run(step, stage->model, context, &stage->report.passes);
  stage->kept_samples = {};
  for (auto& [path, child] : stage->standalone) {
    child = converted_stage(*child, {.plan = plan_inside(*stage, path)}, plan_is_given);
    set_standalone_modules(stage->model, path, child->module);
  }
  stage->module = module_of(*stage);
  stage->report = report_of(*stage);
  parts.finish();
  return stage;
}

}  // namespace

std::shared_ptr<Stage> reference_stage(const Stage& prepared, const ConvertOptions& options) {
  return converted_stage(prepared, options, options.plan.has_value());
}

RoundedGraph rounded_graph(const Stage& calibrated, Rounding rounding) {
  ir::Model rounded = converted_stage(calibrated, {}, /*plan_is_given=*/false, rounding)->model.copy();
  std::shared_ptr<const ir::Model> exact = rounded.before_rounding;
  return {.exact = std::move(exact), .rounded = std::move(rounded)};
}

Lowered lowered_stage(const Stage& reference, const LoweringOptions& options) {
  Stage stage = reference;
  stage.model = reference.model.copy();
  if (options.target) stage.options.target = *options.target;
  if (stage.options.target == LoweringTarget::Fused) io::load_runtime();
  PassContext context = context_of(stage);
  context.lowering = options;
  run(Step::Lower, stage.model, context, &stage.report.passes);
  for (auto& [path, child] : stage.standalone) {
    const Lowered lowered = lowered_stage(*child, options);
    child = std::make_shared<Stage>(*child);
    child->report = lowered.report();
    set_standalone_modules(stage.model, path, lowered.module());
  }
  Report report = report_of(stage);
  Module module = is_as_it_was(stage, options, report) ? unchanged_module(stage)
                                                       : module_of(stage, torchscript::Layout::Flat);
  return Lowered(std::move(module), std::move(report));
}

void take_measured(ir::Model& model, const Stage& prepared) {
  const auto take = [&](const ir::Model& measured) {
    model.mean_errors = measured.mean_errors;
    model.input_factors = measured.input_factors;
  };
  if (measures_mean_errors(prepared)) {
    take(reference_stage(prepared)->model);
  } else {
    take(prepared.model);
  }
}

}  // namespace tsq::detail
