#pragma once

#include <vector>

#include "runtime/program/program.h"

/// What is known of the memory of values before anything is built.
namespace tsq::runtime {

/// int8 values that are kept signed: right operands of products of activations.
std::vector<bool> signed_values(const Program& program);

/// The last operation that reads each value, -1 for none; one after all for what the call returns.
std::vector<int> last_uses(const Program& program);
std::vector<int> use_counts(const Program& program);

/// The operation that alone reads a value, or none.
const Operation* only_reader(const Program& program, int value);

/// Is a concatenation never written, since a scale and shift of its channels alone reads it and takes the
/// inputs from where they lie? That is so where they would be converted to its scale.
bool is_left_to_reader(const Program& program, const Operation& concat);

}  // namespace tsq::runtime
