#include "benchmarks/kernels/stopwatch.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace tsq::benchmarks {
namespace {

double nanoseconds_of(const Call& call, int64_t times) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < times; ++i) call();
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
  return taken.count() / static_cast<double>(times);
}

}  // namespace

std::vector<double> nanoseconds_in_turns(const std::vector<Call>& calls, const Effort& effort) {
  std::vector<int64_t> times;
  for (const Call& call : calls) {
    call();  // makes primitives and touches memory
    const double once = std::max(nanoseconds_of(call, 1), 1.0);
    times.push_back(std::max<int64_t>(1, static_cast<int64_t>(effort.seconds_of_turn * 1e9 / once)));
  }
  std::vector<double> least(calls.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round < effort.rounds; ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i)
      least[i] = std::min(least[i], nanoseconds_of(calls[i], times[i]));
  }
  return least;
}

}  // namespace tsq::benchmarks
