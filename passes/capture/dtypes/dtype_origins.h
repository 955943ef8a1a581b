#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/model.h"

namespace tsq::passes {

/// The dtype of a floating-point value as far as it can be told: one that is known, or that of an input of
/// the model, or the wider of the two. Neither: numbers, integers, or nothing is known.
struct DtypeOrigin {
  std::optional<c10::ScalarType> dtype{};
  const ir::Value* input{};
};

/// What the dtypes of a graph's values are in the user's model.
struct DtypeOrigins {
  std::unordered_map<const ir::Value*, DtypeOrigin> known{};
  std::unordered_set<const ir::Value*> floats{};  ///< of floating point without doubt

  [[nodiscard]] DtypeOrigin of(const ir::Value* value) const;
};

/// The parameters of layers tell them: while these are as they are in the user's model.
[[nodiscard]] DtypeOrigins dtype_origins(const ir::Model& model, const ir::Graph& graph);

}  // namespace tsq::passes
