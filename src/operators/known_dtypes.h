#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>

#include "ir/model.h"

namespace tsq::operators {

/// The dtypes of the tensors of a graph, and of the elements of its lists of tensors: of those values alone
/// of which something tells it. By Value::unique, which no later value of the graph gets again: what is known
/// stays true while nodes are made and destroyed.
using KnownDtypes = std::unordered_map<std::size_t, c10::ScalarType>;

/// What a dtype may follow from: each ground adds to those before it.
enum class Grounds {
  Certain,         ///< what holds in every run, since another dtype would raise
  FloatOperators,  ///< operators of floating-point tensors alone read and return float32, where nothing tells
                   ///< another dtype
  Calibration,     ///< values are of the dtype that they were of in all samples
};

/// One walk over the graph, from what makes a value to what reads it. What calibration saw of a value
/// (ir::facts_of) counts before what follows from other values: one that had several dtypes has none that is
/// known.
[[nodiscard]] KnownDtypes known_dtypes(const ir::Model& model, Grounds grounds);

[[nodiscard]] std::optional<c10::ScalarType> known_dtype(const KnownDtypes& known, const ir::Value* value);

}  // namespace tsq::operators
