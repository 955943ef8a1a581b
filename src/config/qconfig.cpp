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
#include "config/names/observer_classes.h"
#include "config/observers.h"

namespace tsq {
namespace {

using namespace observers;

struct NamedQConfig {
  std::string_view name;
  ObserverSpec (*activation)();
  ObserverSpec (*weight)();
};

ObserverSpec placeholder_of(c10::ScalarType dtype) {
  return {.observer = observer_classes::kPlaceholder, .dtype = dtype};
}
ObserverSpec placeholder_float32() { return placeholder_of(c10::kFloat); }
ObserverSpec placeholder_quint8() { return placeholder_of(c10::kQUInt8); }
ObserverSpec float_qparams_8bit() { return float_qparams_weight(c10::kQUInt8); }
ObserverSpec float_qparams_4bit() { return float_qparams_weight(c10::kQUInt4x2); }

/// Source: torch/ao/quantization/qconfig.py, in its order.
constexpr std::array kNamedQConfigs{
    NamedQConfig{"default_qconfig", min_max_activation, weight},
    NamedQConfig{"default_debug_qconfig", recording, weight},
    NamedQConfig{"default_per_channel_qconfig", min_max_activation, per_channel_weight},
    NamedQConfig{"default_dynamic_qconfig", dynamic_activation, weight},
    NamedQConfig{"float16_dynamic_qconfig", dynamic_float16, placeholder_float16},
    NamedQConfig{"float16_static_qconfig", placeholder_float16, placeholder_float16},
    NamedQConfig{"per_channel_dynamic_qconfig", dynamic_activation, per_channel_weight},
    NamedQConfig{"float_qparams_weight_only_qconfig", placeholder, float_qparams_8bit},
    NamedQConfig{"float_qparams_weight_only_qconfig_4bit", placeholder, float_qparams_4bit},
    NamedQConfig{"default_qat_qconfig", fake_activation, fake_weight},
    NamedQConfig{"default_dynamic_qat_qconfig", fake_dynamic_activation, fake_weight},
    NamedQConfig{"default_weight_only_qconfig", identity, fake_weight},
    NamedQConfig{"default_activation_only_qconfig", fake_activation, identity},
    NamedQConfig{"default_qat_qconfig_v2", fused_activation, fused_weight},
    NamedQConfig{"default_reuse_input_qconfig", reuse_input, noop},
    NamedQConfig{"default_symmetric_qnnpack_qconfig", histogram_symmetric_qnnpack, weight_neg_127_to_127},
    NamedQConfig{"default_per_channel_symmetric_qnnpack_qconfig", histogram_symmetric_qnnpack,
                 per_channel_weight_neg_127_to_127},
    NamedQConfig{"default_embedding_qat_qconfig", noop_float, fake_embedding},
    NamedQConfig{"default_embedding_qat_qconfig_4bit", noop_float, fake_embedding_4bit},
    NamedQConfig{"default_quint8_weight_qconfig", histogram, min_max},
    NamedQConfig{"default_symmetric_qnnpack_qat_qconfig", fused_symmetric_activation,
                 fused_weight_neg_127_to_127},
    NamedQConfig{"default_per_channel_symmetric_qnnpack_qat_qconfig", fused_symmetric_activation,
                 fused_per_channel_weight_neg_127_to_127},
    NamedQConfig{"_default_fp32_placeholder_qconfig", placeholder_float32, placeholder_float32},
    // PyTorch has no weight observer at all there, which leaves weights as they are.
    NamedQConfig{"_default_quint8_placeholder_qconfig", placeholder_quint8, placeholder},
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

}  // namespace

QConfig qconfig(std::string_view name) {
  const std::string_view bare = without_prefix(name, "torch.ao.quantization.");
  const auto found = std::ranges::find(kNamedQConfigs, bare, &NamedQConfig::name);
  if (found != kNamedQConfigs.end()) return {found->activation(), found->weight()};
  throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not a named QConfig", name),
              suggestion(bare, qconfig_names()));
}

std::vector<std::string_view> qconfig_names() { return names_of(kNamedQConfigs, &NamedQConfig::name); }

QConfig default_qconfig(std::string_view backend, int version) {
  check_engine(backend);
  if (version != 0) fail_version(version, "0");
  // FBGEMM's kernels add products of neighbours in 16 bits, so their activations leave one bit free.
  return {histogram(runs_fbgemm(backend)), backend == "qnnpack" ? weight() : per_channel_weight()};
}

QConfig default_qat_qconfig(std::string_view backend, int version) {
  check_engine(backend);
  if (version != 0 && version != 1) fail_version(version, "0 or 1");
  const bool fused = version == 1;
  // PyTorch gives onednn no reduce_range at all.
  const auto reduce_range = backend == "onednn" ? std::nullopt : std::optional(runs_fbgemm(backend));
  ObserverSpec activation{.observer = observer_classes::kMovingAverageMinMax,
                          .fake_quantize = fused ? kFused : kFake,
                          .reduce_range = reduce_range,
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
  ObserverSpec weight = float_qparams_weight(c10::kQUInt4x2);
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
      return {placeholder(), float_qparams_weight(c10::kQUInt2x4)};
    default:
      throw Error(ErrorCode::BadConfig, fmt::format("embeddings cannot have rows of {} bits", bits),
                  "use 8, 4 or 2");
  }
}

QConfig read_qconfig(const JsonValue& at) {
  if (at.is_string()) return with_path(at, [&] { return qconfig(at.string()); });
  if (at.is_array()) {  // as Python's JSON writes the named tuple
    const std::vector<JsonValue> both = at.elements("observers");
    if (both.size() != 2)
      at.fail(fmt::format("a list of {} is no QConfig", both.size()), "give [activation, weight]");
    return {read_observer_spec(both[0]), read_observer_spec(both[1])};
  }
  at.expect_object("QConfig", kQConfigKeys);
  return {read_observer_spec(at.at("activation")), read_observer_spec(at.at("weight"))};
}

MaybeQConfig read_maybe_qconfig(const JsonValue& at) {
  return at.is_null() ? std::nullopt : std::optional(read_qconfig(at));
}

QConfig QConfig::from_dict(const nlohmann::json& dict) { return read_qconfig(JsonValue(dict)); }

nlohmann::json QConfig::to_dict() const {
  return {{"activation", activation.to_dict()}, {"weight", weight.to_dict()}};
}

}  // namespace tsq
