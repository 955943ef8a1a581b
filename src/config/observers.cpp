#include "config/observers.h"

#include "config/observer_classes.h"

namespace tsq::observers {
namespace {

using c10::kPerChannelAffineFloatQParams;
using c10::kPerChannelSymmetric;
using c10::kPerTensorAffine;
using c10::kPerTensorSymmetric;
using c10::ScalarType;

constexpr const char* kMinMax = observer_classes::kMinMax;
constexpr const char* kPerChannelMinMax = observer_classes::kPerChannelMinMax;
constexpr const char* kMovingAverage = observer_classes::kMovingAverageMinMax;
constexpr const char* kMovingAveragePerChannel = observer_classes::kMovingAveragePerChannelMinMax;
constexpr const char* kHistogram = observer_classes::kHistogram;
constexpr const char* kFixed = observer_classes::kFixedQParams;
constexpr const char* kPlaceholder = observer_classes::kPlaceholder;
constexpr const char* kFake = "FakeQuantize";
constexpr const char* kFused = "FusedMovingAvgObsFakeQuantize";

/// The smallest scale that XNNPACK's requantization takes (M-08).
constexpr double kXnnpackEps = 1.0 / 4096;

}  // namespace

ObserverSpec min_max_activation() { return {.observer = kMinMax, .quant_min = 0, .quant_max = 127}; }
ObserverSpec weight() {
  return {.observer = kMinMax, .dtype = ScalarType::QInt8, .qscheme = kPerTensorSymmetric};
}
ObserverSpec per_channel_weight() {
  return {.observer = kPerChannelMinMax, .dtype = ScalarType::QInt8, .qscheme = kPerChannelSymmetric};
}
ObserverSpec weight_neg_127_to_127() {
  return {.observer = kMinMax,
          .dtype = ScalarType::QInt8,
          .qscheme = kPerTensorSymmetric,
          .quant_min = -127,
          .quant_max = 127,
          .eps = kXnnpackEps};
}
ObserverSpec per_channel_weight_neg_127_to_127() {
  return {.observer = kPerChannelMinMax,
          .dtype = ScalarType::QInt8,
          .qscheme = kPerChannelSymmetric,
          .quant_min = -127,
          .quant_max = 127,
          .eps = kXnnpackEps};
}
ObserverSpec dynamic_activation() {
  return {.observer = kPlaceholder,
          .dtype = ScalarType::QUInt8,
          .quant_min = 0,
          .quant_max = 255,
          .is_dynamic = true};
}
ObserverSpec dynamic_float16() {
  return {.observer = kPlaceholder, .dtype = ScalarType::Half, .is_dynamic = true};
}
ObserverSpec float_qparams_weight(ScalarType dtype) {
  return {
      .observer = kPerChannelMinMax, .dtype = dtype, .qscheme = kPerChannelAffineFloatQParams, .ch_axis = 0};
}
ObserverSpec histogram_symmetric_qnnpack() {
  return {.observer = kHistogram, .dtype = ScalarType::QInt8, .reduce_range = false, .eps = kXnnpackEps};
}
ObserverSpec fixed_0_to_1() {
  return {.observer = kFixed,
          .dtype = ScalarType::QUInt8,
          .quant_min = 0,
          .quant_max = 255,
          .scale = 1.0 / 256,
          .zero_point = 0};
}
ObserverSpec fixed_neg_1_to_1() {
  return {.observer = kFixed,
          .dtype = ScalarType::QUInt8,
          .quant_min = 0,
          .quant_max = 255,
          .scale = 2.0 / 256,
          .zero_point = 128};
}

ObserverSpec fake_activation() {
  return {.observer = kMovingAverage,
          .fake_quantize = kFake,
          .dtype = ScalarType::QUInt8,
          .qscheme = kPerTensorAffine,
          .reduce_range = true,
          .quant_min = 0,
          .quant_max = 255};
}
ObserverSpec fake_weight() {
  return {.observer = kMovingAverage,
          .fake_quantize = kFake,
          .dtype = ScalarType::QInt8,
          .qscheme = kPerTensorSymmetric,
          .reduce_range = false,
          .quant_min = -128,
          .quant_max = 127};
}
ObserverSpec fake_per_channel_weight() {
  return {.observer = kMovingAveragePerChannel,
          .fake_quantize = kFake,
          .dtype = ScalarType::QInt8,
          .qscheme = kPerChannelSymmetric,
          .reduce_range = false,
          .quant_min = -128,
          .quant_max = 127,
          .ch_axis = 0};
}
ObserverSpec fake_dynamic_activation() {
  return {.observer = kMovingAverage,
          .fake_quantize = kFake,
          .dtype = ScalarType::QUInt8,
          .quant_min = 0,
          .quant_max = 255,
          .averaging_constant = 1,
          .is_dynamic = true};
}
ObserverSpec fake_embedding() {
  return {.observer = kMovingAveragePerChannel,
          .fake_quantize = kFake,
          .dtype = ScalarType::QUInt8,
          .qscheme = kPerChannelAffineFloatQParams,
          .quant_min = 0,
          .quant_max = 255,
          .averaging_constant = 1,
          .ch_axis = 0};
}
ObserverSpec fake_embedding_4bit() {
  return {.observer = kMovingAveragePerChannel,
          .fake_quantize = kFake,
          .dtype = ScalarType::QUInt4x2,
          .qscheme = kPerChannelAffineFloatQParams,
          .averaging_constant = 1,
          .ch_axis = 0};
}
ObserverSpec fused_activation() {
  return {.observer = kMovingAverage,
          .fake_quantize = kFused,
          .dtype = ScalarType::QUInt8,
          .quant_min = 0,
          .quant_max = 255};
}
ObserverSpec fused_weight() {
  return {.observer = kMovingAverage,
          .fake_quantize = kFused,
          .dtype = ScalarType::QInt8,
          .qscheme = kPerTensorSymmetric,
          .quant_min = -128,
          .quant_max = 127};
}
ObserverSpec fused_per_channel_weight() {
  return {.observer = kMovingAveragePerChannel,
          .fake_quantize = kFused,
          .dtype = ScalarType::QInt8,
          .qscheme = kPerChannelSymmetric,
          .quant_min = -128,
          .quant_max = 127};
}
ObserverSpec fused_weight_neg_127_to_127() {
  return {.observer = kMovingAverage,
          .fake_quantize = kFused,
          .dtype = ScalarType::QInt8,
          .qscheme = kPerTensorSymmetric,
          .quant_min = -127,
          .quant_max = 127,
          .eps = kXnnpackEps};
}
ObserverSpec fused_per_channel_weight_neg_127_to_127() {
  return {.observer = kMovingAveragePerChannel,
          .fake_quantize = kFused,
          .dtype = ScalarType::QInt8,
          .qscheme = kPerChannelSymmetric,
          .quant_min = -127,
          .quant_max = 127,
          .eps = kXnnpackEps};
}
ObserverSpec fused_symmetric_activation() {
  return {.observer = kMovingAverage,
          .fake_quantize = kFused,
          .dtype = ScalarType::QInt8,
          .reduce_range = false,
          .quant_min = -128,
          .quant_max = 127,
          .eps = kXnnpackEps};
}

}  // namespace tsq::observers
