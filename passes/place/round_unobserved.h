#pragma once

#include <tsq/qconfig.h>

#include <string>

#include "passes/context/pass_context.h"

namespace tsq::passes {

/// An operator that is planned in int8 and that prepare has not observed.
struct UnobservedOperator {
  ir::Node* op{};
  QConfig qconfig{};         ///< NodeRecord::unobserved_qconfig
  std::string name{};        ///< in the plan
  bool returns_bytes{true};  ///< false: its kernel returns float
};

/// Rounds what it reads and returns in the ranges that calibration saw; an observer that alone reads the
/// result stays the one that rounds it. Whole numbers and parameters are not rounded.
///   erf(x)   →   observer(erf(observer(x)))
/// Throws Error(BadConfig), which names the operator, where calibration has not seen float32 alone there.
void round_unobserved(ir::Model& model, const UnobservedOperator& op);

}  // namespace tsq::passes
