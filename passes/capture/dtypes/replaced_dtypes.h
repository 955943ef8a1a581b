#pragma once

#include <c10/core/ScalarType.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ir/model.h"

/// The dtypes in whose place compute_in_float uses float.
namespace tsq::passes {

using Dtypes = std::set<c10::ScalarType>;

/// The dtypes other than float of layers' parameters.
struct LayerDtypes {
  Dtypes all{};
  /// In which layers compute, whatever the model is given. A layer whose parameters are all cast to the dtype
  /// of another value computes in that value's.
  Dtypes told{};
};
[[nodiscard]] LayerDtypes dtypes_of_layers(const ir::Model& model);
/// The dtype in whose place another one is used; the dtype itself where it stays.
[[nodiscard]] c10::ScalarType replacement(const Dtypes& replaced, c10::ScalarType dtype);
/// "bfloat16 and float64"
[[nodiscard]] std::string names_of(const Dtypes& dtypes);

/// The graphs of forward and of the other methods.
[[nodiscard]] std::vector<std::shared_ptr<ir::Graph>> graphs_of(const ir::Model& model);
/// The tensor that a value holds whenever the model runs: a parameter, a buffer or a constant; undefined:
/// none.
[[nodiscard]] at::Tensor lasting_tensor(const ir::Model& model, const ir::Value* value);

}  // namespace tsq::passes
