#include "torchscript/modules/weight_only_linear.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "backends/kernels/packed.h"
#include "torchscript/modules/source_resolver.h"
#include "torchscript/modules/written_module.h"

namespace tsq::torchscript {
namespace {

using c10::ScalarType;
using torch::jit::Module;

/// `_weight_int8pack_mm` reads beyond rows that are no multiple of 16 columns, and crashes.
constexpr int64_t kColumnsOfInt8 = 32;
/// `_convert_weight_to_int4pack_for_cpu` takes rows in sixteens.
constexpr int64_t kRowsOfInt4 = 16;

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

at::Tensor filled_up(const at::Tensor& matrix, int64_t rows, int64_t columns) {
  return at::constant_pad_nd(matrix, {0, columns - matrix.size(1), 0, rows - matrix.size(0)}).contiguous();
}

/// Forward around a call of the kernel on `x`, a matrix in bfloat16.
std::string forward_source(const ir::Weighted& weighted, int64_t padded_columns, int64_t padded_rows,
                           const std::string& kernel) {
  const int64_t rows = weighted.weight.size(0);
  const int64_t columns = weighted.weight.size(1);
  std::string source = fmt::format("def forward(self, input):\n  x = input.reshape([-1, {}])\n", columns);
  if (padded_columns > columns)
    source += fmt::format("  x = torch.constant_pad_nd(x, [0, {}])\n", padded_columns - columns);
  source += fmt::format("  y = {}\n", kernel);
  if (padded_rows > rows) source += fmt::format("  y = y.narrow(1, 0, {})\n", rows);
  if (weighted.bias.defined()) source += "  y = y + self.bias\n";
  return source +
         fmt::format("  y = y.to(dtype=input.dtype)\n  return y.reshape(input.size()[:-1] + [{}])\n", rows);
}

const std::string kBFloat16 =
    fmt::format("x.to(dtype={}).contiguous()", static_cast<int>(ScalarType::BFloat16));

/// The bias, where there is one, and what else a module holds.
std::vector<Attribute> with_bias(const ir::Weighted& weighted, std::vector<Attribute> others) {
  if (weighted.bias.defined())
    others.insert(others.begin(), {"bias", c10::TensorType::get(), weighted.bias.detach()});
  return others;
}

bool has_zero_points(const QParams& qparams) {
  return qparams.zero_point.to(at::kFloat).ne(0).any().item<bool>();
}

Module int8_linear(const ir::Weighted& weighted) {
  const QParams& qparams = *weighted.weight_qparams;
  const int64_t rows = weighted.weight.size(0);
  const int64_t columns = round_up(weighted.weight.size(1), kColumnsOfInt8);
  const at::Tensor codes = kernels::quantized_weight(weighted).int_repr();
  const at::Tensor scales = qparams.scale.to(at::kBFloat16).reshape({-1}).expand({rows}).contiguous();
  return written_module(
      "tsq.Int8Linear",
      with_bias(weighted, {{"weight", c10::TensorType::get(), filled_up(codes, rows, columns)},
                           {"scales", c10::TensorType::get(), scales}}),
      forward_source(weighted, columns, rows,
                     fmt::format("torch._weight_int8pack_mm({}, self.weight, self.scales)", kBFloat16)));
}

constexpr const char* kInt4State = R"(
def __getstate__(self) -> Tuple[Tensor, Tensor, Optional[Tensor], bool]:
  return (self.codes, self.scales_and_zeros, {0}, self.training)

def __setstate__(self, state: Tuple[Tensor, Tensor, Optional[Tensor], bool]):
  self.codes = state[0]
  self.scales_and_zeros = state[1]
  {1}
  self.training = state[3]
  pairs = torch.stack([torch.bitwise_and(state[0], 15), torch.bitwise_right_shift(state[0], 4)], 2)
  self.packed = torch._convert_weight_to_int4pack_for_cpu(pairs.reshape([state[0].size(0), -1]).to(dtype={2}), 1)
)";

/// The kernel counts codes from the middle of their range: (code - 8) · scale + zero.
at::Tensor scales_and_zeros(const QParams& qparams, int64_t rows) {
  constexpr int kMiddle = 8;
  const at::Tensor zeros = (kMiddle - qparams.zero_point.to(at::kFloat)) * qparams.scale;
  const at::Tensor scale = filled_up(qparams.scale, rows, qparams.scale.size(1));
  return at::stack({scale.t(), filled_up(zeros, rows, zeros.size(1)).t()}, 2).to(at::kBFloat16).contiguous();
}

Module int4_linear(const ir::Weighted& weighted) {
  const QParams& qparams = *weighted.weight_qparams;
  const int64_t rows = round_up(weighted.weight.size(0), kRowsOfInt4);
  const int64_t columns = qparams.scale.size(1) * weighted.group_size;
  const at::Tensor groups = weight_in_groups(weighted.weight.detach(), weighted.group_size);
  const at::Tensor plain = at::quantize_per_channel(groups, qparams.scale.reshape({-1}),
                                                    qparams.zero_point.reshape({-1}), 0, ScalarType::QUInt8)
                               .int_repr()
                               .reshape({-1, columns});
  const at::Tensor codes = filled_up(plain, rows, columns);
  const at::Tensor pairs = codes.reshape({rows, -1, 2});
  const bool has_bias = weighted.bias.defined();
  // A module with a saved state of its own keeps its bias there, as a tensor that is never None.
  const std::string take_bias =
      has_bias ? "bias = state[2]\n  assert bias is not None\n  self.bias = bias" : "pass";
  Module module = written_module(
      "tsq.Int4Linear",
      with_bias(weighted, {{"codes", c10::TensorType::get(),
                            pairs.select(2, 0).bitwise_or(pairs.select(2, 1).bitwise_left_shift(4))},
                           {"scales_and_zeros", c10::TensorType::get(), scales_and_zeros(qparams, rows)},
                           {"packed", c10::TensorType::get(),
                            at::_convert_weight_to_int4pack_for_cpu(codes.to(at::kInt), 1)},
                           {"training", c10::BoolType::get(), false}}),
      fmt::format(fmt::runtime(kInt4State), has_bias ? "self.bias" : "None", take_bias,
                  static_cast<int>(ScalarType::Int)));
  module.define(
      forward_source(
          weighted, columns, rows,
          fmt::format("torch._weight_int4pack_mm_for_cpu({}, self.packed, {}, self.scales_and_zeros)",
                      kBFloat16, weighted.group_size)),
      source_resolver());
  return module;
}

}  // namespace

at::Tensor weight_in_groups(const at::Tensor& weight, int64_t group_size) {
  return filled_up(weight, weight.size(0), round_up(weight.size(1), group_size)).reshape({-1, group_size});
}

bool takes_weight_only(const ir::Weighted& weighted) {
  const QParams& qparams = *weighted.weight_qparams;
  if (weighted.weight.scalar_type() != at::kFloat || weighted.weight.dim() != 2) return false;
  const bool by_rows = qparams.qscheme == c10::QScheme::PER_TENSOR_AFFINE || qparams.axis == 0;
  return weighted.group_size > 0 ||
         (qparams.dtype == ScalarType::QInt8 && by_rows && !has_zero_points(qparams));
}

Module weight_only_linear(const ir::Weighted& weighted) {
  return weighted.group_size > 0 ? int4_linear(weighted) : int8_linear(weighted);
}

std::string_view weight_only_kernel(const ir::Weighted& weighted) {
  return weighted.group_size > 0 ? "aten::_weight_int4pack_mm_for_cpu" : "aten::_weight_int8pack_mm";
}

}  // namespace tsq::torchscript
