#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/error.h>
#include <tsq/qconfig.h>

#include <algorithm>
#include <array>

#include "base/known_engines.h"
#include "base/text.h"
#include "config/json.h"
#include "config/json_config.h"
#include "config/observer_classes.h"
#include "config/observers.h"

namespace tsq {
namespace {

using c10::ScalarType;
using namespace observers;

struct NamedQConfig {
  std::string_view name;
  QConfig (*make)();
};

QConfig qat_default() { return {fake_activation(), fake_weight()}; }
QConfig symmetric_qnnpack() { return {histogram_symmetric_qnnpack(), weight_neg_127_to_127()}; }
QConfig symmetric_qnnpack_per_channel() {
  return {histogram_symmetric_qnnpack(), per_channel_weight_neg_127_to_127()};
}

/// Source: torch/ao/quantization/qconfig.py, in its order.
constexpr std::array kNamedQConfigs{
    NamedQConfig{"default_qconfig",
                 [] {
                   return QConfig{min_max_activation(), weight()};
                 }},
    NamedQConfig{"default_debug_qconfig",
                 [] {
                   return QConfig{recording(), weight()};
                 }},
    NamedQConfig{"default_per_channel_qconfig",
                 [] {
                   return QConfig{min_max_activation(), per_channel_weight()};
                 }},
    NamedQConfig{"default_dynamic_qconfig",
                 [] {
                   return QConfig{dynamic_activation(), weight()};
                 }},
    NamedQConfig{"float16_dynamic_qconfig",
                 [] {
                   return QConfig{dynamic_float16(), placeholder(ScalarType::Half)};
                 }},
    NamedQConfig{"float16_static_qconfig",
                 [] {
                   return QConfig{placeholder(ScalarType::Half), placeholder(ScalarType::Half)};
                 }},
    NamedQConfig{"per_channel_dynamic_qconfig",
                 [] {
                   return QConfig{dynamic_activation(), per_channel_weight()};
                 }},
    NamedQConfig{"float_qparams_weight_only_qconfig",
                 [] {
                   return QConfig{placeholder(), float_qparams_weight(ScalarType::QUInt8)};
                 }},
    NamedQConfig{"float_qparams_weight_only_qconfig_4bit",
                 [] {
                   return QConfig{placeholder(), float_qparams_weight(ScalarType::QUInt4x2)};
                 }},
    NamedQConfig{"default_qat_qconfig", qat_default},
    NamedQConfig{"default_dynamic_qat_qconfig",
                 [] {
                   return QConfig{fake_dynamic_activation(), fake_weight()};
                 }},
    NamedQConfig{"default_weight_only_qconfig",
                 [] {
                   return QConfig{identity(), fake_weight()};
                 }},
    NamedQConfig{"default_activation_only_qconfig",
                 [] {
                   return QConfig{fake_activation(), identity()};
                 }},
    NamedQConfig{"default_qat_qconfig_v2",
                 [] {
                   return QConfig{fused_activation(), fused_weight()};
                 }},
    NamedQConfig{"default_reuse_input_qconfig",
                 [] {
                   return QConfig{reuse_input(), noop()};
                 }},
    NamedQConfig{"default_symmetric_qnnpack_qconfig", symmetric_qnnpack},
    NamedQConfig{"default_per_channel_symmetric_qnnpack_qconfig", symmetric_qnnpack_per_channel},
    NamedQConfig{"default_embedding_qat_qconfig",
                 [] {
                   return QConfig{noop(ScalarType::Float), fake_embedding()};
                 }},
    NamedQConfig{"default_embedding_qat_qconfig_4bit",
                 [] {
                   return QConfig{noop(ScalarType::Float), fake_embedding_4bit()};
                 }},
    NamedQConfig{"default_quint8_weight_qconfig",
                 [] {
                   return QConfig{histogram(), min_max()};
                 }},
    NamedQConfig{"default_symmetric_qnnpack_qat_qconfig",
                 [] {
                   return QConfig{fused_symmetric_activation(), fused_weight_neg_127_to_127()};
                 }},
    NamedQConfig{"default_per_channel_symmetric_qnnpack_qat_qconfig",
                 [] {
                   return QConfig{fused_symmetric_activation(), fused_per_channel_weight_neg_127_to_127()};
                 }},
};

constexpr std::array<int64_t, 4> kGroupSizes{32, 64, 128, 256};

constexpr std::array<std::string_view, 2> kQConfigKeys{"activation", "weight"};

void check_engine(std::string_view backend) {
  if (!is_known_engine(backend))
    throw Error(ErrorCode::BadConfig,
                fmt::format("there is no default QConfig for the backend '{}'", backend),
                suggestion(backend, known_engines()));
}

[[noreturn]] void fail_version(int version, std::string_view allowed) {
  throw Error(ErrorCode::BadConfig, fmt::format("there is no version {} of the default QConfigs", version),
              fmt::format("use version {}", allowed));
}

/// FBGEMM's kernels add products of neighbours in 16 bits, so their activations leave one bit free.
bool reduces_range(std::string_view backend) { return runs_fbgemm(backend); }

/// What get_default_qat_qconfig returns as reduce_range: nothing at all for onednn.
std::optional<bool> given_reduce_range(std::string_view backend) {
  if (backend == "onednn") return std::nullopt;
  return reduces_range(backend);
}

}  // namespace

QConfig qconfig(std::string_view name) {
  const std::string_view bare = without_prefix(name, "torch.ao.quantization.");
  const auto found = std::ranges::find(kNamedQConfigs, bare, &NamedQConfig::name);
  if (found != kNamedQConfigs.end()) return found->make();
  throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not a named QConfig", name),
              suggestion(bare, qconfig_names()));
}

