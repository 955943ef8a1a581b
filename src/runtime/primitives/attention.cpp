#include "runtime/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/primitives/builders.h"
#include "runtime/program/checked.h"

namespace tsq::runtime {
namespace {

/// A view as matrices for each place of `outer`, the dimensions before the last two.
View as_heads(const View& view, const Shape& outer) {
  const auto rank = view.sizes.size();
  Shape sizes = outer;
  sizes.insert(sizes.end(), view.sizes.end() - 2, view.sizes.end());
  View heads = view;
  heads.strides = broadcast_strides(view, sizes);
  heads.strides[outer.size()] = view.strides[rank - 2];
  heads.strides[outer.size() + 1] = view.strides[rank - 1];
  heads.sizes = sizes;
  return heads;
}

AttentionOperand operand_of(const View& heads) {
  const auto rank = heads.sizes.size();
  return {.dtype = heads.dtype,
          .zero_point = heads.zero_point,
          .row_stride = heads.strides[rank - 2],
          .column_stride = heads.strides[rank - 1]};
}

/// The first elements of every operand's matrices, in the order in which `outer` is counted.
std::vector<AttentionHead> heads_of(const Shape& outer, std::span<const View> operands) {
  std::vector<AttentionHead> heads(static_cast<std::size_t>(elements_of(outer)));
  for (std::size_t h = 0; h < heads.size(); ++h) {
    auto left = static_cast<std::int64_t>(h);
    heads[h] = {};
    for (std::size_t d = outer.size(); d-- > 0;) {
      const auto place = left % outer[d];
      left /= outer[d];
      for (std::size_t o = 0; o < operands.size(); ++o) heads[h][o] += place * operands[o].strides[d];
    }
  }
  return heads;
}

/// Keys and values are packed, and may be views that repeat a few numbers without end.
bool counts_in_64_bits(const Compilation& compilation, const AttentionTask& task) {
  const auto columns = checked_sum(task.width, task.value_width);
  const auto packed = checked_product(checked_product(task.keys, columns), bytes_of(Dtype::F32));
  if (packed) compilation.require_memory(*packed);
  constexpr std::int64_t kLongest = std::numeric_limits<std::int32_t>::max();
  return packed && std::max({task.queries, task.keys, task.width, task.value_width}) <= kLongest;
}

/// A mask of floats that broadcasts to the scores.
View mask_of(Compilation& compilation, const Shape& scores) {
  const View mask = compilation.as_float(compilation.view(compilation.operation().inputs[3]));
  View spread = mask;
  spread.strides = broadcast_strides(mask, scores);
  spread.sizes = scores;
  return spread;
}

/// The kernel on operands output, scratch, queries, keys, values and the mask.
void add_attention(Compilation& compilation, const AttentionTask& task, const View& output,
                   std::span<const View> inputs) {
  // Each part has memory of its own; OpenMP may give several to one thread.
  const auto parts = std::min<std::int64_t>(compilation.threads(), task.units());
  const auto floats = (attention_scratch(task) + 15) / 16 * 16;
  std::vector<View> views{output, compilation.fresh(Dtype::F32, {parts * floats}, {1})};
  views.insert(views.end(), inputs.rbegin(), inputs.rend());
  const auto kernel = attention_kernel();
  compilation.add_kernel(
      "attention", views, parts,
      [task, kernel, parts, floats, last = views.size() - 1](std::byte* const* pointers, std::int64_t begin,
                                                             std::int64_t end) {
        for (auto part = begin; part < end; ++part) {
          const AttentionPointers own{.out = pointers[0],
                                      .query = pointers[last],
                                      .key = pointers[last - 1],
                                      .value = pointers[last - 2],
                                      .mask = task.masked ? pointers[last - 3] : nullptr,
                                      .scratch = reinterpret_cast<float*>(pointers[1]) + part * floats};
          kernel(task, own, task.units() * part / parts, task.units() * (part + 1) / parts);
        }
      });
}

}  // namespace

bool build_attention(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View output = compilation.any_destination(operation.output);
  const Shape outer(output.sizes.begin(), output.sizes.end() - 2);
  std::vector<View> operands{output};
  for (std::size_t i = 0; i < 3; ++i) {
    operands.push_back(as_heads(compilation.view(operation.inputs[i]), outer));
  }
  const auto& query = operands[1];
  const auto& key = operands[2];
  const auto& value = operands[3];
  const auto rank = output.sizes.size();
  const auto width = query.sizes[rank - 1];
  const double alpha = operation.alpha > 0 ? operation.alpha : 1 / std::sqrt(static_cast<double>(width));
  AttentionTask task{.queries = query.sizes[rank - 2],
                     .keys = key.sizes[rank - 2],
                     .width = width,
                     .value_width = value.sizes[rank - 1],
                     .query = operand_of(query),
                     .key = operand_of(key),
                     .value = operand_of(value),
                     .output = operand_of(output),
                     .factor = static_cast<float>(alpha * query.scale * key.scale),
                     .masked = operation.inputs.size() == 4,
                     .causal = operation.causal,
                     .to = rounding_of(output, value.scale)};
  if (!counts_in_64_bits(compilation, task)) return false;
  if (task.masked) {
    Shape scores = outer;
    scores.insert(scores.end(), {task.queries, task.keys});
    operands.push_back(mask_of(compilation, scores));
    task.mask = operand_of(operands.back());
  }
  compilation.hold(elements_of(outer), sizeof(AttentionHead));
  task.heads = heads_of(outer, operands);
  add_attention(compilation, task, output, std::span(operands).subspan(1));
  compilation.deliver(operation.output, output);
  return true;
}

}  // namespace tsq::runtime
