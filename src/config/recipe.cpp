#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/recipe.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "config/names/observer_classes.h"
#include "config/observers.h"

namespace tsq {
namespace {

/// In the order of TargetCpu.
constexpr std::array<std::string_view, 4> kTargetCpuNames{"native", "vnni", "without-vnni", "amx"};

/// The value whose to_string is `name`. Other names throw: "there is no WHAT 'NAME'".
template <typename Value>
Value value_of_name(const char* what, std::string_view name, std::initializer_list<Value> values,
                    const char* remedy) {
  const auto* const found =
      std::ranges::find_if(values, [&](Value value) { return to_string(value) == name; });
  if (found != values.end()) return *found;
  throw Error(ErrorCode::BadConfig, fmt::format("there is no {} '{}'", what, name), remedy);
}

/// All of quint8, in the range of the least error. Fixed and placeholder observers stay.
ObserverSpec with_whole_range(ObserverSpec activation) {
  if (activation.observer != observer_classes::kHistogram) return activation;
  return {.observer = observer_classes::kMSE};
}

/// Tables of embeddings with 8 bits and a scale a row. No range of an activation comes into it.
void quantize_embeddings(QConfigMapping& mapping, const QConfig& embedding) {
  mapping.set_object_type("torch.nn.Embedding", embedding)
      .set_object_type("torch.nn.EmbeddingBag", embedding)
      .set_object_type("torch.nn.functional.embedding", embedding)
      .set_object_type("torch.nn.functional.embedding_bag", embedding);
}

/// Their kernels find the ranges of inputs and states when they run: there are no others.
void quantize_recurrent(QConfigMapping& mapping) {
  const QConfig recurrent = qconfig("per_channel_dynamic_qconfig");
  for (const std::string_view type :
       {"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.LSTMCell", "torch.nn.GRUCell", "torch.nn.RNNCell"})
    mapping.set_object_type(type, recurrent);
}

constexpr int kEmbeddingBits = 8;

/// A weight is there at each step: there is nothing to average over steps.
ObserverSpec of_weight_as_it_is(ObserverSpec weight) {
  if (!weight.fake_quantize.empty()) weight.averaging_constant = 1;
  return weight;
}

}  // namespace

std::string_view to_string(Recipe recipe) { return recipe == Recipe::Best ? "best" : "fx"; }

Recipe recipe_from_name(std::string_view name) {
  return value_of_name("recipe", name, {Recipe::Fx, Recipe::Best}, "use 'fx' or 'best'");
}

std::string_view to_string(TargetCpu cpu) { return kTargetCpuNames[static_cast<std::size_t>(cpu)]; }

TargetCpu target_cpu_from_name(std::string_view name) {
  // As the profiles of processors are called.
  if (name == "avx2") return TargetCpu::WithoutVnni;
  if (name == "avx512-vnni") return TargetCpu::Vnni;
  return value_of_name("target CPU", name,
                       {TargetCpu::Native, TargetCpu::Vnni, TargetCpu::WithoutVnni, TargetCpu::Amx},
                       "use 'native', 'vnni', 'without-vnni', 'amx', 'avx2' or 'avx512-vnni'");
}

std::string_view to_string(LoweringTarget target) {
  return target == LoweringTarget::Fused ? "fused" : "stock";
}

LoweringTarget lowering_target_from_name(std::string_view name) {
  return value_of_name("target", name, {LoweringTarget::Stock, LoweringTarget::Fused},
                       "use 'stock' or 'fused'");
}

std::string_view to_string(WeightRounding rounding) {
  return rounding == WeightRounding::Learned ? "learned" : "nearest";
}

WeightRounding weight_rounding_from_name(std::string_view name) {
  return value_of_name("weight rounding", name, {WeightRounding::Nearest, WeightRounding::Learned},
                       "use 'nearest' or 'learned'");
}

std::string_view to_string(Effort effort) {
  constexpr std::array<std::string_view, 3> kNames{"low", "normal", "high"};
  return kNames.at(static_cast<std::size_t>(effort));
}

Effort effort_from_name(std::string_view name) {
  return value_of_name("effort", name, {Effort::Low, Effort::Normal, Effort::High},
                       "use 'low', 'normal' or 'high'");
}

std::optional<double> migration_strength(const RecipeOptions& options) {
  constexpr double kDefault = 0.5;
  const std::optional<double>& alpha = options.smooth_quant;
  if (alpha && !(*alpha >= 0 && *alpha <= 1)) {
    throw Error(ErrorCode::BadConfig, fmt::format("{} is not a migration strength for smoothing", *alpha),
                "use a number from 0 to 1");
  }
  return options.recipe == Recipe::Best ? alpha.value_or(kDefault) : alpha;
}

std::optional<double> cross_layer_margin(const RecipeOptions& options) {
  constexpr double kDefault = 2;
  const std::optional<double>& margin = options.cross_layer_margin;
  if (margin && !(*margin >= 1)) {
    throw Error(ErrorCode::BadConfig,
                fmt::format("{} is not a margin for equalization across layers", *margin),
                "use a number of at least 1");
  }
  return options.recipe == Recipe::Best ? std::optional(margin.value_or(kDefault)) : std::nullopt;
}

double decibel_price(const RecipeOptions& options) {
  constexpr double kDefault = 0.005;
  const double price = options.decibel_price.value_or(kDefault);
  if (!(price >= 0 && std::isfinite(price)))
    throw Error(ErrorCode::BadConfig, fmt::format("{} is no price of a decibel", price),
                "use a share of the network's time, as 0.005");
  return price;
}

QConfigMapping best_qconfig_mapping(std::string_view backend) {
  QConfigMapping mapping = default_qconfig_mapping(backend);
  mapping.set_global(
      QConfig{with_whole_range(mapping.global_qconfig()->activation), observers::per_channel_weight()});
  const auto entries = mapping.object_type_qconfigs();
  for (const auto& [type, qconfig] : entries) {
    if (!qconfig) continue;
    mapping.set_object_type(type, QConfig{with_whole_range(qconfig->activation), qconfig->weight});
  }
  quantize_embeddings(mapping, embedding_weight_only_qconfig(kEmbeddingBits));
  quantize_recurrent(mapping);
  return mapping;
}

QConfigMapping best_qat_qconfig_mapping(std::string_view backend) {
  QConfigMapping mapping = default_qat_qconfig_mapping(backend);
  const ObserverSpec seven_bits = mapping.global_qconfig()->activation;
  const ObserverSpec activation = observers::fused_activation();
  const ObserverSpec weight = of_weight_as_it_is(observers::fake_per_channel_weight());
  mapping.set_global(QConfig{activation, weight});
  const auto entries = mapping.object_type_qconfigs();
  for (const auto& [type, qconfig] : entries) {
    if (!qconfig) continue;
    const bool is_plain = qconfig->activation == seven_bits;
    mapping.set_object_type(
        type, QConfig{is_plain ? activation : qconfig->activation, of_weight_as_it_is(qconfig->weight)});
  }
  ObserverSpec slopes = observers::fake_activation();
  slopes.reduce_range = false;
  mapping.set_object_type("torch.nn.PReLU", QConfig{activation, of_weight_as_it_is(slopes)});
  quantize_embeddings(mapping, qconfig("default_embedding_qat_qconfig"));
  quantize_recurrent(mapping);
  return mapping;
}

QConfigMapping best_dynamic_qconfig_mapping() {
  QConfigMapping mapping;
  mapping.set_global(qconfig("per_channel_dynamic_qconfig"));
  quantize_embeddings(mapping, embedding_weight_only_qconfig(kEmbeddingBits));
  return mapping;
}

}  // namespace tsq
