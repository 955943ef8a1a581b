#pragma once

#include <tsq/dtype_config.h>

#include <vector>

/// The dtype combinations of the tables, named once.
namespace tsq {

using DTypes = std::vector<DTypeConfig>;

inline constexpr DTypeWithConstraints kQUInt8{.dtype = c10::ScalarType::QUInt8};
inline constexpr DTypeWithConstraints kQInt8{.dtype = c10::ScalarType::QInt8};
inline constexpr DTypeWithConstraints kQUInt4x2{.dtype = c10::ScalarType::QUInt4x2};
inline constexpr DTypeWithConstraints kQUInt2x4{.dtype = c10::ScalarType::QUInt2x4};
inline constexpr DTypeWithConstraints kFloat{.dtype = c10::ScalarType::Float};
inline constexpr DTypeWithConstraints kFloat16{.dtype = c10::ScalarType::Half};

/// Static int8: quint8 activations, qint8 weight, float bias.
inline constexpr DTypeConfig kWeightedInt8{.input_dtype = kQUInt8,
                                           .output_dtype = kQUInt8,
                                           .weight_dtype = kQInt8,
                                           .bias_dtype = c10::ScalarType::Float};
/// Static int8 of operators without a weight.
inline constexpr DTypeConfig kInt8{.input_dtype = kQUInt8, .output_dtype = kQUInt8};
/// Static int8 activations around a weight that stays float (layer norm).
inline constexpr DTypeConfig kInt8FloatWeight{.input_dtype = kQUInt8,
                                              .output_dtype = kQUInt8,
                                              .weight_dtype = kFloat,
                                              .bias_dtype = c10::ScalarType::Float};
/// The input is quantized at run time by its own range, the output is float.
inline constexpr DTypeConfig kDynamicInt8{.input_dtype = kQUInt8,
                                          .output_dtype = kFloat,
                                          .weight_dtype = kQInt8,
                                          .bias_dtype = c10::ScalarType::Float,
                                          .is_dynamic = true};
inline constexpr DTypeConfig kDynamicFloat16{.input_dtype = kFloat16,
                                             .output_dtype = kFloat,
                                             .weight_dtype = kFloat16,
                                             .bias_dtype = c10::ScalarType::Float,
                                             .is_dynamic = true};
/// Embeddings: the table alone is quantized.
inline constexpr DTypeConfig kWeightOnlyQUInt8{
    .input_dtype = kFloat, .output_dtype = kFloat, .weight_dtype = kQUInt8};
inline constexpr DTypeConfig kWeightOnlyQUInt4x2{
    .input_dtype = kFloat, .output_dtype = kFloat, .weight_dtype = kQUInt4x2};
inline constexpr DTypeConfig kWeightOnlyQUInt2x4{
    .input_dtype = kFloat, .output_dtype = kFloat, .weight_dtype = kQUInt2x4};
inline constexpr DTypeConfig kWeightOnlyQInt8{
    .input_dtype = kFloat, .output_dtype = kFloat, .weight_dtype = kQInt8};

/// XNNPACK: signed activations, weights without -128, and no scale below 2^-12, under which its
/// requantization would leave its range.
inline constexpr DTypeWithConstraints kXnnpackActivation{.dtype = c10::ScalarType::QInt8,
                                                         .scale_min_lower_bound = 1.0 / 4096};
inline constexpr DTypeWithConstraints kXnnpackWeight{.dtype = c10::ScalarType::QInt8,
                                                     .quant_min_lower_bound = -127,
                                                     .quant_max_upper_bound = 127,
                                                     .scale_min_lower_bound = 1.0 / 4096};
inline constexpr DTypeConfig kWeightedSymmetricInt8{.input_dtype = kXnnpackActivation,
                                                    .output_dtype = kXnnpackActivation,
                                                    .weight_dtype = kXnnpackWeight,
                                                    .bias_dtype = c10::ScalarType::Float};
inline constexpr DTypeConfig kSymmetricInt8{.input_dtype = kXnnpackActivation,
                                            .output_dtype = kXnnpackActivation};
inline constexpr DTypeConfig kDynamicSymmetricInt8{.input_dtype = kXnnpackActivation,
                                                   .output_dtype = kFloat,
                                                   .weight_dtype = kXnnpackWeight,
                                                   .bias_dtype = c10::ScalarType::Float,
                                                   .is_dynamic = true};

/// TensorRT: signed activations.
inline constexpr DTypeConfig kWeightedSignedInt8{.input_dtype = kQInt8,
                                                 .output_dtype = kQInt8,
                                                 .weight_dtype = kQInt8,
                                                 .bias_dtype = c10::ScalarType::Float};
inline constexpr DTypeConfig kSignedInt8{.input_dtype = kQInt8, .output_dtype = kQInt8};

}  // namespace tsq
