#include "backends/programs/weight_forms.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "backends/kernels/packed.h"
#include "backends/kernels/weight_codes.h"

namespace tsq::programs {
namespace {

/// Whether no two products of one output channel leave 16 bits, whichever two are added.
bool is_bounded(const at::Tensor& codes) {
  if (codes.numel() == 0) return true;
  const at::Tensor sums = kernels::largest_pair_sums(codes.flatten(1).unsqueeze(2), kernels::PairSums::Any);
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
  forms.is_bounded = is_bounded(forms.transposed ? forms.codes.transpose(0, 1) : forms.codes);
}

}  // namespace tsq::programs
