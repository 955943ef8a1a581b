#include "trial/leave_out.h"

#include <algorithm>
#include <numeric>

namespace tsq::detail {
namespace {

/// After this many parts that cannot run, the fault is no single part's.
constexpr std::size_t kMostFaults = 12;

using TryWithout = std::function<std::optional<TrialFault>(const Indices&)>;

std::size_t first_failing(std::size_t count, const Indices& left, const TryWithout& try_without) {
  std::size_t runs = 0;  // this many first parts in int8 run
  std::size_t fails = count;
  while (fails - runs > 1) {
    const std::size_t middle = (runs + fails) / 2;
    Indices in_float = left;
    for (std::size_t part = middle; part < count; ++part) in_float.push_back(part);
    (try_without(in_float) ? fails : runs) = middle;
  }
  return fails - 1;
}

}  // namespace

Indices LeftOut::parts() const {
  Indices all;
  for (const Fault& fault : faults) all.insert(all.end(), fault.parts.begin(), fault.parts.end());
  std::ranges::sort(all);
  return all;
}

std::vector<LeftFloat> LeftOut::changes(std::span<const QuantizedLayer> layers) const {
  std::vector<LeftFloat> changes;
  for (const Fault& fault : faults)
    changes.push_back({.layers = chosen(layers, fault.parts), .text = fault.text});
  return changes;
}

LeftOut leave_out_failing(std::size_t count, TrialFault fault, const TryWithout& try_without) {
  LeftOut left;
  std::optional<TrialFault> now = fault;
  while (now && left.faults.size() < std::min(count, kMostFaults)) {
    const std::size_t part = first_failing(count, left.parts(), try_without);
    left.faults.push_back({.parts = {part}, .text = now->text});
    now = try_without(left.parts());
  }
  if (!now) return left;
  Indices all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  try_without(all);
  return {.faults = {{.parts = std::move(all), .text = std::move(fault.text)}}};
}

}  // namespace tsq::detail
