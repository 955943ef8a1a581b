#pragma once

#include <functional>
#include <ranges>
#include <type_traits>
#include <vector>

namespace tsq {

/// What `change` makes of each element of a range, a function or a member.
template <typename Range, typename Change>
auto mapped(Range&& range, const Change& change) {
  using Result = std::invoke_result_t<const Change&, std::ranges::range_reference_t<Range>>;
  std::vector<std::remove_cvref_t<Result>> results;
  for (auto&& element : range) results.push_back(std::invoke(change, element));
  return results;
}

}  // namespace tsq
