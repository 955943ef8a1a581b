#include <algorithm>
#include <numeric>

#include "runtime/program/asked.h"
#include "runtime/program/resolve.h"

namespace tsq::runtime {

Shape broadcast_shape(const Asked& asked, const Shape& a, const Shape& b) {
  const auto rank = std::max(a.size(), b.size());
  Shape output(rank, 1);
  for (std::size_t d = 0; d < rank; ++d) {
    const auto size_of = [&](const Shape& shape) {
      return d + shape.size() < rank ? 1 : shape[d + shape.size() - rank];
    };
    const auto left = size_of(a);
    const auto right = size_of(b);
    asked.require(left == right || left == 1 || right == 1,
                  "its inputs are " + to_text(a) + " and " + to_text(b) + ", which do not broadcast");
    output[d] = left == 1 ? right : left;
  }
  return output;
}

Shape shape_of_reshape(const Asked& asked) {
  const auto& input = asked.input();
  const auto elements = elements_of(input);
  Shape output = numbers_of(asked.operation().shape);
  const auto open = std::ranges::find(output, -1);
  if (open != output.end()) {
    *open = 1;
    const auto known = checked_elements(output);
    asked.require(known && *known > 0 && elements % *known == 0, to_text(input) + " does not fill its shape");
    *open = elements / *known;
  }
  asked.require(checked_elements(output) == elements, to_text(input) + " does not fill " + to_text(output));
  return output;
}

Shape shape_of_expand(const Asked& asked) {
  const auto& input = asked.input();
  Shape output = numbers_of(asked.operation().shape);
  asked.require(output.size() >= input.size() && broadcast_shape(asked, output, input) == output,
                to_text(input) + " does not expand to " + to_text(output));
  return output;
}

Shape shape_of_permute(const Asked& asked) {
  const auto& input = asked.input();
  const auto& order = asked.operation().order;
  Shape sorted = order;
  std::ranges::sort(sorted);
  Shape all(input.size());
  std::iota(all.begin(), all.end(), 0);
  asked.require(sorted == all, "its order " + to_text(order) + " is none of " + to_text(input));
  Shape output;
  for (const auto d : order) output.push_back(input[static_cast<std::size_t>(d)]);
  return output;
}

Shape shape_of_slice(const Asked& asked) {
  const auto& operation = asked.operation();
  Shape output = asked.input();
  const auto axis = axis_of(operation, output.size());
  output[axis] = places_of({operation.begin.number, operation.end.number}, operation.step);
  return output;
}

}  // namespace tsq::runtime
