#pragma once

#include <tsq/qconfig.h>

#include "config/observer_classes.h"

/// PyTorch's named observers: its default_* constants with the arguments that they were given, in words.
/// Source: torch/ao/quantization/observer.py and fake_quantize.py. These build what is found in the named
/// QConfigs.
namespace tsq::observers {

inline ObserverSpec min_max() { return {.observer = observer_classes::kMinMax}; }
inline ObserverSpec histogram() { return {.observer = observer_classes::kHistogram}; }
inline ObserverSpec histogram(bool reduce_range) {
  return {.observer = observer_classes::kHistogram, .reduce_range = reduce_range};
}
inline ObserverSpec recording() { return {.observer = observer_classes::kRecording}; }
inline ObserverSpec reuse_input() { return {.observer = observer_classes::kReuseInput}; }
inline ObserverSpec identity() { return {.observer = observer_classes::kIdentity}; }
inline ObserverSpec noop() { return {.observer = observer_classes::kNoop}; }
inline ObserverSpec noop(c10::ScalarType dtype) {
  return {.observer = observer_classes::kNoop, .dtype = dtype};
}
inline ObserverSpec placeholder() { return {.observer = observer_classes::kPlaceholder}; }
inline ObserverSpec placeholder(c10::ScalarType dtype) {
  return {.observer = observer_classes::kPlaceholder, .dtype = dtype};
}

/// default_observer
ObserverSpec min_max_activation();
/// default_weight_observer, default_per_channel_weight_observer
ObserverSpec weight();
ObserverSpec per_channel_weight();
/// weight_observer_range_neg_127_to_127, per_channel_weight_observer_range_neg_127_to_127
ObserverSpec weight_neg_127_to_127();
ObserverSpec per_channel_weight_neg_127_to_127();
/// default_dynamic_quant_observer
ObserverSpec dynamic_activation();
ObserverSpec dynamic_float16();
/// default_float_qparams_observer, default_float_qparams_observer_4bit
ObserverSpec float_qparams_weight(c10::ScalarType dtype);
/// The activation of default_symmetric_qnnpack_qconfig
ObserverSpec histogram_symmetric_qnnpack();
/// default_fixed_qparams_range_0to1_observer, default_fixed_qparams_range_neg1to1_observer
ObserverSpec fixed_0_to_1();
ObserverSpec fixed_neg_1_to_1();

/// default_fake_quant, default_weight_fake_quant, default_per_channel_weight_fake_quant,
/// default_dynamic_fake_quant
ObserverSpec fake_activation();
ObserverSpec fake_weight();
ObserverSpec fake_per_channel_weight();
ObserverSpec fake_dynamic_activation();
/// default_embedding_fake_quant, default_embedding_fake_quant_4bit
ObserverSpec fake_embedding();
ObserverSpec fake_embedding_4bit();
/// default_fused_act_fake_quant, default_fused_wt_fake_quant, default_fused_per_channel_wt_fake_quant
ObserverSpec fused_activation();
ObserverSpec fused_weight();
ObserverSpec fused_per_channel_weight();
/// fused_wt_fake_quant_range_neg_127_to_127, fused_per_channel_wt_fake_quant_range_neg_127_to_127
ObserverSpec fused_weight_neg_127_to_127();
ObserverSpec fused_per_channel_weight_neg_127_to_127();
/// The activation of default_symmetric_qnnpack_qat_qconfig
ObserverSpec fused_symmetric_activation();

}  // namespace tsq::observers
