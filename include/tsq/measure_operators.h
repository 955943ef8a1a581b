#pragma once

#include <tsq/quantize.h>
#include <tsq/report.h>
#include <tsq/sample.h>

#include <cstddef>

namespace tsq {

/// Runs the float operators of a prepared model on one sample and writes what each costs into the decisions
/// of `report` that name it: multiply-accumulates (convolutions, linear layers, matrix products, attention,
/// recurrent layers; 0 for others) and, when `rounds` is not 0, the least time of that many runs. Operators
/// in loops add up over their turns; operators that the sample does not reach cost nothing. The model and its
/// observers stay as they are. Throws Error(BadData) when the model cannot run on the sample.
void measure_operators(const Prepared& prepared, const Sample& sample, std::size_t rounds, Report& report);

}  // namespace tsq
