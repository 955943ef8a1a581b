#pragma once

#include <tsq/bench/profile.h>

#include <vector>

namespace tsq::bench {

/// A call of a fused program: its arguments.
using ProgramCall = std::vector<c10::IValue>;

/// Whether operators of a kind call a fused program.
bool is_program(std::string_view kind);

/// What a program does in a call: the median time of each of its steps over `rounds` further calls. They
/// start one after another, from 0 on.
std::vector<OperatorTime> times_within(const ProgramCall& call, std::size_t rounds);

/// Puts steps into the operator that called their program. Where they take longer together than the operator,
/// which a clock around each step can cause, all are shortened by the same factor.
void add_steps(OperatorTime& program, std::vector<OperatorTime> steps);

/// The profile with the steps of programs in the place of the operators that call them. What such an operator
/// does besides (memory of results) belongs to the time between operators.
Profile with_steps(const Profile& profile);

}  // namespace tsq::bench
