// The public verbs.

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <tsq/error.h>
#include <tsq/quantize.h>
#include <tsq/runtime_library.h>

#include <optional>

#include "backends/kernels/engine.h"
#include "base/callers_exception.h"
#include "base/libtorch_error.h"
#include "base/recipe_options.h"
#include "io/archive.h"
#include "io/deflated.h"
#include "io/empty_tensors.h"
#include "io/samples.h"
#include "ir/analysis.h"
#include "ir/value_numbers.h"
#include "passes/place/uncalibrated.h"
#include "pipeline/calibration_run.h"
#include "pipeline/evaluation_mode.h"
#include "pipeline/operator_watch.h"
#include "pipeline/run.h"
#include "pipeline/stage_file.h"
#include "torchscript/float_model.h"
#include "torchscript/kept_state.h"

namespace tsq {
namespace {

using detail::Stage;
using torch::jit::Module;

void check_tensor(const at::Tensor& tensor, const std::string& place) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return;
  if (at::isfinite(tensor).all().item<bool>()) return;
  throw Error(ErrorCode::BadData, place + " holds NaN or infinite values",
              "clean the calibration data: ranges come from it");
}

/// forward takes `self` and the sample's values.
void check_sample(const c10::FunctionSchema& schema, const Sample& sample, std::size_t index) {
  std::size_t required = 0;
  for (const auto& argument : schema.arguments()) required += argument.default_value() ? 0 : 1;
  const std::size_t allowed = schema.arguments().size() - 1;
  if (sample.size() + 1 < required || sample.size() > allowed) {
    throw Error(ErrorCode::BadData,
                fmt::format("sample {} has {} value{}, the model's forward takes {}", index, sample.size(),
                            sample.size() == 1 ? "" : "s",
                            required == allowed + 1 ? std::to_string(allowed)
                                                    : fmt::format("{} to {}", required - 1, allowed)),
                "give each sample as the tuple of forward's arguments");
  }
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const auto& argument = schema.arguments()[i + 1];
    const std::string place = fmt::format("sample {}, argument '{}'", index, argument.name());
    if (!sample[i].type()->isSubtypeOf(*argument.type())) {
      throw Error(ErrorCode::BadData,
                  fmt::format("{} is a {}, the model's forward takes {}", place, sample[i].type()->str(),
                              argument.type()->str()),
                  "give each sample as the tuple of forward's arguments");
    }
    if (sample[i].isTensor()) check_tensor(sample[i].toTensor(), place);
  }
  if (io::has_only_empty_tensors(sample)) {
    throw Error(ErrorCode::BadData, fmt::format("sample {} holds empty tensors only", index),
                "leave it out of the calibration data: it has no values to find ranges from");
  }
}

/// "float32 1x3x8x8, int".
std::string kind_of(const Sample& sample) {
  std::vector<std::string> kinds;
  for (const c10::IValue& value : sample) {
    kinds.push_back(value.isTensor() ? fmt::format("{} {}", dtype_name(value.toTensor().scalar_type()),
                                                   fmt::join(value.toTensor().sizes(), "x"))
                                     : value.type()->annotation_str());
  }
  return fmt::format("{}", fmt::join(kinds, ", "));
}

/// "the observer of 'scores' in layer 'encoder.attention'", or the path of another module.
std::string place_in_prepared(const ir::Model& model, const std::string& path) {
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_observer(node)) continue;
    const ir::ObserverEntry& entry = ir::observer_of(model, node);
    if (path != entry.name && !path.starts_with(entry.name + '.')) continue;
    const std::string layer = entry.layer.empty() ? "" : fmt::format(" in layer '{}'", entry.layer);
    return fmt::format("the observer of '{}'{}", node->input(0)->debugName(), layer);
  }
  return fmt::format("'{}'", path);
}

/// Where a prepared model fails: runs a copy of it once more, and sees what it calls last.
std::string place_of_failure(const Stage& stage, const std::string& method, const Sample& sample) {
  Module module = stage.module.deepcopy();
  detail::LayerNames names(module);
  std::string last;
  const detail::OperatorWatch watch([&](const at::RecordFunction& function) { last = names.of(function); },
                                    [](const at::RecordFunction&) {}, /*with_outputs=*/false);
  try {
    module.get_method(method)(detail::copy_of(sample));
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
  }
  return last.empty() ? last : place_in_prepared(stage.model, last);
}

/// What to do about a sample that the float model does not take.
std::string sample_remedy(const Sample& sample) {
  for (std::size_t i = 0; i < sample.size(); ++i) {
    if (sample[i].isTensor() && sample[i].toTensor().scalar_type() == at::kByte)
      return fmt::format(
          "its input {} is of dtype uint8, as images are in files: convert it to float as for training, or "
          "do "
          "so in the model",
          i);
  }
  return "give samples that the float model takes";
}

