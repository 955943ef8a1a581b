#pragma once

#include <c10/core/ScalarType.h>
#include <tsq/qconfig.h>

#include "config/names/observer_classes.h"

/// PyTorch's named observers: its default_* constants with the arguments that they were given, in words.
/// Source: torch/ao/quantization/observer.py and fake_quantize.py. These build what is found in the named
/// QConfigs.
namespace tsq::observers {

inline constexpr const char* kFake = "FakeQuantize";
inline constexpr const char* kFused = "FusedMovingAvgObsFakeQuantize";

/// The smallest scale that XNNPACK's requantization takes (M-08).
inline constexpr double kXnnpackEps = 1.0 / 4096;

inline ObserverSpec min_max() { return {.observer = observer_classes::kMinMax}; }
inline ObserverSpec histogram() { return {.observer = observer_classes::kHistogram}; }
inline ObserverSpec histogram(bool reduce_range) {
  return {.observer = observer_classes::kHistogram, .reduce_range = reduce_range};
}
inline ObserverSpec recording() { return {.observer = observer_classes::kRecording}; }
inline ObserverSpec reuse_input() { return {.observer = observer_classes::kReuseInput}; }
inline ObserverSpec identity() { return {.observer = observer_classes::kIdentity}; }
inline ObserverSpec noop() { return {.observer = observer_classes::kNoop}; }
inline ObserverSpec noop_float() { return {.observer = observer_classes::kNoop, .dtype = c10::kFloat}; }
inline ObserverSpec placeholder() { return {.observer = observer_classes::kPlaceholder}; }
inline ObserverSpec placeholder_float16() {
  return {.observer = observer_classes::kPlaceholder, .dtype = c10::kHalf};
}

/// default_observer
inline ObserverSpec min_max_activation() {
  return {.observer = observer_classes::kMinMax, .quant_min = 0, .quant_max = 127};
}
/// default_weight_observer
inline ObserverSpec weight() {
  return {.observer = observer_classes::kMinMax, .dtype = c10::kQInt8, .qscheme = c10::kPerTensorSymmetric};
}
/// default_per_channel_weight_observer
inline ObserverSpec per_channel_weight() {
  return {.observer = observer_classes::kPerChannelMinMax,
          .dtype = c10::kQInt8,
          .qscheme = c10::kPerChannelSymmetric};
}
/// weight_observer_range_neg_127_to_127
inline ObserverSpec weight_neg_127_to_127() {
  return {.observer = observer_classes::kMinMax,
          .dtype = c10::kQInt8,
          .qscheme = c10::kPerTensorSymmetric,
          .quant_min = -127,
          .quant_max = 127,
          .eps = kXnnpackEps};
}
/// per_channel_weight_observer_range_neg_127_to_127
inline ObserverSpec per_channel_weight_neg_127_to_127() {
  return {.observer = observer_classes::kPerChannelMinMax,
          .dtype = c10::kQInt8,
          .qscheme = c10::kPerChannelSymmetric,
          .quant_min = -127,
          .quant_max = 127,
          .eps = kXnnpackEps};
}
/// default_dynamic_quant_observer
inline ObserverSpec dynamic_activation() {
  return {.observer = observer_classes::kPlaceholder,
          .dtype = c10::kQUInt8,
          .quant_min = 0,
          .quant_max = 255,
          .is_dynamic = true};
}
inline ObserverSpec dynamic_float16() {
  return {.observer = observer_classes::kPlaceholder, .dtype = c10::kHalf, .is_dynamic = true};
}
/// default_float_qparams_observer, default_float_qparams_observer_4bit
inline ObserverSpec float_qparams_weight(c10::ScalarType dtype) {
  return {.observer = observer_classes::kPerChannelMinMax,
          .dtype = dtype,
          .qscheme = c10::kPerChannelAffineFloatQParams,
          .ch_axis = 0};
}
/// The activation of default_symmetric_qnnpack_qconfig
inline ObserverSpec histogram_symmetric_qnnpack() {
  return {.observer = observer_classes::kHistogram,
          .dtype = c10::kQInt8,
          .reduce_range = false,
          .eps = kXnnpackEps};
}
/// default_fixed_qparams_range_0to1_observer
inline ObserverSpec fixed_0_to_1() {
  return {.observer = observer_classes::kFixedQParams,
          .dtype = c10::kQUInt8,
          .quant_min = 0,
          .quant_max = 255,
          .scale = 1.0 / 256,
          .zero_point = 0};
}
/// default_fixed_qparams_range_neg1to1_observer
inline ObserverSpec fixed_neg_1_to_1() {
  return {.observer = observer_classes::kFixedQParams,
          .dtype = c10::kQUInt8,
          .quant_min = 0,
          .quant_max = 255,
          .scale = 2.0 / 256,
          .zero_point = 128};
}

/// default_fake_quant
inline ObserverSpec fake_activation() {
  return {.observer = observer_classes::kMovingAverageMinMax,
          .fake_quantize = kFake,
          .dtype = c10::kQUInt8,
          .qscheme = c10::kPerTensorAffine,
          .reduce_range = true,
          .quant_min = 0,
          .quant_max = 255};
}
/// default_weight_fake_quant
inline ObserverSpec fake_weight() {
  return {.observer = observer_classes::kMovingAverageMinMax,
          .fake_quantize = kFake,
          .dtype = c10::kQInt8,
          .qscheme = c10::kPerTensorSymmetric,
          .reduce_range = false,
          .quant_min = -128,
          .quant_max = 127};
}
/// default_per_channel_weight_fake_quant
inline ObserverSpec fake_per_channel_weight() {
  return {.observer = observer_classes::kMovingAveragePerChannelMinMax,
          .fake_quantize = kFake,
          .dtype = c10::kQInt8,
          .qscheme = c10::kPerChannelSymmetric,
          .reduce_range = false,
          .quant_min = -128,
          .quant_max = 127,
          .ch_axis = 0};
}
/// default_dynamic_fake_quant
inline ObserverSpec fake_dynamic_activation() {
  return {.observer = observer_classes::kMovingAverageMinMax,
          .fake_quantize = kFake,
          .dtype = c10::kQUInt8,
          .quant_min = 0,
          .quant_max = 255,
          .averaging_constant = 1,
          .is_dynamic = true};
}
/// default_embedding_fake_quant
inline ObserverSpec fake_embedding() {
  return {.observer = observer_classes::kMovingAveragePerChannelMinMax,
          .fake_quantize = kFake,
          .dtype = c10::kQUInt8,
          .qscheme = c10::kPerChannelAffineFloatQParams,
          .quant_min = 0,
          .quant_max = 255,
          .averaging_constant = 1,
          .ch_axis = 0};
}
/// default_embedding_fake_quant_4bit
inline ObserverSpec fake_embedding_4bit() {
  return {.observer = observer_classes::kMovingAveragePerChannelMinMax,
          .fake_quantize = kFake,
          .dtype = c10::kQUInt4x2,
          .qscheme = c10::kPerChannelAffineFloatQParams,
          .averaging_constant = 1,
          .ch_axis = 0};
}
/// default_fused_act_fake_quant
inline ObserverSpec fused_activation() {
  return {.observer = observer_classes::kMovingAverageMinMax,
          .fake_quantize = kFused,
          .dtype = c10::kQUInt8,
          .quant_min = 0,
          .quant_max = 255};
}
/// default_fused_wt_fake_quant
inline ObserverSpec fused_weight() {
  return {.observer = observer_classes::kMovingAverageMinMax,
          .fake_quantize = kFused,
          .dtype = c10::kQInt8,
          .qscheme = c10::kPerTensorSymmetric,
          .quant_min = -128,
          .quant_max = 127};
}
/// default_fused_per_channel_wt_fake_quant
inline ObserverSpec fused_per_channel_weight() {
  return {.observer = observer_classes::kMovingAveragePerChannelMinMax,
          .fake_quantize = kFused,
          .dtype = c10::kQInt8,
          .qscheme = c10::kPerChannelSymmetric,
          .quant_min = -128,
          .quant_max = 127};
}
/// fused_wt_fake_quant_range_neg_127_to_127
inline ObserverSpec fused_weight_neg_127_to_127() {
  return {.observer = observer_classes::kMovingAverageMinMax,
          .fake_quantize = kFused,
          .dtype = c10::kQInt8,
          .qscheme = c10::kPerTensorSymmetric,
          .quant_min = -127,
          .quant_max = 127,
          .eps = kXnnpackEps};
}
/// fused_per_channel_wt_fake_quant_range_neg_127_to_127
inline ObserverSpec fused_per_channel_weight_neg_127_to_127() {
  return {.observer = observer_classes::kMovingAveragePerChannelMinMax,
          .fake_quantize = kFused,
          .dtype = c10::kQInt8,
          .qscheme = c10::kPerChannelSymmetric,
          .quant_min = -127,
          .quant_max = 127,
          .eps = kXnnpackEps};
}
/// The activation of default_symmetric_qnnpack_qat_qconfig
inline ObserverSpec fused_symmetric_activation() {
  return {.observer = observer_classes::kMovingAverageMinMax,
          .fake_quantize = kFused,
          .dtype = c10::kQInt8,
          .reduce_range = false,
          .quant_min = -128,
          .quant_max = 127,
          .eps = kXnnpackEps};
}

}  // namespace tsq::observers
