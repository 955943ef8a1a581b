#include <algorithm>

#include "runtime/primitives/builders.h"

namespace tsq::runtime {
namespace {

ReduceKind reduce_kind(Kind kind) {
  return kind == Kind::Amax ? ReduceKind::Max : kind == Kind::Amin ? ReduceKind::Min : ReduceKind::Sum;
}

/// How what `count` elements add up to, or the largest of them, is written.
Rounding rounding_of_reduced(Kind kind, const View& input, const View& output, std::int64_t count) {
  const auto number = static_cast<double>(count);
  if (kind == Kind::Sum) return rounding_of(output, input.scale, -input.scale * input.zero_point * number);
  const double share = kind == Kind::Mean ? 1 / number : 1;
  return rounding_of(output, input.scale * share, -input.scale * input.zero_point);
}

}  // namespace

bool build_reduction(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View input = compilation.view(operation.inputs[0]);
  const View output = compilation.any_destination(operation.output);
  Shape kept;
  Shape reduced;
  Shape kept_strides[2];
  Shape reduced_strides;
  for (std::size_t d = 0; d < input.sizes.size(); ++d) {
    if (std::ranges::binary_search(operation.axes, static_cast<std::int64_t>(d))) {
      reduced.push_back(input.sizes[d]);
      reduced_strides.push_back(input.strides[d]);
      continue;
    }
    kept_strides[0].push_back(output.strides[operation.keep_dims ? d : kept.size()]);
    kept_strides[1].push_back(input.strides[d]);
    kept.push_back(input.sizes[d]);
  }
  const ReduceTask task{.kind = reduce_kind(operation.kind),
                        .kept = make_loops(kept, kept_strides),
                        .reduced = make_loops(reduced, {&reduced_strides, 1}),
                        .from = input.dtype,
                        .to = rounding_of_reduced(operation.kind, input, output, elements_of(reduced))};
  const auto units = task.kept.rows() * ((task.kept.inner() + kPoolChannels - 1) / kPoolChannels);
  const View views[] = {output, input};
  compilation.add_kernel("reduce", views, units,
                         [task](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
                           kernels().reduce(task, pointers[0], pointers[1], begin, end);
                         });
  compilation.deliver(operation.output, output);
  return true;
}

}  // namespace tsq::runtime
