#include "operators/error_passage.h"

#include <ATen/ATen.h>

#include <limits>
#include <optional>
#include <string_view>

#include "ir/analysis.h"
#include "ir/quantize_operators.h"
#include "operators/arguments.h"
#include "operators/clamp_bounds.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace {

using ir::Model;
using ir::Node;

/// Where hardswish and hardsigmoid bend.
constexpr double kBend = 3;

ErrorPassage leaky(const at::Tensor& slopes, int64_t dims) {
  if (!slopes.defined()) return PassesAll{};
  std::vector<int64_t> shape(static_cast<std::size_t>(dims) + 1, 1);
  shape[0] = -1;
  return PassesBelowZero{slopes.square().reshape(shape)};
}

/// The activation inside of a fused module.
ErrorPassage fused_passage(const ir::ModuleCall& activation, int64_t dims) {
  if (activation.type.name == "torch.nn.ReLU")
    return PassesBetween{0, std::numeric_limits<double>::infinity()};
  if (activation.type.name == "torch.nn.LeakyReLU")
    return leaky(at::scalar_tensor(negative_slope(activation)), dims);
  return PassesAll{};
}

}  // namespace

ErrorPassage error_passage_after(const Model& model, const Node* layer, int64_t dims) {
  const ir::ModuleCall& call = ir::call_of(model, layer);
  if (call.members.size() > 1) return fused_passage(call.members.back(), dims);
  const Node* reader = ir::only_reader(layer);
  while (reader != nullptr && (reader->kind() == ir::kQuantize || reader->kind() == ir::kDequantize))
    reader = ir::only_reader(reader);
  if (reader == nullptr) return PassesAll{};
  if (const auto bounds = clamp_bounds(model, reader)) return PassesBetween{bounds->lowest, bounds->highest};
  if (is_one_of(model, reader, {"hardswish", "silu"})) return PassesAsHardswish{};
  if (is_one_of(model, reader, {"hardsigmoid", "sigmoid"})) return PassesBetween{-kBend, kBend};
  const bool is_leaky = is_one_of(model, reader, {"prelu", "leaky_relu"});
  return is_leaky ? leaky(slopes_of(model, reader), dims) : PassesAll{};
}

namespace {

at::Tensor share_of(const PassesAll& /*passage*/, const at::Tensor& x) { return at::ones_like(x); }
at::Tensor share_of(const PassesBetween& passage, const at::Tensor& x) {
  return x.gt(passage.lowest).logical_and(x.lt(passage.highest)).to(x.scalar_type());
}
at::Tensor share_of(const PassesBelowZero& passage, const at::Tensor& x) {
  return at::where(x.gt(0), at::ones({}, x.options()), passage.share.to(x.scalar_type()));
}
at::Tensor share_of(const PassesAsHardswish& /*passage*/, const at::Tensor& x) {
  const at::Tensor derivative = (2 * x + kBend) / (2 * kBend);
  return derivative.square().masked_fill(x.lt(-kBend), 0).masked_fill(x.gt(kBend), 1);
}

at::Tensor integral_of(const PassesAll& /*passage*/, const at::Tensor& x) { return x; }
at::Tensor integral_of(const PassesBetween& passage, const at::Tensor& x) {
  return x.clamp(passage.lowest, passage.highest);
}
at::Tensor integral_of(const PassesBelowZero& passage, const at::Tensor& x) {
  return at::where(x.gt(0), x, x * passage.share.to(x.scalar_type()));
}
at::Tensor integral_of(const PassesAsHardswish& /*passage*/, const at::Tensor& x) {
  return (2 * x.clamp(-kBend, kBend) + kBend).pow(3) / (24 * kBend * kBend) + (x - kBend).clamp_min(0);
}

}  // namespace

at::Tensor passed_share(const ErrorPassage& passage, const at::Tensor& x) {
  return std::visit([&](const auto& each) { return share_of(each, x); }, passage);
}

at::Tensor passed_integral(const ErrorPassage& passage, const at::Tensor& x) {
  return std::visit([&](const auto& each) { return integral_of(each, x); }, passage);
}

}  // namespace tsq::operators
