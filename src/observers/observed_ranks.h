#pragma once

#include <torch/csrc/jit/api/module.h>

#include <bitset>

namespace tsq {

/// The numbers of dimensions of the tensors that an observer was shown.
using ObservedRanks = std::bitset<32>;

/// None where the observer saw no data, or is out of a file that does not tell.
ObservedRanks observed_ranks(const torch::jit::Module& observer);

}  // namespace tsq