std::vector<std::string_view> qconfig_names() { return names_of(kNamedQConfigs, &NamedQConfig::name); }

QConfig default_qconfig(std::string_view backend, int version) {
  check_engine(backend);
  if (version != 0) fail_version(version, "0");
  return {histogram(reduces_range(backend)), backend == "qnnpack" ? weight() : per_channel_weight()};
}

QConfig default_qat_qconfig(std::string_view backend, int version) {
  check_engine(backend);
  if (version != 0 && version != 1) fail_version(version, "0 or 1");
  const bool fused = version == 1;
  ObserverSpec activation{.observer = observer_classes::kMovingAverageMinMax,
                          .fake_quantize = fused ? "FusedMovingAvgObsFakeQuantize" : "FakeQuantize",
                          .reduce_range = given_reduce_range(backend),
                          .quant_min = 0,
                          .quant_max = 255};
  if (backend == "qnnpack") return {std::move(activation), fused ? fused_weight() : fake_weight()};
  return {std::move(activation), fused ? fused_per_channel_weight() : fake_per_channel_weight()};
}

QConfig weight_only_qconfig(int bits, int64_t group_size) {
  if (bits == 8) return {placeholder(), per_channel_weight()};
  if (bits != 4) {
    throw Error(ErrorCode::BadConfig, fmt::format("linear layers cannot have weights of {} bits", bits),
                "use 8 or 4");
  }
  if (std::ranges::find(kGroupSizes, group_size) == kGroupSizes.end()) {
    throw Error(ErrorCode::BadConfig, fmt::format("no kernel takes a group size of {}", group_size),
                fmt::format("use one of {}", fmt::join(kGroupSizes, ", ")));
  }
  ObserverSpec weight = float_qparams_weight(ScalarType::QUInt4x2);
  weight.group_size = group_size;
  return {placeholder(), weight};
}

QConfig embedding_weight_only_qconfig(int bits) {
  switch (bits) {
    case 8:
      return qconfig("float_qparams_weight_only_qconfig");
    case 4:
      return qconfig("float_qparams_weight_only_qconfig_4bit");
    case 2:
      return {placeholder(), float_qparams_weight(ScalarType::QUInt2x4)};
    default:
      throw Error(ErrorCode::BadConfig, fmt::format("embeddings cannot have rows of {} bits", bits),
                  "use 8, 4 or 2");
  }
}

QConfig read_qconfig(const JsonValue& at) {
  if (at.is_string()) return with_path(at, [&] { return qconfig(at.string()); });
  at.expect_object("QConfig", kQConfigKeys);
  return {read_observer_spec(at.at("activation")), read_observer_spec(at.at("weight"))};
}

MaybeQConfig read_maybe_qconfig(const JsonValue& at) {
  if (at.is_null()) return std::nullopt;
  return read_qconfig(at);
}

QConfig QConfig::from_dict(const nlohmann::json& dict) { return read_qconfig(JsonValue(dict)); }

nlohmann::json QConfig::to_dict() const {
  return {{"activation", activation.to_dict()}, {"weight", weight.to_dict()}};
}

}  // namespace tsq
