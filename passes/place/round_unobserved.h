#pragma once

#include "passes/context/pass_context.h"

namespace tsq::passes {

/// Rounds what an operator reads and returns that prepare has not observed (NodeRecord::unobserved_qconfig),
/// in the ranges that calibration saw.
///   erf(x)   →   observer(erf(observer(x)))
/// Throws Error(BadConfig), which calls the operator `name`, where calibration has seen no float32 there.
void round_unobserved(ir::Model& model, ir::Node* op, const QConfig& qconfig, const std::string& name);

}  // namespace tsq::passes
