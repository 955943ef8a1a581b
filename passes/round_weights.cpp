// Weights are rounded up or down, whichever lowers the error of the layer's output: with C the covariance of
// what a row meets and e the row's error, eᵀ C e is the output's, and rounding to nearest minimises eᵀ e.
// Each code in turn takes the value that is best given the others (coordinate descent), from the nearest ones
// on, so that the error never grows. Sources: Nagel et al., "Up or Down? Adaptive Rounding for Post-Training
// Quantization" (2020), section 3; Frantar et al., "Optimal Brain Compression" (2022).

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "backends/kernel_limits.h"
#include "modules/fault_conditions.h"
#include "modules/packed.h"
#include "modules/target_cpu.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

constexpr int kMostRounds = 16;
/// The share of the mean variance that each input gets besides: as few data as there may be do not say that a
/// direction never occurs. Source: Frantar et al., "GPTQ" (2022), section 3.
constexpr double kDamping = 0.01;
/// The same of the mean square: inputs are rounded themselves, and single precision leaves no more of a
/// covariance.
constexpr double kInputNoise = 1e-3;
constexpr double kLowestCode = -128;
constexpr double kHighestCode = 127;

/// One row of a weight on its way.
struct Row {
  std::span<double> codes;
  std::span<const double> nearest;
  std::span<double> gradient;  ///< covariance times the row's error
  double scale{};
};

/// One round over a row's codes; false when none changed.
bool improve(const Row& row, std::span<const double> covariance) {
  const std::size_t columns = row.codes.size();
  bool changed = false;
  for (std::size_t j = 0; j < columns; ++j) {
    const std::span<const double> of_column = covariance.subspan(j * columns, columns);
    if (!(of_column[j] > 0)) continue;
    const double wanted = std::nearbyint(-row.gradient[j] / (row.scale * of_column[j]));
    const double code = std::clamp(row.codes[j] + wanted, std::max(kLowestCode, row.nearest[j] - 1),
                                   std::min(kHighestCode, row.nearest[j] + 1));
    const double step = (code - row.codes[j]) * row.scale;
    if (step == 0) continue;
    row.codes[j] = code;
    for (std::size_t k = 0; k < columns; ++k) row.gradient[k] += step * of_column[k];
    changed = true;
  }
  return changed;
}

/// The codes of a group's rows; `weight` is [rows, columns].
at::Tensor best_codes(const at::Tensor& weight, const at::Tensor& nearest, const at::Tensor& scales,
                      const at::Tensor& covariance) {
  at::Tensor codes = nearest.clone();
  at::Tensor gradients = at::matmul(codes * scales.unsqueeze(1) - weight, covariance);
  const auto columns = static_cast<std::size_t>(weight.size(1));
  const std::span<const double> products(covariance.const_data_ptr<double>(), columns * columns);
  double* first_code = codes.mutable_data_ptr<double>();
  const double* first_nearest = nearest.const_data_ptr<double>();
  double* first_gradient = gradients.mutable_data_ptr<double>();
  const double* scale = scales.const_data_ptr<double>();
  at::parallel_for(0, weight.size(0), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const Row row{.codes = {first_code + i * columns, columns},
                    .nearest = {first_nearest + i * columns, columns},
                    .gradient = {first_gradient + i * columns, columns},
                    .scale = scale[i]};
      for (int round = 0; round < kMostRounds && improve(row, products); ++round) {
      }
    }
  });
  return codes;
}

bool can_be_rounded(const ir::Weighted& weighted) {
  if (!weighted.weight_qparams || !weighted.input_products.defined()) return false;
  const QParams& qparams = *weighted.weight_qparams;
  const int64_t columns = weighted.weight.numel() / weighted.weight.size(0);
  return qparams.dtype == c10::ScalarType::QInt8 && qparams.qscheme == c10::QScheme::PER_CHANNEL_AFFINE &&
         qparams.axis == 0 && weighted.group_size == 0 && !qparams.zero_point.any().item<bool>() &&
         weighted.input_products.size(0) == weighted.groups &&
         weighted.input_products.size(1) == columns + 1 &&
         at::isfinite(weighted.input_products).all().item<bool>();
}

/// Kernels that add products in 16 bits bound the codes: their scales are widened for the nearest ones.
bool codes_are_bound(const ir::Weighted& weighted, TargetCpu cpu) {
  return lowering::sums_pairs_in_16_bits(modules::current_engine(), modules::weighted_shape(weighted),
                                         modules::has_vnni(cpu));
}

void round(ir::Weighted& weighted) {
  const at::Tensor exact =
      weighted.weight.detach()
          .to(at::kDouble)
          .reshape({weighted.groups, -1, weighted.weight.numel() / weighted.weight.size(0)});
  const at::Tensor nearest =
      modules::quantized_weight(weighted).int_repr().to(at::kDouble).reshape(exact.sizes());
  const at::Tensor scales =
      weighted.weight_qparams->scale.to(at::kDouble).reshape({weighted.groups, exact.size(1)}).contiguous();
  const at::Tensor products = weighted.input_products.to(at::kDouble);
  const int64_t columns = exact.size(2);
  const at::Tensor mean = products.slice(1, 0, columns).select(2, columns);
  at::Tensor rounded = at::empty_like(exact);
  for (int64_t group = 0; group < weighted.groups; ++group) {
    const at::Tensor covariance =
        products[group].slice(0, 0, columns).slice(1, 0, columns) - at::outer(mean[group], mean[group]);
    covariance.diagonal().add_(kDamping * covariance.diagonal().mean() +
                               kInputNoise * products[group].diagonal().slice(0, 0, columns).mean());
    rounded[group] =
        best_codes(exact[group], nearest[group].contiguous(), scales[group], covariance.contiguous()) *
        scales[group].unsqueeze(1);
  }
  const at::Tensor shift = ((rounded - exact) * mean.unsqueeze(1)).sum(2).flatten();
  const at::Tensor bias = weighted.bias.defined()
                              ? weighted.bias.detach()
                              : at::zeros({exact.size(0) * exact.size(1)}, weighted.weight.options());
  weighted.weight = rounded.reshape(weighted.weight.sizes()).to(weighted.weight.scalar_type());
  weighted.bias = (bias.to(at::kDouble) - shift).to(bias.scalar_type());
  weighted.input = {.sizes = weighted.input.sizes};
}

}  // namespace

void round_weights(ir::GraphModule& gm, TargetCpu cpu) {
  const c10::NoGradGuard no_grad;
  for (ir::ModuleCall& call : gm.calls) {
    ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr || !can_be_rounded(*weighted)) continue;
    if (!codes_are_bound(*weighted, cpu)) round(*weighted);
    weighted->input_products.reset();
  }
}

}  // namespace tsq::passes
