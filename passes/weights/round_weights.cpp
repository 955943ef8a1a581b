// Weights are rounded up or down, whichever lowers the error of the layer's output: with C the covariance of
// what a row meets and e the row's error, eᵀ C e is the output's, and rounding to nearest minimises eᵀ e.
// Sources: Nagel et al., "Up or Down? Adaptive Rounding for Post-Training
// Quantization" (2020), section 3; Frantar et al., "Optimal Brain Compression" (2022).

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <vector>

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/kernel_limits.h"
#include "backends/kernels/packed.h"
#include "io/samples.h"
#include "ir/analysis.h"
#include "passes/weights/layer_bias.h"
#include "passes/weights/pair_sums.h"
#include "passes/weights/passes.h"
#include "passes/weights/rounded_rows.h"
#include "torchscript/modules/tied_table.h"

namespace tsq::passes {
namespace {

/// The share of the mean variance that each input gets besides: as few data as there may be do not say that a
/// direction never occurs. Source: Frantar et al., "GPTQ" (2022), section 3.
constexpr double kDamping = 0.01;
/// The same of the mean square: inputs come rounded, about 25 dB above their error, and single precision
/// leaves no more of a covariance.
constexpr double kInputNoise = 3e-3;
/// All tensors are of single precision and contiguous.
struct RoundedLayer {
  at::Tensor weight;      ///< [groups, rows, columns]
  at::Tensor nearest;     ///< codes, as the weight
  at::Tensor scales;      ///< [groups, rows, 1]
  at::Tensor covariance;  ///< [groups, columns, columns]
};

/// As the weight.
at::Tensor best_codes(const RoundedLayer& layer) {
  at::Tensor codes = layer.nearest.clone();
  at::Tensor gradients = at::bmm(codes * layer.scales - layer.weight, layer.covariance);
  const auto columns = static_cast<std::size_t>(layer.weight.size(2));
  const std::span<const float> products(layer.covariance.const_data_ptr<float>(),
                                        static_cast<std::size_t>(layer.covariance.numel()));
  float* first_code = codes.mutable_data_ptr<float>();
  const float* first_nearest = layer.nearest.const_data_ptr<float>();
  float* first_gradient = gradients.mutable_data_ptr<float>();
  const float* scale = layer.scales.const_data_ptr<float>();
  const int64_t rows_of_group = layer.weight.size(1);
  const int64_t blocks_of_group = (rows_of_group + kRowsAtATime - 1) / kRowsAtATime;
  const auto improve_block = [&](int64_t block) {
    const int64_t group = block / blocks_of_group;
    const int64_t begin = block % blocks_of_group * kRowsAtATime;
    std::array<RoundedRow, kRowsAtATime> rows;
    std::size_t count = 0;
    for (int64_t row = begin; row < std::min(begin + kRowsAtATime, rows_of_group); ++row) {
      const auto i = static_cast<std::size_t>(group * rows_of_group + row);
      rows[count++] = {.codes = {first_code + i * columns, columns},
                       .nearest = {first_nearest + i * columns, columns},
                       .gradient = {first_gradient + i * columns, columns},
                       .scale = scale[i]};
    }
    improve_codes({rows.data(), count},
                  products.subspan(static_cast<std::size_t>(group) * columns * columns, columns * columns));
  };
  at::parallel_for(0, layer.weight.size(0) * blocks_of_group, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) improve_block(block);
  });
  return codes;
}

/// Of what the rows of one layer's weight meet; of double precision.
struct InputMoments {
  at::Tensor squares;  ///< mean of x xᵀ: [groups, columns, columns]
  at::Tensor mean;     ///< [groups, columns]
  double count{};      ///< of the x that were seen
};

InputMoments moments_of(const at::Tensor& products) {
  const int64_t columns = products.size(1) - 1;
  const at::Tensor sums = products.to(at::kDouble);
  const at::Tensor count = sums.select(1, columns).select(1, columns);
  const at::Tensor means = sums / count.reshape({-1, 1, 1});
  return {.squares = means.slice(1, 0, columns).slice(2, 0, columns),
          .mean = means.slice(1, 0, columns).select(2, columns),
          .count = count.min().item<double>()};
}