/// Why a prepared model cannot run on a sample: observers take what float operators take, so what the float
/// model runs on is no fault of the sample.
Error run_failure(const Stage& stage, const std::string& method, const Sample& sample, std::size_t index,
                  const std::exception& error) {
  rethrow_out_of_memory(error);
  try {
    Module model = stage.float_model.deepcopy();
    model.eval();
    model.get_method(method)(detail::copy_of(sample));
  } catch (const std::exception& in_float) {
    return run_error("the model", index, in_float, sample_remedy(sample));
  }
  const std::string place = place_of_failure(stage, method, sample);
  return Error(ErrorCode::Internal,
               fmt::format("the prepared model cannot run on sample {}, which the float model takes{}: {}",
                           index, place.empty() ? "" : fmt::format(": {} fails", place), reason_of(error)),
               "please report it with the model");
}

/// Tables that were read from a file are spelled as in it: equal ones are written alike.
bool are_equal(const BackendConfig& one, const BackendConfig& other) {
  return one == other || one.to_dict() == other.to_dict();
}

/// The table that a model was prepared for decided where observers are, and of which kind.
void check_backend(const Stage& stage, const BackendConfig& backend, const char* verb) {
  const std::string& name = stage.backend.name();
  if (name != backend.name()) {
    throw Error(ErrorCode::BadConfig,
                fmt::format("the model was prepared for backend '{}' and cannot be {} for '{}'", name, verb,
                            backend.name()),
                fmt::format("prepare it again for that backend, or give the table of '{}'", name));
  }
  if (are_equal(stage.backend, backend)) return;
  throw Error(
      ErrorCode::BadConfig,
      fmt::format("the model was prepared with another table of backend '{}' than it is to be {} with", name,
                  verb),
      "give the same table to each step (Prepared::backend returns it), or prepare the model again");
}

/// bfloat16 without instructions for it is slower than float.
void check_float_dtype(c10::ScalarType dtype) {
  if (dtype == c10::ScalarType::Float) return;
  if (dtype != c10::ScalarType::BFloat16) {
    throw Error(ErrorCode::BadConfig, fmt::format("the float dtype cannot be {}", dtype_name(dtype)),
                "use float or bfloat16");
  }
  const auto supported = c10::Dispatcher::singleton().findSchema({"mkldnn::_is_mkldnn_bf16_supported", ""});
  torch::jit::Stack stack;
  if (supported) supported->callBoxed(&stack);
  if (stack.empty() || !stack.back().toBool()) {
    throw Error(ErrorCode::Unsupported,
                "this machine has no instructions for bfloat16, which would be slower than float",
                "do not change the float dtype");
  }
}

/// Whether a part of the model, or of a standalone module in it, is a fused program.
bool holds_programs(const Module& module) {
  const auto is_program = [](const c10::ClassAttribute& attribute) {
    return attribute.getType()->str().ends_with(kProgramClass);
  };
  for (const Module& part : module.modules()) {
    if (std::ranges::any_of(part.type()->getAttributes(), is_program)) return true;
  }
  return false;
}

}  // namespace

Prepared::Prepared(const Prepared& other) : stage_(detail::independent_copy(*other.stage_)) {}
Prepared& Prepared::operator=(const Prepared& other) { return *this = Prepared(other); }
Reference::Reference(const Reference& other) : stage_(detail::independent_copy(*other.stage_)) {}
Reference& Reference::operator=(const Reference& other) { return *this = Reference(other); }

const Module& Prepared::module() const& { return stage_->module; }
Module Prepared::module() && { return stage_->module; }
const Report& Prepared::report() const& { return stage_->report; }
Report Prepared::report() && { return stage_->report; }
const QConfigMapping& Prepared::mapping() const& { return stage_->mapping; }
const BackendConfig& Prepared::backend() const& { return stage_->backend; }
const Module& Prepared::float_model() const& { return stage_->float_model; }
bool Prepared::trains() const noexcept { return stage_->trains; }
const Module& Reference::module() const& { return stage_->module; }
Module Reference::module() && { return stage_->module; }
const Report& Reference::report() const& { return stage_->report; }
Report Reference::report() && { return stage_->report; }
Plan Reference::plan() const { return detail::plan_of(*stage_); }

struct Lowered::Parts {
  Module module{};
  Report report{};
};
Lowered::Lowered(Module module, Report report)
    : parts_(std::make_shared<const Parts>(Parts{std::move(module), std::move(report)})) {}
const Module& Lowered::module() const& noexcept { return parts_->module; }
Module Lowered::module() && { return parts_->module; }
const Report& Lowered::report() const& noexcept { return parts_->report; }
Report Lowered::report() && { return parts_->report; }

Prepared prepare(const Module& model, const QConfigMapping& mapping, const BackendConfig& backend,
                 const PrepareOptions& options) {
  torchscript::check_float_model(model);
  const at::NoGradGuard no_grad;
  return Stage::make<Prepared>(detail::prepared_stage({.float_model = model,
                                                       .mapping = mapping,
                                                       .backend = backend,
                                                       .custom = options.custom,
                                                       .equalization = options.equalization,
                                                       .options = detail::recipe_options(options)}));
}

