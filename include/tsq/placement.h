#pragma once

#include <optional>
#include <string_view>

namespace tsq {

/// Where an operator computes.
enum class Placement {
  Undecided,
  Float,         ///< it computes with float values, and nothing is rounded for it
  Int8,          ///< in a kernel of the engine
  Int8FloatOut,  ///< in a kernel that returns float
  Reference,     ///< in float between dequantize and quantize, weights rounded
  Written,       ///< in float where it is: it writes into memory that others see, or is a view of it
};

/// "int8", "int8_float_out", "float", "reference", "written"; "undecided" before calibration.
std::string_view to_string(Placement placement);
/// None for other text.
std::optional<Placement> placement_named(std::string_view name);

/// Why an operator is not Int8.
enum class Reason {
  None,
  Table,              ///< no row of the table matches it or takes its dtypes
  Mapping,            ///< no QConfig, or none that leads to int8
  NoReferenceModule,  ///< the table has no reference module for its class
  NoTensors,          ///< it computes no float tensor
  OtherDtype,         ///< its tensors are not float32
  ShortRows,          ///< of a table, which a scale for each makes larger
  OfAttention,        ///< a product of activations, or what normalises
  WholeAverage,       ///< of a map, of whose range it uses a small part
  Amplified,          ///< a steep function reads it
  FloatAfterLayer,    ///< after a layer whose kernel returns float
  FilterBank,         ///< that float operators read
  Island,             ///< not between quantized operators
  NotReached,         ///< by calibration data
  MethodNotReached,   ///< nor the method beside forward that it is in
  OfSample,           ///< a norm of a sample without a batch, where its kernel takes batches only
  ConvertMapping,     ///< the mapping that convert was given
  LeftOut,            ///< by the caller: a trial, a search for a goal, or a plan with words of its own
  NonFinite,          ///< it hands on NaN or infinity, which somebody looks for
  ReadsFloat,         ///< nothing rounds what it reads
  Costs,              ///< its time in int8 with the price of its noise is more than its time in float
  KeptReference,      ///< the caller of lower
  NoKernel,           ///< no engine has one, or it does not take these arguments
  KernelFault,        ///< it returns wrong results here
  PackingRefused,     ///< the engine does not take the weight
  Memory,             ///< Written
};

/// "reads_float": the name of the enumerator; empty for None.
std::string_view to_string(Reason reason);
/// None for other text.
std::optional<Reason> reason_named(std::string_view name);

}  // namespace tsq
