#include "trial/layer_groups.h"

#include <algorithm>
#include <numeric>

namespace tsq::detail {
namespace {

/// Where a group falls into halves of about equal work; each half has a layer.
std::size_t middle_of(const Candidates& candidates, const LayerGroup& group) {
  double before = 0;
  for (std::size_t layer = group.first; layer + 1 < group.last; ++layer) {
    before += candidates.work(layer);
    if (2 * before >= group.work) return layer + 1;
  }
  return group.last - 1;
}

}  // namespace

LayerGroups::LayerGroups(const Candidates& candidates, Measure measure)
    : candidates_(candidates), measure_(std::move(measure)) {
  for (std::size_t layer = 0; layer < candidates.size(); ++layer) work_ += candidates.work(layer);
  LayerGroup all{.first = 0, .last = candidates.size(), .work = work_, .measured = 0};
  if (all.size() < 2) {
    if (all.size() == 1) groups_.push_back(group(0, 1));
    return;
  }
  const std::size_t middle = middle_of(candidates, all);
  groups_.push_back(group(0, middle));
  groups_.push_back(group(middle, all.last));
}

LayerGroup LayerGroups::group(std::size_t first, std::size_t last) {
  LayerGroup result{.first = first, .last = last};
  for (std::size_t layer = first; layer < last; ++layer) result.work += candidates_.work(layer);
  Indices others = candidates_.all();
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(first),
               others.begin() + static_cast<std::ptrdiff_t>(last));
  result.measured = measure_(others);
  ++runs_;
  return result;
}

bool LayerGroups::split(const std::function<bool(const LayerGroup&)>& matters) {
  constexpr double kWorthARun = 0.01;  // of the work: less gains less than a measurement shows
  auto heaviest = groups_.end();
  for (auto each = groups_.begin(); each != groups_.end(); ++each) {
    if (each->size() < 2 || each->work < kWorthARun * work_ || !matters(*each)) continue;
    if (heaviest == groups_.end() || each->work > heaviest->work) heaviest = each;
  }
  if (heaviest == groups_.end()) return false;
  const LayerGroup whole = *heaviest;
  const std::size_t middle = middle_of(candidates_, whole);
  *heaviest = group(whole.first, middle);
  groups_.insert(std::next(heaviest), group(middle, whole.last));
  return true;
}

Indices LayerGroups::others(const std::function<bool(const LayerGroup&)>& in_int8) const {
  Indices indices;
  for (const LayerGroup& each : groups_) {
    if (in_int8(each)) continue;
    for (std::size_t layer = each.first; layer < each.last; ++layer) indices.push_back(layer);
  }
  return indices;
}

}  // namespace tsq::detail
