#pragma once

#include <vector>

#include "benchmarks/kernels/layers.h"

namespace tsq::benchmarks {

/// How long is measured.
struct Effort {
  int rounds{25};
  double seconds_of_turn{0.002};  ///< of each call in each round
};

/// The least nanoseconds that a call takes on average in a turn. The calls take turns, so that what else the
/// machine does hits all of them.
std::vector<double> nanoseconds_in_turns(const std::vector<Call>& calls, const Effort& effort);

}  // namespace tsq::benchmarks
