#pragma once

#include <c10/core/QScheme.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tsq {

/// An observer's constructor: class name and the arguments that were given (PyTorch's `with_args` partial).
/// Arguments that are not set take the class's default, see resolve(). Equality is FX's qconfig_equals
/// (B-03): by the arguments that were given.
struct ObserverSpec {
  std::string observer{};       ///< PyTorch's class name, "HistogramObserver"
  std::string fake_quantize{};  ///< QAT: "FakeQuantize", "FusedMovingAvgObsFakeQuantize",
                                ///< "FixedQParamsFakeQuantize", "_LearnableFakeQuantize"; else empty
  std::optional<c10::ScalarType> dtype{};
  std::optional<c10::QScheme> qscheme{};
  std::optional<bool> reduce_range{};
  std::optional<int64_t> quant_min{};
  std::optional<int64_t> quant_max{};
  std::optional<double> eps{};
  std::optional<double> averaging_constant{};
  std::optional<int64_t> ch_axis{};
  std::optional<bool> is_dynamic{};
  std::optional<int64_t> group_size{};  ///< PerChannelMinMaxObserver, tsq's own: columns of a linear layer's
                                        ///< weight that share a scale
  std::optional<int64_t> bins{};        ///< HistogramObserver and tsq's own that count as it does
  std::optional<double> percentile{};   ///< PercentileObserver, tsq's own: the share that is kept, in percent
  std::optional<bool> use_grad_scaling{};  ///< _LearnableFakeQuantize
  std::optional<double> scale{};           ///< FixedQParamsObserver
  std::optional<int64_t> zero_point{};     ///< FixedQParamsObserver

  /// {"observer": "HistogramObserver", "reduce_range": true, …}: what was given and nothing else. Throws
  /// Error(BadConfig) naming the key.
  static ObserverSpec from_dict(const nlohmann::json& dict);
  [[nodiscard]] nlohmann::json to_dict() const;

  friend bool operator==(const ObserverSpec&, const ObserverSpec&) = default;
};

/// An ObserverSpec with every default filled in, as in the constructed PyTorch observer.
/// `quant_min`/`quant_max` are the effective range after reduce_range (calculate_qmin_qmax, M-07); they and
/// `eps` are empty where the class has none.
struct ResolvedObserver {
  std::string observer{};
  c10::ScalarType dtype{c10::ScalarType::QUInt8};
  c10::QScheme qscheme{c10::QScheme::PER_TENSOR_AFFINE};
  bool reduce_range{false};
  std::optional<int64_t> quant_min{};
  std::optional<int64_t> quant_max{};
  std::optional<double> eps{};
  bool has_custom_range{
      false};  ///< quant_min/quant_max were given (decides the symmetric quint8 zero point, M-02)
  double averaging_constant{0.01};
  int64_t ch_axis{0};
  bool is_dynamic{false};
  int64_t group_size{0};  ///< 0: whole channels
  int64_t bins{2048};
  double percentile{99.99};
  double scale{1.0};
  int64_t zero_point{0};
};
/// Throws Error(BadConfig) for an unknown class (with the nearest) or arguments that its constructor refuses.
ResolvedObserver resolve(const ObserverSpec& spec);

/// "per_tensor_affine", "per_channel_symmetric", "per_channel_affine_float_qparams" …
std::string_view qscheme_name(c10::QScheme qscheme);
/// Throws Error(BadConfig) with the nearest known name. A leading "torch." is accepted.
c10::QScheme qscheme_from_name(std::string_view name);

/// Observers for activations and weights of one layer. Source: torch.ao.quantization.QConfig.
struct QConfig {
  ObserverSpec activation{};
  ObserverSpec weight{};

  static QConfig from_dict(const nlohmann::json& dict);
  [[nodiscard]] nlohmann::json to_dict() const;

  friend bool operator==(const QConfig&, const QConfig&) = default;
};

/// PyTorch's named QConfigs ("default_qconfig", "default_dynamic_qconfig", "default_reuse_input_qconfig", …).
/// Throws Error(BadConfig) with the nearest.
QConfig qconfig(std::string_view name);
std::vector<std::string_view> qconfig_names();

/// get_default_qconfig(backend, version) (B-21); throws Error(BadConfig) for others than fbgemm, x86,
/// qnnpack, onednn or version 0.
QConfig default_qconfig(std::string_view backend = "x86", int version = 0);
/// get_default_qat_qconfig(backend, version) (B-22).
QConfig default_qat_qconfig(std::string_view backend = "x86", int version = 1);

/// Linear layers of which only the weight is quantized: 8 bits with a scale for each channel, or 4 bits with
/// a scale and zero point for each group of `group_size` columns (32, 64, 128 or 256). The table must have
/// the setting: with_weight_only. Throws Error(BadConfig) for other numbers.
QConfig weight_only_qconfig(int bits = 8, int64_t group_size = 64);
/// Embeddings with a scale and zero point for each row: PyTorch's float_qparams_weight_only_qconfig for 8
/// bits, its ..._4bit, and the same with 2 bits.
QConfig embedding_weight_only_qconfig(int bits = 8);

}  // namespace tsq