/// What correlations lose that `count` samples show: of few samples of many inputs, most are chance.
/// `covariance` is [groups, columns, columns]; returns [groups, 1, 1]. Source: Chen et al., "Shrinkage
/// Algorithms for MMSE Covariance Estimation" (2010), equation 23, of inputs of variance one.
at::Tensor shrinkage(const at::Tensor& covariance, double count) {
  const at::Tensor variance = covariance.diagonal(0, 1, 2);
  const at::Tensor inverse = at::where(variance.gt(0), variance.reciprocal(), 0.0).unsqueeze(2);
  const at::Tensor columns = inverse.gt(0).sum(1, true).clamp_min(1).to(at::kDouble);
  const at::Tensor squares = inverse.transpose(1, 2).bmm(covariance.square()).bmm(inverse);
  const at::Tensor share = 1.0 - columns.reciprocal() * 2.0;
  const at::Tensor of_others = squares - columns;
  const at::Tensor shrinkage = (share * squares + columns.square()) / ((count + share) * of_others);
  return at::where(of_others.gt(0), shrinkage.clamp_max(1.0), 1.0);
}

/// Shrunk and damped, in units of about its mean variance: in single precision, small inputs are no smaller
/// than others.
at::Tensor estimated_covariance(const InputMoments& moments) {
  at::Tensor covariance = moments.squares - moments.mean.unsqueeze(1) * moments.mean.unsqueeze(2);
  at::Tensor variance = covariance.diagonal(0, 1, 2).clone();
  covariance.mul_(1.0 - shrinkage(covariance, moments.count));
  variance.add_(kDamping * variance.mean(1, true) +
                kInputNoise * moments.squares.diagonal(0, 1, 2).mean(1, true));
  covariance.diagonal(0, 1, 2).copy_(variance);
  return covariance / at::exp2(at::log2(variance.mean(1, true)).floor()).unsqueeze(2);
}

bool can_be_rounded(const ir::Weighted& weighted) {
  if (!weighted.weight_qparams || !weighted.seen.input_products.defined()) return false;
  const int64_t columns = weighted.weight.numel() / weighted.weight.size(0);
  return torchscript::are_symmetric_rows(*weighted.weight_qparams) && weighted.group_size == 0 &&
         weighted.seen.input_products.size(0) == weighted.groups &&
         weighted.seen.input_products.size(1) == columns + 1 &&
         at::isfinite(weighted.seen.input_products).all().item<bool>();
}

std::vector<int64_t> sizes_in_groups(const ir::Weighted& weighted) {
  return {weighted.groups, -1, weighted.weight.numel() / weighted.weight.size(0)};
}

at::Tensor scales_of(const ir::Weighted& weighted) {
  return weighted.weight_qparams->scale.to(at::kFloat).reshape({weighted.groups, -1, 1}).contiguous();
}

/// Where sums of pairs are bound, codes that are learned have room to change by one each.
constexpr int64_t kRoom = 2;

/// The learned codes, or, of rows with a pair whose sum could overflow then, the nearest ones.
at::Tensor without_overflow(const at::Tensor& codes, const at::Tensor& nearest, const ir::Weighted& weighted,
                            kernels::PairSums pairs) {
  if (pairs == kernels::PairSums::None) return codes;
  const at::Tensor sums = kernels::largest_pair_sums(codes.reshape(nearest.sizes()), weighted.groups,
                                                     /*is_transposed=*/false, pairs);
  const at::Tensor overflows = sums.gt(kernels::kLargestPairSum).reshape({weighted.groups, -1, 1});
  return at::where(overflows, nearest.reshape(codes.sizes()).to(codes.scalar_type()), codes);
}

