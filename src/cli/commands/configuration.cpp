#include "cli/commands/configuration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/backends.h>
#include <tsq/error.h>
#include <tsq/files.h>
#include <tsq/machine_profile.h>
#include <tsq/quantize_model.h>
#include <tsq/recipe.h>
#include <tsq/runtime_library.h>
#include <tsq/train.h>

#include <array>
#include <filesystem>

#include "base/known_engines.h"
#include "base/module_files.h"
#include "base/recipe_options.h"
#include "cli/process/failure.h"
#include "cli/process/json_file.h"
#include "cli/process/options.h"

namespace tsq::cli {
namespace {

constexpr std::string_view kDefaultBackend = "x86";

/// A configuration whose files of modules are found from everywhere.
template <typename Config>
Config read_with_files(const std::string& path) {
  return read_config<Config>(path, [&](nlohmann::json& dict) {
    const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    for_files_of_modules(dict, [&](nlohmann::json& module) {
      module["file"] = (folder / module["file"].get<std::string>()).string();
    });
  });
}

/// A user's table is lowered for the engine of --backend; without the option for the one that it names.
BackendConfig table(const ConfigurationOptions& options) {
  const std::string fallback(kDefaultBackend);
  if (options.backend_config.empty())
    return backend_config(options.backend.empty() ? fallback : options.backend);
  auto own = read_with_files<BackendConfig>(options.backend_config);
  if (!options.backend.empty()) own.set_engine(options.backend);
  (void)own.engine();  // throws where it names none
  return own;
}

constexpr int kDefaultBits = 8;
constexpr int64_t kDefaultGroupSize = 64;

/// An option that was given, what it is about, and whether that is there.
struct Given {
  std::string_view option;
  bool given;
  bool counts;
  std::string_view about;
  std::string_view remedy;
};

/// An option that nothing reads would be a wish that is not heard.
void refuse_ignored(const ConfigurationOptions& options) {
  const bool own = !options.qconfig.empty();
  const bool weight_only = options.mode == "weight_only";
  const bool calibrates = options.mode == "static" || own;
  const bool best = options.recipe == "best";
  const bool trains = options.qat;
  constexpr std::string_view kCalibrated = "quantization without training";
  constexpr std::string_view kLeaveQatOut = "leave --qat out";
  const std::string_view kOwn = "the mapping of --qconfig sets it for each layer";
  const std::array<Given, 16> all{{
      {"--smooth-quant", options.smooth_quant.has_value(), !trains, kCalibrated, kLeaveQatOut},
      {"--weight-rounding", options.weight_rounding.has_value(), !trains, kCalibrated, kLeaveQatOut},
      {"--cross-layer-equalization", options.cross_layer_margin.has_value(), !trains, kCalibrated,
       kLeaveQatOut},
      {"--effort", options.effort.has_value(), !trains, kCalibrated, kLeaveQatOut},
      {"--bits", options.bits.has_value(), weight_only, "mode weight_only", "add --mode weight_only"},
      {"--bits", options.bits.has_value(), !own, kOwn, ""},
      {"--group-size", options.group_size.has_value(), weight_only, "linear layers with 4 bits",
       "add --mode weight_only --bits 4"},
      {"--group-size", options.group_size.has_value(), !own, kOwn, ""},
      {"--dtype", options.dtype.value_or("qint8") != "qint8", options.mode == "dynamic", "mode dynamic",
       "add --mode dynamic"},
      {"--dtype", options.dtype.has_value(), !own, kOwn, ""},
      {"--weight-rounding", options.weight_rounding.has_value(), best && calibrates,
       "recipe best in mode static", "choose these"},
      {"--cross-layer-equalization", options.cross_layer_margin.has_value(), best && calibrates,
       "recipe best in mode static", "choose these"},
      {"--decibel-price", options.decibel_price.has_value(), !trains, kCalibrated, kLeaveQatOut},
      {"--decibel-price", options.decibel_price.has_value(), best && !weight_only,
       "recipe best in modes static and dynamic", "choose these"},
      {"--effort", options.effort.has_value(), best, "recipe best", "add --recipe best"},
      {"--smooth-quant", options.smooth_quant.has_value(), !weight_only, "modes static and dynamic",
       "choose one of these"},
  }};
  for (const Given& each : all) {
    if (!each.given || each.counts) continue;
    if (each.about == kOwn)
      throw UsageError(
          fmt::format("{} cannot be used with --qconfig: {}; leave {} out", each.option, kOwn, each.option));
    throw UsageError(fmt::format("{} applies to {}, and this is mode {}, recipe {}{}; {}, or leave {} out",
                                 each.option, each.about, options.mode, options.recipe,
                                 trains ? ", with --qat" : "", each.remedy, each.option));
  }
}

QuantizeMode mode_of(const ConfigurationOptions& options) {
  if (options.mode == "dynamic") return QuantizeMode::Dynamic;
  return options.mode == "weight_only" ? QuantizeMode::WeightOnly : QuantizeMode::Static;
}

QConfigMapping mapping_for(const ConfigurationOptions& options, const BackendConfig& backend) {
  if (!options.qconfig.empty()) return read_config<QConfigMapping>(options.qconfig);
  if (options.dtype == "float16") return QConfigMapping().set_global(qconfig("float16_dynamic_qconfig"));
  if (options.mode == "weight_only") {
    return weight_only_qconfig_mapping(options.bits.value_or(kDefaultBits),
                                       options.group_size.value_or(kDefaultGroupSize));
  }
  const std::string_view engine = backend.engine();
  if (options.qat && options.mode != "dynamic") {
    return options.recipe == "best" ? best_qat_qconfig_mapping(engine) : default_qat_qconfig_mapping(engine);
  }
  return mode_qconfig_mapping(mode_of(options), recipe_from_name(options.recipe), engine);
}

/// What a file holds, or the default without one.
template <typename Config>
Config read_if_given(const std::string& path) {
  return path.empty() ? Config() : read_with_files<Config>(path);
}

}  // namespace

std::vector<std::string> ConfigurationOptions::files() const {
  return {backend_config, qconfig, equalization, prepare_custom, machine};
}

std::optional<double> share_of(const std::optional<double>& percent) {
  return percent ? std::optional(*percent / 100) : std::nullopt;
}

OptionRow decibel_price_option(std::optional<double>& percent) {
  return {"--decibel-price", into(percent),
          "How much longer, in percent, the model may take for a decibel less of noise in its outputs, for\n"
          "recipe best in modes static and dynamic (default: 0.5)",
          "PERCENT", CLI::Range(0.0, 1e6)};
}

namespace {

/// A row of one of a few words, and of kAuto where quantize chooses.
OptionRow with_choice(OptionRow row, std::vector<std::string_view> words, bool may_choose) {
  if (may_choose) words.push_back(kAuto);
  row.type = fmt::format("{}", fmt::join(words, "|"));
  row.check = one_of(std::move(words));
  return row;
}

void add_backend_options(const Command& command, ConfigurationOptions& options, bool may_choose) {
  constexpr auto kEngines = known_engines();
  add_options(
      command,
      {with_choice(
           {"--backend", into(options.backend), "The table of patterns and the kernels to quantize for"},
           {kEngines.begin(), kEngines.end()}, may_choose),
       configuration_input({"--backend-config", into(options.backend_config),
                            "A table of your own, as 'tsq backend-config show' prints it", "B.json"})});
}

}  // namespace

void add_backend_options(const Command& command, ConfigurationOptions& options) {
  add_backend_options(command, options, /*may_choose=*/false);
}

void add_configuration_options(const Command& command, ConfigurationOptions& options, bool may_choose) {
  add_backend_options(command, options, may_choose);
  command.app.get_option("--backend")
      ->description(may_choose
                        ? "The table of patterns and the kernels to quantize for; auto: those of which "
                          "the model is fastest\nhere and as accurate (default: x86)"
                        : "The table of patterns and the kernels to quantize for (default: x86)");
  add_options(
      command,
      {configuration_input(
           {"--qconfig", into(options.qconfig),
            "The observers of each layer, as 'tsq qconfig show' prints them\n(default: that of the "
            "recipe and the backend)",
            "Q.json"}),
       configuration_input(
           {"--prepare-custom-config", into(options.prepare_custom),
            "Standalone and non-traceable modules, inputs and outputs that are already quantized,\n"
            "attributes to keep; with PyTorch's keys",
            "P.json"}),
       configuration_input({"--equalization", into(options.equalization),
                            "The layers whose input and weight ranges are balanced, channel by channel\n"
                            "(default: none)",
                            "E.json"}),
       {"--mode", into(options.mode),
        "static: activations by calibration; dynamic: activations at run time;\n"
        "weight_only: only weights of embeddings and linear layers (default: static)",
        "static|dynamic|weight_only", one_of({"static", "dynamic", "weight_only"})},
       {"--dtype", into(options.dtype), "Weights in mode dynamic: 8 bits or half precision (default: qint8)",
        "qint8|float16", one_of({"qint8", "float16"})},
       {"--bits", into(options.bits),
        "Bits of a weight in mode weight_only; with 2, linear layers have 4 (default: 8)", "8|4|2",
        one_of({"8", "4", "2"})},
       {"--group-size", into(options.group_size),
        "Columns of a linear layer's 4-bit weight that share a scale (default: 64)", "32|64|128|256",
        one_of({"32", "64", "128", "256"})},
       {"--recipe", into(options.recipe),
        "fx: does exactly what PyTorch's FX quantization does; best: keeps the model's accuracy\n"
        "(default: best)",
        "fx|best", one_of({"fx", "best"})},
       {"--target-cpu", into(options.target_cpu),
        "The processor that the model will run on: this one, or one with or without VNNI, or with\n"
        "AMX; avx512-vnni is another word for vnni, avx2 for without-vnni (default: native)",
        "native|vnni|without-vnni|amx",
        one_of({"native", "vnni", "without-vnni", "amx", "avx2", "avx512-vnni"})},
       with_choice(
           {"--target", into(options.target),
            "What runs the model: stock: LibTorch's kernels, in every LibTorch; fused: programs on oneDNN,\n"
            "where libtsq_runtime is loaded (default: stock)"},
           {"stock", "fused"}, may_choose),
       {"--smooth-quant", into(options.smooth_quant),
        "Migration strength, 0 to 1: outliers in the input of linear layers after a LayerNorm move to\n"
        "the weights (default: 0.5 in recipe best, no smoothing in fx)",
        "ALPHA", CLI::Range(0.0, 1.0)},
       {"--cross-layer-equalization", into(options.cross_layer_margin),
        "Channels between two layers are scaled to fill the range of their tensor, with room for "
        "this many\n"
        "times their largest calibrated value, for recipe best in mode static (default: 2)",
        "MARGIN", CLI::Range(1.0, 1e9)},
       {"--weight-rounding", into(options.weight_rounding),
        "How weights are rounded, for recipe best in mode static: up or down, whichever lowers the error\n"
        "of the layer's output, or to the nearest code, which calibrates faster (default: learned)",
        "nearest|learned", one_of({"nearest", "learned"})},
       {"--effort", into(options.effort),
        "What recipe best may cost. low: weights are rounded to nearest, and the result is tried once;\n"
        "normal: the trial takes no longer than calibration and conversion; high: everything is measured\n"
        "on all data (default: normal)",
        "low|normal|high", one_of({"low", "normal", "high"})},
       decibel_price_option(options.decibel_price),
       {"--python-source", into(options.python_source),
        "Read the Python files that a traced model names, where they are here, to tell x + y from\n"
        "torch.add(x, y) as FX does; the result then depends on these files"}});
  add_machine_option(command, options);
}

void add_machine_option(const Command& command, ConfigurationOptions& options) {
  add_options(
      command,
      {configuration_input(
          {"--machine", into(options.machine),
           "What kernels take on the machine that the model will run on, as 'tsq tune' has measured it\n"
           "there (default: what they take on processors like --target-cpu)",
           "machine.json"})});
}

std::shared_ptr<const MachineProfile> named_machine(const ConfigurationOptions& options) {
  return options.machine.empty() ? nullptr : load_machine_profile(options.machine);
}

void add_lowering_options(const Command& command, ConfigurationOptions& options) {
  add_options(command, {{"--float-dtype", into(options.float_dtype),
                         "Operators that stay float compute in this dtype where that pays (default: float32)",
                         "float32|bfloat16", one_of({"float32", "bfloat16"})}});
}

LoweringOptions lowering_options(const ConfigurationOptions& options) {
  return {.float_dtype = dtype_from_name(options.float_dtype)};
}

Configuration configuration(const ConfigurationOptions& options) {
  refuse_ignored(options);
  BackendConfig backend =
      mode_backend_config(mode_of(options), recipe_from_name(options.recipe), table(options));
  QConfigMapping mapping = mapping_for(options, backend);
  return {
      .backend = std::move(backend),
      .mode = mode_of(options),
      .mapping = std::move(mapping),
      .custom = read_if_given<PrepareCustomConfig>(options.prepare_custom),
      .equalization = read_if_given<EqualizationMapping>(options.equalization),
      .recipe = {.recipe = recipe_from_name(options.recipe),
                 .target_cpu = target_cpu_from_name(options.target_cpu.value_or("native")),
                 .target = lowering_target_from_name(options.target.value_or("stock")),
                 .machine = named_machine(options),
                 .smooth_quant = options.smooth_quant,
                 .cross_layer_margin = options.cross_layer_margin,
                 .weight_rounding = weight_rounding_from_name(options.weight_rounding.value_or("learned")),
                 .effort = effort_from_name(options.effort.value_or("normal")),
                 .decibel_price = share_of(options.decibel_price),
                 .python_source = options.python_source}};
}

Prepared prepared_model(const torch::jit::Module& model, const Configuration& chosen) {
  return prepare(
      model, chosen.mapping, chosen.backend,
      detail::with_recipe(PrepareOptions{.custom = chosen.custom, .equalization = chosen.equalization},
                          chosen.recipe));
}

void add_convert_options(const Command& command, ConvertConfigurationOptions& options) {
  add_options(
      command,
      {configuration_input(
           {"--convert-custom-config", into(options.custom),
            "Further attributes to keep, and what observed modules become; with PyTorch's keys", "C.json"}),
       configuration_input(
           {"--convert-qconfig", into(options.qconfig),
            "The mapping of prepare, with null for operators that are to stay float after all", "Q.json"}),
       configuration_input({"--plan", into(options.plan),
                            "What to do with each operator and value: a plan that --plan-output has written, "
                            "edited or not",
                            "P.json"}),
       output({"--plan-output", into(options.plan_output),
               "Also write the plan: which operators compute in int8, and which values are rounded",
               "P.json"})});
}

Configuration configuration_to_lower(const ConfigurationOptions& options) {
  Configuration chosen = configuration(options);
  if (chosen.recipe.target != LoweringTarget::Fused) return chosen;
  if (const std::string reason = load_runtime_library(); !reason.empty())
    throw Error(ErrorCode::Unsupported, fmt::format("fused programs need {}: {}", kRuntimeLibrary, reason),
                "install it beside the program, or name it with --library (scripts/setup.sh installs the "
                "oneDNN that it "
                "is built with)");
  return chosen;
}

ConvertOptions convert_options(const ConvertConfigurationOptions& options) {
  if (!options.qconfig.empty() && !options.plan.empty())
    throw UsageError("--convert-qconfig and --plan both say what stays float; give one of them");
  ConvertOptions chosen{.custom = read_if_given<ConvertCustomConfig>(options.custom)};
  if (!options.qconfig.empty()) chosen.mapping = read_config<QConfigMapping>(options.qconfig);
  if (!options.plan.empty()) chosen.plan = read_config<Plan>(options.plan);
  return chosen;
}

nlohmann::json metadata_of_step(const std::string& path) {
  nlohmann::json metadata = read_metadata(path);
  return metadata.is_null() ? training_metadata(load(path)) : metadata;
}

BackendConfig backend_for(const ConfigurationOptions& options, const std::string& path) {
  const nlohmann::json metadata = metadata_of_step(path);
  const auto text = [&](const char* key, std::string_view otherwise) {
    const bool is_there = metadata.is_object() && metadata.contains(key) && metadata[key].is_string();
    return is_there ? metadata[key].get<std::string>() : std::string(otherwise);
  };
  std::optional<BackendConfig> of_file;
  if (metadata.is_object() && metadata.contains("backend_config") && metadata["backend_config"].is_object())
    of_file = BackendConfig::from_dict(metadata["backend_config"]);
  const bool is_asked = !options.backend.empty() || !options.backend_config.empty();
  const bool names_that_of_file =
      of_file && options.backend_config.empty() && options.backend == of_file->engine();
  if (of_file && (!is_asked || names_that_of_file)) return *of_file;
  if (!is_asked) return backend_config(text("backend", kDefaultBackend));
  // As prepare has completed it.
  const QuantizeMode mode =
      text("mode", "static") == "weight_only" ? QuantizeMode::WeightOnly : QuantizeMode::Static;
  return mode_backend_config(mode, recipe_from_name(text("recipe", "best")), table(options));
}

}  // namespace tsq::cli
