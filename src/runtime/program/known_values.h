#pragma once

#include <optional>

#include "runtime/program/resolve.h"

/// What is known of the values of one set of shapes without computing them.
namespace tsq::runtime {

/// Operations are left out that write nothing, and what others compute of nothing becomes constants: a sum is
/// 0, a mean no number. So do numbers that are computed from shapes. After this no operation reads or writes
/// a tensor without elements.
void settle_known_values(ResolvedModel& resolved);

/// A post-op of a number, in double precision; none if numbers do not have it.
std::optional<double> number_after(const PostOp& post_op, double number);

}  // namespace tsq::runtime