ir::LearnedRounding learned(const ir::Weighted& weighted, const at::Tensor& nearest, const at::Tensor& scales,
                            kernels::PairSums pairs) {
  const InputMoments moments = moments_of(weighted.seen.input_products);
  const auto in_single = [&](const at::Tensor& tensor) {
    return tensor.detach().reshape(sizes_in_groups(weighted)).to(at::kFloat).contiguous();
  };
  const at::Tensor exact = in_single(weighted.weight);
  const at::Tensor best =
      best_codes({.weight = exact,
                  .nearest = in_single(nearest),
                  .scales = scales,
                  .covariance = estimated_covariance(moments).to(at::kFloat).contiguous()});
  const at::Tensor codes = without_overflow(best, nearest, weighted, pairs);
  return {.codes = codes.to(at::kChar),
          .scales = scales,
          .excess = ((scales * codes - exact) * moments.mean.unsqueeze(1)).sum(2).flatten()};
}

/// Of what a layer's rounding is learned from. Of one calibration the products of a layer's inputs differ by
/// factors of the inputs alone, which their squares and means show.
std::uint64_t hash_of_source(const ir::Weighted& weighted, const at::Tensor& nearest,
                             const at::Tensor& scales) {
  const at::Tensor& products = weighted.seen.input_products;
  return detail::hash_of({weighted.weight.detach(), nearest, scales, products.diagonal(0, 1, 2),
                          products.select(2, products.size(2) - 1)});
}

ir::LearnedRounding known_or_learned(ir::Weighted& weighted, const PassContext& context) {
  const kernels::PairSums pairs = kernels::pair_sums(context.target, kernels::weighted_shape(weighted));
  if (pairs != kernels::PairSums::None) {
    clip_to_codes(weighted);
    widen_scales(weighted, /*is_transposed=*/false, pairs, kernels::kLargestPairSum - kRoom);
  }
  const at::Tensor nearest = kernels::quantized_weight(weighted).int_repr();
  const at::Tensor scales = scales_of(weighted);
  const auto learn = [&] { return learned(weighted, nearest, scales, pairs); };
  if (context.roundings == nullptr) return learn();
  return context.roundings->of(hash_of_source(weighted, nearest, scales), learn);
}

void round(const ir::LearnedRounding& learned, ir::Weighted& weighted) {
  if (!at::equal(learned.scales, scales_of(weighted))) {  // those of another processor
    at::Tensor& scale = weighted.weight_qparams->scale;
    scale = learned.scales.reshape(scale.sizes()).to(scale.scalar_type());
  }
  const at::Tensor rounded = learned.scales * learned.codes.to(at::kFloat);
  weighted.weight = rounded.reshape(weighted.weight.sizes()).to(weighted.weight.scalar_type());
  take_off_bias(weighted, learned.excess);
  weighted.seen.input = {.sizes = weighted.seen.input.sizes};
}

}  // namespace

bool round_weights(ir::Model& model, const PassContext& context) {
  const c10::NoGradGuard no_grad;
  std::vector<std::size_t> layers;
  for (std::size_t call = 0; call < model.calls.size(); ++call) {
    const ir::Weighted* weighted = ir::weighted_of(model.calls[call]);
    if (weighted != nullptr && can_be_rounded(*weighted)) layers.push_back(call);
  }
  bool has_changed = false;
  std::unordered_map<std::size_t, int64_t> larger_scales;
  for (const std::size_t call : layers) {
    ir::Weighted& weighted = *ir::weighted_of(model.calls[call]);
    const at::Tensor scales = scales_of(weighted);
    // What is looked up besides is best with the nearest codes.
    if (!model.rounding_is_known && !torchscript::is_quantized_table(model, weighted.weight))
      model.learned_rounding.insert_or_assign(call, known_or_learned(weighted, context));
    if (const auto known = model.learned_rounding.find(call); known != model.learned_rounding.end()) {
      round(known->second, weighted);
      larger_scales[call] = scales_of(weighted).ne(scales).sum().item<int64_t>();
      has_changed = true;
    }
    weighted.seen.input_products.reset();
    context.advance(Part::Layer, layers.size());
  }
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    const auto found =
        ir::is_module_call(node) ? larger_scales.find(ir::call_index(node)) : larger_scales.end();
    if (found == larger_scales.end()) continue;
    const ir::Weighted& weighted = *ir::weighted_of(model.calls[found->first]);
    tell_of_larger_scales(model, node, found->second, weighted.weight_qparams->scale.numel());
  }
  return has_changed;
}

}  // namespace tsq::passes