void calibrate(Prepared& prepared, std::span<const Sample> samples, const CalibrateOptions& options) {
  if (samples.empty())
    throw Error(ErrorCode::BadData, "there are no calibration samples", "give at least one");
  const at::NoGradGuard no_grad;
  // Specialising for the shapes of a few batches costs more than it saves.
  const torch::jit::GraphOptimizerEnabledGuard no_specialisation(false);
  Stage& stage = detail::stage_of(prepared);
  stage.model.mean_errors.clear();
  stage.model.input_factors.clear();
  stage.found = std::make_shared<detail::FoundOnce>();
  stage.ranges_left = {};
  stage.plan.reset();
  const detail::CalibrationRun run(prepared.module(), options.method, ir::unobserved_values(stage.model));
  // What the calls leave behind is no part of what is converted: it begins as the float model does.
  const torchscript::KeptState state(prepared.module(), {options.method}, detail::observing_modules(stage));
  std::optional<detail::EvaluationMode> evaluation_mode;  // batch norms keep their statistics
  if (stage.trains) evaluation_mode.emplace(prepared.module());
  // Of a model that keeps state, what is kept is the beginning of one sequence.
  const bool keeps_samples = stage.options.recipe == Recipe::Best && options.method == "forward" &&
                             (!state.is_read() || stage.kept_samples.samples().empty());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    check_sample(run.schema(), samples[i], i);
    ++stage.seen[kind_of(samples[i])];
    if (keeps_samples && state.is_read()) {
      stage.kept_samples.add_next(samples[i]);
    } else if (keeps_samples) {
      stage.kept_samples.add(samples[i]);
    }
    try {
      const bool counts = i + detail::size_of_last_part(samples.size()) >= samples.size();
      // The model may write into its arguments.
      run(detail::copy_of(samples[i]), counts ? &stage.ranges_left : nullptr,
          stage.trains ? nullptr : &stage.model.facts);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw run_failure(stage, options.method, samples[i], i, error);
    }
    if (options.progress) options.progress(i + 1, samples.size());
  }
}

Reference convert_to_reference(const Prepared& prepared, const BackendConfig& backend,
                               const ConvertOptions& options) {
  const Stage& stage = detail::stage_of(prepared);
  check_backend(stage, backend, "converted");
  const at::NoGradGuard no_grad;
  // Samples may reach no observer: what is observed lies in branches that they do not take.
  if (!options.custom.allow_uncalibrated() && stage.seen.empty() && passes::is_uncalibrated(stage.model)) {
    throw Error(ErrorCode::BadConfig,
                "the prepared model has seen no data, so that no range of a value is known",
                fmt::format("{} it first, or convert it anyway with --allow-uncalibrated "
                            "(ConvertCustomConfig::set_allow_uncalibrated)",
                            stage.trains ? "train" : "calibrate"));
  }
  (void)decibel_price({.decibel_price = options.decibel_price});
  if (options.plan && options.decibel_price)
    throw Error(ErrorCode::BadConfig, "a plan and a price of a decibel both say what is in int8",
                "give one of them");
  if (options.plan && options.mapping)
    throw Error(ErrorCode::BadConfig, "a plan and a mapping of convert both say what stays float",
                "give one of them");
  ConvertOptions guarded = options;
  guarded.progress = detail::of_caller(options.progress);
  auto reference = detail::with_callers_exceptions([&] { return detail::reference_stage(stage, guarded); });
  const auto& more = options.custom.preserved_attributes();
  if (!more.empty()) {
    reference->preserved_attributes.insert(reference->preserved_attributes.end(), more.begin(), more.end());
    reference->module = detail::module_of(*reference);
  }
  return Stage::make<Reference>(std::move(reference));
}

Lowered lower(const Reference& reference, const BackendConfig& backend, const LoweringOptions& options) {
  const Stage& stage = detail::stage_of(reference);
  check_float_dtype(options.float_dtype);
  (void)engine_of(backend, /*must_have_kernels=*/true);
  check_backend(stage, backend, "lowered");
  const at::NoGradGuard no_grad;
  Lowered lowered = detail::lowered_stage(stage, options);
  nlohmann::json metadata = detail::metadata_of(stage, "quantized");
  if (holds_programs(lowered.module())) metadata["libraries"] = nlohmann::json::array({kRuntimeLibrary});
  if (stage.plan) {
    Plan plan = detail::plan_of(stage, options);
    plan.prediction.reset();  // what was expected before the model was made
    metadata["plan"] = io::deflated(plan.to_dict().dump());
  }
  if (options.float_dtype != c10::ScalarType::Float)
    metadata["float_dtype"] = dtype_name(options.float_dtype);
  Module module = lowered.module();  // copies share the module
  module.register_attribute(io::kMetadataAttribute, c10::StringType::get(), metadata.dump());
  return lowered;
}

Lowered convert(const Prepared& prepared, const BackendConfig& backend, const ConvertOptions& options,
                const LoweringOptions& lowering) {
  return lower(convert_to_reference(prepared, backend, options), backend, lowering);
}

Module fuse(const Module& model, const BackendConfig& backend, const FuseCustomConfig& custom) {
  torchscript::check_float_model(model);
  const at::NoGradGuard no_grad;
  return detail::fused_module(model, backend, custom);
}

std::string version() { return TSQ_VERSION; }

}  // namespace tsq
