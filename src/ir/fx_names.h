#pragma once

#include <torch/csrc/jit/ir/ir.h>

/// Marks of nodes by which emit() names attributes as Python FX does.
namespace tsq::ir {

/// Of an observer that shares another one's state: the name that FX has it under.
inline const c10::Symbol kObserverName = c10::Symbol::attr("tsq_observer_name");
/// Of quantize operators: what FX puts in front of "_scale_0" and "_zero_point_0", "layer1_0_conv_input".
inline const c10::Symbol kQParamsPrefix = c10::Symbol::attr("tsq_qparams_prefix");

}  // namespace tsq::ir
