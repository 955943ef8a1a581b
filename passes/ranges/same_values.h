#pragma once

#include <functional>

#include "passes/context/pass_context.h"

/// Which values of a model are the same tensor, whatever method or branch computes them.
///
/// Two values are the same where the same operator, in the same fused form, makes them of the same values: of
/// the same kind and constants, and with the same weight. An argument of a method beside forward is that
/// argument of forward which the same layer reads, perhaps after the same operators; where there is none, it
/// is a value that forward does not have, and so is all that is computed of it. For a layer, operators that
/// only move values change nothing.
namespace tsq::passes {

/// Gives each observer that `is_wanted` and saw no data the range of an observer that saw the same values
/// elsewhere. Whether there was one.
///   forward: y = obs1(linear(x)); encode: y = obs2(linear(x)), no data in obs2   →   encode: y =
///   obs1(linear(x))
bool take_ranges_of_same_values(Model& model, const std::function<bool(const Node*)>& is_wanted);

}  // namespace tsq::passes
