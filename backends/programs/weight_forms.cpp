#include "backends/programs/weight_forms.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "backends/kernels/packed.h"

namespace tsq::programs {
namespace {

/// Two products of a byte by a code fit into 16 bits where the codes' sum is not larger.
constexpr double kLargestSum = 128;

/// Whether no two products of one output channel leave 16 bits, whichever two are added.
bool is_bounded(const at::Tensor& codes) {
  const at::Tensor rows = codes.to(at::kFloat).flatten(1);
  const std::int64_t count = std::min<std::int64_t>(2, rows.size(1));
  const auto largest = [&](const at::Tensor& of_one_sign) {
    return std::get<0>(of_one_sign.clamp_min(0).topk(count, 1)).sum(1).max().item<double>();
  };
  return rows.numel() == 0 || std::max(largest(rows), largest(-rows)) <= kLargestSum;
}

}  // namespace

bool has_symmetric_codes(const ir::Weighted& weighted, std::int64_t output_axis) {
  const auto& qparams = weighted.weight_qparams;
  if (!qparams || qparams->dtype != c10::ScalarType::QInt8 || weighted.group_size != 0) return false;
  if (qparams->zero_point.ne(0).any().item<bool>()) return false;
  return qparams->qscheme == c10::QScheme::PER_TENSOR_AFFINE ||
         qparams->qscheme == c10::QScheme::PER_TENSOR_SYMMETRIC || qparams->axis == output_axis;
}

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
