#include "backends/programs/weight_forms.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/packed.h"
#include "backends/kernels/weight_codes.h"

namespace tsq::programs {
namespace {

/// Whether no sum of two products leaves 16 bits, on whatever processor the program runs.
bool is_bounded(const at::Tensor& codes, const kernels::WeightedShape& shape) {
  const kernels::Target target{.cpu = TargetCpu::WithoutVnni, .runtime = LoweringTarget::Fused};
  const kernels::PairSums pairs = kernels::pair_sums(target, shape);
  if (pairs == kernels::PairSums::None || codes.numel() == 0) return true;
  // Of a transposed convolution the inputs of all groups are taken together.
  const at::Tensor sums = kernels::largest_pair_sums(codes, /*groups=*/1, shape.transposed, pairs);
  return sums.max().item<double>() <= static_cast<double>(kernels::kLargestPairSum);
}

}  // namespace

WeightForms& forms_of(TranslationCache& cache, const ir::Weighted& weighted, bool transposed) {
  auto& all = cache.weights[weighted.weight.const_data_ptr()];
  const at::Tensor& scale = weighted.weight_qparams->scale;
  const auto known = std::ranges::find_if(all, [&](const WeightForms& forms) {
    return forms.transposed == transposed && forms.scale.equal(scale);
  });
  return known != all.end() ? *known
                            : all.emplace_back(WeightForms{.scale = scale, .transposed = transposed});
}

void fill_codes(WeightForms& forms, const ir::Weighted& weighted) {
  if (forms.codes.defined()) return;
  forms.codes = kernels::quantized_weight(weighted).int_repr();
  forms.scales = forms.scale.to(at::kFloat).reshape({-1}).clone();
  forms.is_bounded = is_bounded(forms.codes, kernels::weighted_shape(weighted, forms.transposed));
}

}  // namespace tsq::programs
