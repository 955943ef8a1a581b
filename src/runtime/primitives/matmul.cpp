#include <algorithm>
#include <string_view>

#include "runtime/primitives/builders.h"
#include "runtime/primitives/epilogue.h"

namespace tsq::runtime {
namespace {

/// With dimensions of one element before the others.
View with_rank(const View& view, std::size_t rank) {
  View wide = view;
  while (wide.sizes.size() < rank) {
    wide.sizes.insert(wide.sizes.begin(), 1);
    wide.strides.insert(wide.strides.begin(), view.sizes.empty() ? 1 : elements_of(view.sizes));
  }
  return wide;
}

/// oneDNN multiplies matrices whose rows or whose columns are contiguous, and do not overlap.
View as_matrices(Compilation& compilation, const View& view) {
  const auto rank = view.sizes.size();
  const auto lines = [&](std::size_t along, std::size_t across) {
    return (view.sizes[along] == 1 || view.strides[along] == 1) &&
           (view.sizes[across] == 1 || view.strides[across] >= view.sizes[along]);
  };
  bool apart = true;
  for (std::size_t d = 0; d + 2 < rank; ++d) apart = apart && (view.sizes[d] == 1 || view.strides[d] > 0);
  if (apart && (lines(rank - 1, rank - 2) || lines(rank - 2, rank - 1))) return view;
  return compilation.with_strides(view, row_major_strides(view.sizes));
}

/// Matrices that are the same for every place of a dimension broadcast along it, if the other operand's do
/// not.
void broadcast_repeated(View& view, const View& other) {
  for (std::size_t d = 0; d + 2 < view.sizes.size(); ++d) {
    if (view.strides[d] == 0 && other.sizes[d] == view.sizes[d]) view.sizes[d] = 1;
  }
}

/// Strides of dimensions of one element, which say nothing, become those of a matrix without gaps.
View tidied(const View& view) {
  View tidy = view;
  const auto rank = view.sizes.size();
  const auto last = rank - 1;
  const auto before = rank - 2;
  if (view.sizes[last] == 1 && view.strides[before] != 1) tidy.strides[last] = 1;
  if (view.sizes[last] == 1 && view.strides[before] == 1) tidy.strides[last] = view.sizes[before];
  if (view.sizes[before] == 1) tidy.strides[before] = tidy.strides[last] == 1 ? view.sizes[last] : 1;
  for (std::size_t d = before; d-- > 0;) {
    if (view.sizes[d] > 1) continue;
    for (std::size_t e = d + 1; e < rank; ++e) {
      tidy.strides[d] = std::max(e == d + 1 ? 0 : tidy.strides[d], tidy.sizes[e] * tidy.strides[e]);
    }
  }
  return tidy;
}

void add_zero_point(Compilation& compilation, dnnl::primitive_attr& attributes,
                    std::vector<Operand>& operands, int argument, int zero_point) {
  if (zero_point == 0) return;
  attributes.set_zero_points_mask(argument, 0);
  operands.push_back(compilation.int_operand(DNNL_ARG_ATTR_ZERO_POINTS | argument, zero_point));
}

/// Does a post-op read a mask, which is the same for several rows or matrices?
bool reads_mask(const Compilation& compilation) {
  const auto& operation = compilation.operation();
  return std::ranges::any_of(operation.post_ops, [&](const PostOp& post_op) {
    return post_op.value >= 0 && compilation.shape(post_op.value) != compilation.shape(operation.output);
  });
}

/// Of oneDNN's kernels only those of BRGEMM read masks right and fast: its GEMM takes [1, 1, rows, columns]
/// for a matrix of its own for each head.
bool reads_masks(const dnnl::matmul::primitive_desc& descriptor) {
  return std::string_view(descriptor.impl_info_str()).starts_with("brg");
}

/// Unless masks are spread out this declines where oneDNN has no fast kernel for them.
bool build(Compilation& compilation, bool spread) {
  const auto& operation = compilation.operation();
  const auto& sizes = compilation.shape(operation.output);
  const auto rank = sizes.size();
  const View left = compilation.view(operation.inputs[0]);
  const View right = compilation.view(operation.inputs[1]);
  View a = with_rank(left, rank);
  View b = with_rank(right, rank);
  broadcast_repeated(a, b);
  broadcast_repeated(b, a);
  a = tidied(as_matrices(compilation, compilation.as_unsigned(a)));
  b = tidied(as_matrices(compilation, compilation.as_signed(b)));
  const View wanted =
      tidied(compilation.destination(operation.output, compilation.strides_of(operation.output)));
  const View inputs[] = {a, b, left, right};
  const bool int8 = is_int8(a.dtype);
  const auto epilogue = plan_epilogue(
      compilation, wanted, inputs,
      {.scaled = int8, .shifted = false, .unit = operation.alpha, .form = Form::Matrices, .spread = spread});
  const View output = placed(compilation, wanted, epilogue);

  auto attributes = attributes_with(epilogue.post_ops);
  const auto output_desc = desc_of(output);
  std::vector<Operand> operands{compilation.operand(DNNL_ARG_SRC, a, desc_of(a)),
                                compilation.operand(DNNL_ARG_WEIGHTS, b, desc_of(b)),
                                compilation.operand(DNNL_ARG_DST, output, output_desc)};
  if (int8) {
    attributes.set_scales_mask(DNNL_ARG_WEIGHTS, 0);
    const auto scale = static_cast<float>(operation.alpha * a.scale * b.scale / epilogue.unit);
    operands.push_back(
        compilation.floats_operand(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, {scale},
                                   {{1}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::x}));
    add_zero_point(compilation, attributes, operands, DNNL_ARG_SRC, a.zero_point);
    add_zero_point(compilation, attributes, operands, DNNL_ARG_WEIGHTS, b.zero_point);
  }
  operands.insert(operands.end(), epilogue.operands.begin(), epilogue.operands.end());
  const dnnl::matmul::primitive_desc descriptor(cpu_engine(), desc_of(a), desc_of(b), output_desc,
                                                attributes);
  if (!spread && !reads_masks(descriptor)) return false;
  const auto shape = to_text(a.sizes) + " x " + to_text(b.sizes) + " -> " + to_text(output.sizes);
  compilation.add_primitive(descriptor, dnnl::matmul(descriptor), shape, std::move(operands));
  compilation.deliver(operation.output, output);
  return true;
}

}  // namespace

bool build_matmul(Compilation& compilation) {
  if (reads_mask(compilation)) {
    auto mark = compilation.mark();
    try {
      if (build(compilation, false)) return true;
    } catch (const dnnl::error&) {
    }
    compilation.roll_back(std::move(mark));
  }
  return build(compilation, true);
}

}  // namespace tsq::runtime
